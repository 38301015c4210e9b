"""Every block of the README and of docs/ is run or loaded, page by page, in the order in which a reader meets them.

The pages of docs/reference/providers/ are tested in tests/providers/test_pages.py and tests/fake/test_page.py.

- a block with a file name after its language is written to that file;
- `console`: each `$ command` runs, a comment names the exit code if it is not 0, and what follows is its output; in
  `agentv review` a script labels the answers;
- `python`: runs, and prints what the `# …` after each `print(…)` says;
- `yaml`, `json` with no file name: is at least readable;
- `text`: is a part of a transcript in tests/reports/transcripts.

`./run python tests/test_readme.py` writes the README's transcript anew.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from tests.support.review_process import review_by_rule

ROOT = Path(__file__).parent.parent
_DOCS = ROOT / "docs"
_PROVIDERS = _DOCS / "reference" / "providers"  # their targets need keys and servers
_ALL = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in _DOCS.rglob("*.md"))]
PAGES = [page for page in _ALL if not (ROOT / page).is_relative_to(_PROVIDERS)]
FRESH = "docs/how-to/extending.md"  # it installs packages: tests/test_extending.py runs it in an environment of its own
TEAM_STORE = "docs/how-to/team-store.md"  # it needs a database: tests/test_team_store_page.py runs it with one
QUOTAS = "docs/how-to/quotas.md"  # so does this: tests/test_quotas_page.py
JUDGE_TRACES = "docs/tutorials/judge-traces.md"  # it needs a framework: tests/frameworks/test_judge_traces.py
MACHINES = "docs/how-to/machines.md"  # it needs a cluster: tests/ray/test_machines_page.py
PROGRESS = re.compile(r"\d+/\d+ \(")
NOT_RUN_HERE = {"./run pytest"}  # it is what runs this test
SERVING = re.compile(r"(?:\./run )?agentv view\b(?!.*--help)")  # until Ctrl-C, in a browser


class Block(NamedTuple):
    language: str
    file: str
    text: str


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(r"^```(\w*) *(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(*block) for block in found]


def environment() -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "COLUMNS": "100"}


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=100, check=False)


def commands_of(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield each command of a console block with its exit code and its expected output ("" when none is shown)."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        command, _, comment = line.partition("   # ")
        code = re.fullmatch(r"exit code (\d+)", comment)
        yield command, int(code[1]) if code else 0, output


def normalised(output: str, folder: Path) -> str:
    """Remove the parts that differ between runs: ids, durations, the folder, and the progress."""
    output = output.replace(f"{folder}/", "")
    output = re.sub(r"\b20\d{6}T\d{6}\.\d{3}-\w+", "RUN", output)
    output = re.sub(r"\btrace [0-9a-f]{32}\b", "trace ID", output)
    output = re.sub(r"http://127\.0\.0\.1:\S+", "URL", output)
    output = re.sub(r"\btrace [0-9a-f]{32}\b", "trace ID", output)
    output = re.sub(r" \([\d,]+ lines a second\)", "", output)
    output = re.sub(r"\d+(\.\d+)? ?(ms|s)\b|\b\d\d:\d\d\b", "TIME", output)
    lines = [re.sub(r" +", " ", line) for line in output.splitlines()]
    return "\n".join(line for line in lines if not PROGRESS.match(line)).strip()


def check_serving(command: str, folder: Path) -> None:
    """Start a command that serves pages, and end it with Ctrl-C as soon as it is ready."""
    words = ["bash", "-c", f"exec {command} --no-open"]
    with subprocess.Popen(words, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        ready = any("Ctrl-C" in line for line in process.stdout or ())
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, command
    assert ready, command


def check_console(block: Block, folder: Path) -> None:
    for command, code, expected in commands_of(block.text):
        if command in NOT_RUN_HERE:
            continue
        if command.startswith("agentv review"):
            printed = review_by_rule(
                folder, shlex.split(command)[2:], environment=environment(), is_good=lambda text: "Sorry" not in text
            )
            assert not expected or normalised(printed, folder) == normalised(expected, folder), command
            continue
        if SERVING.match(command):
            check_serving(command.removeprefix("./run "), folder)
            continue
        # ./run is the same command in the project's environment, which is where this test runs already.
        done = run(["bash", "-c", command.removeprefix("./run ")], folder)
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        if expected:
            assert normalised(done.stdout, folder) == normalised(expected, folder), command


def check_python(block: Block, folder: Path) -> None:
    done = run([sys.executable, "-c", block.text], folder)
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"^ *print\(.*\)  # (.*)$", block.text, re.MULTILINE)
    assert done.stdout.splitlines() == expected


def check_yaml(block: Block, _: Path) -> None:
    assert yaml.safe_load(block.text) is not None


def check_json(block: Block, _: Path) -> None:
    json.loads(block.text)


def check_text(block: Block, _: Path) -> None:
    transcripts = (ROOT / "tests" / "reports" / "transcripts").glob("*.txt")
    assert any(block.text in path.read_text("utf-8") for path in transcripts), block.text


CHECKS: Mapping[str, Callable[[Block, Path], None]] = {
    "console": check_console,
    "python": check_python,
    "yaml": check_yaml,
    "json": check_json,
    "text": check_text,
    "plaintext": lambda *_: None,  # a diagram
}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in (FRESH, TEAM_STORE, QUOTAS, MACHINES, JUDGE_TRACES)]
)
def test_every_block_of_a_page_holds(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".agentv"))
    (tmp_path / ".agentv").mkdir()
    for block in blocks_of(page):
        if block.file:
            path = tmp_path / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        else:
            CHECKS[block.language](block, tmp_path)


def test_the_readme_opens_with_the_two_commands() -> None:
    first = next(block for block in blocks_of("README.md"))
    assert [command for command, _, _ in commands_of(first.text)] == [
        "./run agentv run examples/quickstart",
        "./run pytest",
    ]


@pytest.mark.parametrize("page", _ALL)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text("utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (ROOT / page).parent.joinpath(link).exists()] == []


def write_transcript() -> None:
    """Write the current output of the quickstart to the README."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")
        (folder / ".agentv").mkdir()
        printed = run(["agentv", "run", "examples/quickstart"], folder).stdout.replace(f"{folder}/", "")
    shown = "\n".join(line for line in printed.splitlines() if not PROGRESS.match(line))
    head = "```console\n$ ./run agentv run examples/quickstart   # exit code 1\nrun "
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, rest = text.partition(head)
    (ROOT / "README.md").write_text(f"{before}{head[:-4]}{shown}\n```{rest.partition('```')[2]}", "utf-8")


if __name__ == "__main__":
    write_transcript()
