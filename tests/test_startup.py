"""Start-up is fast because little is imported: these lists limit the imports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"aiohttp", "pydantic", "yaml", "rich", "msgspec", "psutil", "regex", "rapidfuzz", "tenacity", "asyncio"}

REPORT = """
import json, sys
before = set(sys.modules)
try:
    {work}
except SystemExit:
    pass
imported = sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})
print(json.dumps(imported), file=sys.stderr)
"""


def imported_by(work: str, *arguments: str, cwd: Path | None = None) -> set[str]:
    """Run `work` in a new interpreter; return the top-level modules that it imports."""
    code = f"import sys; sys.argv = ['agentv', *{list(arguments)!r}]\n" + REPORT.format(work=work)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, check=True, timeout=60)
    return set(json.loads(done.stderr.splitlines()[-1]))


def third_party(modules: set[str]) -> set[str]:
    ours = {"agentv", "cython_runtime"}  # the latter is no package: compiled modules leave it behind
    return {name for name in modules if name not in sys.stdlib_module_names and not name.startswith("_")} - ours


RUN_MAIN = "from agentv.__main__ import main; main()"


def test_help_imports_click_and_nothing_else() -> None:
    modules = imported_by(RUN_MAIN, "--help")
    assert third_party(modules) == {"click"}
    assert modules & HEAVY == set()


SUITE = """
evalcases:
  - id: echo
    expected_outcome: Says hello
    input_messages: [{role: user, content: hello}]
    evaluators: [{name: hello, type: contains, value: hello}]
"""
TARGETS = """
targets:
  - {name: echo, provider: cli, command_template: "cat {PROMPT_FILE}"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "evals").mkdir()
    (tmp_path / ".agentv").mkdir()
    (tmp_path / "evals" / "echo.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    return tmp_path


def test_a_run_of_a_command_imports_no_http_screen_or_full_pydantic(project: Path) -> None:
    modules = imported_by(RUN_MAIN, "run", cwd=project)
    assert "yaml" in modules, "the run did not get far enough to read its files"
    assert list(project.glob(".agentv/runs/*/results.jsonl")) != []
    assert third_party(modules) <= {
        "click",
        "msgspec",
        "psutil",
        "pydantic_core",
        "regex",
        "tenacity",
        "typing_extensions",
        "yaml",
    }


def test_a_run_without_commands_imports_no_process_modules(project: Path) -> None:
    (project / "targets.yaml").write_text("targets: [{name: echo, provider: mock, response: hello}]")
    modules = imported_by(RUN_MAIN, "run", cwd=project)
    assert "yaml" in modules, "the run did not get far enough to read its files"
    assert modules & {"psutil", "regex", "aiohttp", "rich"} == set()


@pytest.mark.parametrize("command", ["compare", "trend", "show"])
def test_reading_commands_do_not_import_the_report_of_a_run(command: str) -> None:
    code = f"import sys, agentv.cli.results.{command}; print('agentv.engine.stored.report' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
