"""No command prints a command to a CI runner that stands in a file, an answer or an argument."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.carrying import Project

HOSTILE = "::add-mask::boom ##[group]boom ##vso[task.setvariable variable=A]boom"
LINES = f"first\n{HOSTILE}\n  {HOSTILE}"
COMMAND = re.compile(r"^\s*::|##\w*\[")
OWN = re.compile(r"::(error|warning|notice) ")

COMMANDS = [
    "run suite.yaml --display plain",
    "run suite.yaml --display plain -v",
    "run suite.yaml --display none",
    "run suite.yaml --display json",
    "run suite.yaml -o - --display none",
    "run suite.yaml --dry-run",
    "check suite.yaml",
    "check broken.yaml",
    "check broken.yaml --format github",
    "check broken.yaml --json",
    "show latest",
    "show latest *",
    "show latest --json",
    "report latest",
    "report latest --json",
    "report latest -o - --format csv",
    "report latest -o - --format yaml",
    "report latest -o - --format github",
    "compare latest latest~1",
    "compare latest latest~1 --format markdown",
    "trend",
    "runs list",
    "runs tag latest HOSTILE",
    "baseline save latest -o -",
    "convert suite.yaml -o x.jsonl",
    "convert cases.jsonl",
    "resume latest",
    "rescore latest",
    "show HOSTILE",
    "HOSTILE",
    "run HOSTILE",
    "doctor",
    "plugins",
]


def commands(log: str) -> list[str]:
    found = [line for line in re.split(r"\r\n|\r|\n", log) if COMMAND.search(line)]
    return [line for line in found if not OWN.match(line) or not line.startswith("::")]


@pytest.fixture
def hostile(project: Project) -> Project:
    """A project in which every text that a stranger may write holds commands."""
    (project.folder / "agent.py").write_text(f"def answer(request):\n    return {LINES!r}\n")
    case = {
        "id": HOSTILE,
        "expected_outcome": LINES,
        "tags": [HOSTILE],
        "input_messages": [{"role": "user", "content": LINES}],
        "evaluators": [{"name": HOSTILE, "type": "contains", "value": f"{LINES} not there"}],
    }
    (project.folder / "suite.yaml").write_text(json.dumps({"description": LINES, "evalcases": [case]}))
    (project.folder / "cases.jsonl").write_text(json.dumps(case) + "\n")
    (project.folder / "broken.yaml").write_text(f"evalcases:\n{HOSTILE}\n'{HOSTILE}': 1\n")
    (project.folder / ".agentv.yaml").write_text(json.dumps({HOSTILE: LINES}))
    project.write = lambda: None  # type: ignore[method-assign] # the suite stays as it is
    (project.folder / ".agentv.yaml").unlink()
    project.call("run", "suite.yaml", "--name", HOSTILE)
    project.call("run", "suite.yaml", "--name", HOSTILE)
    return project


@pytest.mark.parametrize("runner", [("GITHUB_ACTIONS", "true"), ("TF_BUILD", "True")], ids=lambda it: it[0])
@pytest.mark.parametrize("line", COMMANDS)
def test_no_output_has_a_command_of_a_stranger(
    hostile: Project, monkeypatch: pytest.MonkeyPatch, line: str, runner: tuple[str, str]
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv(*runner)
    _, said = hostile.call(*(HOSTILE if word == "HOSTILE" else word for word in line.split()))
    assert commands(said) == []


def test_the_project_is_hostile_where_no_runner_reads(hostile: Project) -> None:
    shown = [hostile.call(*line.split())[1] for line in ("show latest *", "runs list", "check broken.yaml")]
    assert all(commands(said) for said in shown)


def test_annotations_are_still_commands(hostile: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for line in ("run suite.yaml", "report latest -o - --format github", "check broken.yaml --format github"):
        assert re.search(r"^::error ", hostile.call(*line.split())[1], re.MULTILINE), line


def test_a_process_with_real_streams_is_guarded_too(hostile: Project) -> None:
    env = {**os.environ, "GITHUB_ACTIONS": "true"}
    for words in (("show", "latest", "*"), ("run", HOSTILE), ("run", "suite.yaml")):
        done = subprocess.run(
            [Path(sys.executable).with_name("agentv"), *words],
            cwd=hostile.folder, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert commands(done.stdout) == commands(done.stderr) == [], words
        assert done.stdout + done.stderr
