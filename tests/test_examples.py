"""Every example runs as its README says, away from the repository, with no key."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_port, running

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "agents")
ROWS = {
    "a2a": 3,
    "agentv-files": 5,
    "batch-cli": 3,
    "code-judge": 2,
    "custom-evaluator": 2,
    "jsonl-dataset": 3,
    "mcp": 3,
    "python-agent": 2,
    "quickstart": 6,
    "rubric": 2,
    "scale": 12,
    "tool-trajectory": 3,
}
NEEDS_A_MODEL = {"local-model"}
EXTRAS = {"a2a": "--extra=a2a ", "mcp": "--extra=mcp "}
"""The option of ./run that installs what an example needs."""
SERVERS = {"a2a": ("agent.py", 9797)}
"""The programs that must run beside an example, with their ports."""
SCRIPTS = {"criteria": "run_evaluation_example.py"}
CONVERTED = {
    "promptfoo/promptfooconfig.yaml": ("promptfoo/suite.yaml", 1),
    "goldens.json": ("deepeval.yaml --target agent", 0),
    "dataset.yaml": ("pydantic-evals.yaml --target agent", 0),
}
"""The files of other tools in examples/from-others: the eval file made of each, with options, and the exit code."""

SUITES = sorted({*ROWS, *NEEDS_A_MODEL})


def named(name: str) -> Any:
    is_missing = name in EXTRAS and find_spec(name) is None
    reason = f"the package of the extra {name} is not installed: uv sync --group protocols"
    return pytest.param(name, marks=pytest.mark.skipif(is_missing, reason=reason))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".agentv"))
    (tmp_path / ".agentv").mkdir()
    return tmp_path


def environment() -> Mapping[str, str]:
    """Return an environment in which `python3` is the interpreter of this test, without our own variables."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


def agentv(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentv", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=60, check=False)


def run_script(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command, cwd = [sys.executable, SCRIPTS[name]], folder / "examples" / name
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=60, check=False)


def test_every_example_is_listed_here() -> None:
    assert sorted({*SUITES, *SCRIPTS, "from-others"}) == NAMES


@pytest.mark.parametrize("source", CONVERTED)
def test_a_file_of_another_tool_runs_as_the_readme_says(source: str, folder: Path) -> None:
    place, (ran, code) = folder / "examples" / "from-others", CONVERTED[source]
    written = ran.split()[0]
    shown = f"agentv convert {source} -o {written} && agentv run {ran}"
    assert shown in (place / "README.md").read_text("utf-8")
    converted = agentv("convert", source, "-o", written, cwd=place)
    assert converted.returncode == 0, converted.stderr
    assert agentv("check", written, cwd=place).returncode == 0
    done = agentv("run", *ran.split(), cwd=place)
    assert done.returncode == code, done.stdout + done.stderr


def test_the_log_of_the_example_is_scored_as_it_is(folder: Path) -> None:
    place = folder / "examples" / "from-others"
    command = ["score", "log.jsonl", "spans.json", "--config", "criteria.yaml"]
    assert f"agentv {' '.join(command)}\n" in (place / "README.md").read_text("utf-8")
    done = agentv(*command, cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 judged lines passed" in done.stdout


def test_the_log_of_the_example_is_a_dataset(folder: Path) -> None:
    place = folder / "examples" / "from-others"
    assert "agentv run logged.yaml\n" in (place / "README.md").read_text("utf-8")
    assert agentv("check", "logged.yaml", cwd=place).returncode == 0
    done = agentv("run", "logged.yaml", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 judged results passed" in done.stdout


@contextmanager
def serving(folder: Path, name: str) -> Iterator[None]:
    """Run the server of an example, on another port than that of its files, which may be in use."""
    if name not in SERVERS:
        yield
        return
    program, written = SERVERS[name]
    port = free_port()
    for path in (folder / "examples" / name).iterdir():
        path.write_text(path.read_text("utf-8").replace(str(written), str(port)), "utf-8")
    with running([sys.executable, str(folder / "examples" / name / program)], port):
        yield


@pytest.mark.parametrize("name", [named(name) for name in ROWS])
def test_an_example_ends_as_it_says(name: str, folder: Path) -> None:
    with serving(folder, name):
        done = agentv("run", f"examples/{name}", "-o", "out.jsonl", cwd=folder)
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    assert done.returncode == (1 if name == "quickstart" else 0), done.stdout + done.stderr
    assert len(rows) == ROWS[name]
    assert {row["status"] for row in rows} <= {"pass", "fail"}


@pytest.mark.parametrize("name", SUITES)
def test_an_example_has_no_problem(name: str, folder: Path) -> None:
    done = agentv("check", f"examples/{name}", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SUITES)
def test_the_readme_shows_how_to_run_it_in_about_ten_lines(name: str) -> None:
    text = (EXAMPLES / name / "README.md").read_text("utf-8")
    assert f"./run {EXTRAS.get(name, '')}agentv run examples/{name}" in text
    assert len(text.splitlines()) <= 16


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_what_its_readme_shows(name: str, folder: Path) -> None:
    done = run_script(name, folder)
    assert done.returncode == 0, done.stderr
    readme = (EXAMPLES / name / "README.md").read_text("utf-8")
    assert f"./run python examples/{name}/{SCRIPTS[name]}" in readme
    assert re.findall(r"^```\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL) == [done.stdout]


def test_the_criteria_example_keeps_its_judgement(folder: Path) -> None:
    assert [run_script("criteria", folder).returncode for _ in range(2)] == [0, 0]
    lines = (folder / "examples" / "criteria" / "judged.jsonl").read_text("utf-8").splitlines()
    kept = [json.loads(line) for line in lines]
    assert [line["scored"] for line in kept] == [12, 12]
    types = kept[0]["evaluationConfigSnapshot"]["evaluatorTypes"]
    assert {"rule_based", "llm_judge", "human", "no-shouting", "tool_usage", "sentiment"} <= set(types)


def test_the_quickstart_names_its_wrong_answer_and_passes_a_gentler_gate(folder: Path) -> None:
    done = agentv("run", "examples/quickstart", "-o", "out.jsonl", cwd=folder)
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["eval_id"] for row in rows if row["status"] == "fail"] == ["refund-on-the-last-day"]
    assert re.search(r"refund-on-the-last-day.*£24\.50", done.stdout)
    gentle = agentv("run", "examples/quickstart", "--gate", "pass_rate >= 50%", cwd=folder)
    assert gentle.returncode == 0, gentle.stdout + gentle.stderr


def test_the_quickstart_passes_once_its_bug_is_mended(folder: Path) -> None:
    agent = folder / "examples" / "agents" / "order_agent.py"
    agent.write_text(agent.read_text("utf-8").replace("passed >= allowed", "passed > allowed"), "utf-8")
    done = agentv("run", "examples/quickstart", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_batch_starts_the_agent_once(folder: Path) -> None:
    starts = folder / "starts"
    agent = folder / "examples" / "agents" / "order_agent.py"
    counted = f"open({str(starts)!r}, 'a').write('x')\n"
    agent.write_text(agent.read_text("utf-8").replace("SHOP = ", f"{counted}SHOP = ", 1), "utf-8")
    agentv("run", "examples/batch-cli", cwd=folder)
    assert starts.read_text() == "x"
