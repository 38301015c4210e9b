"""Answers from a workspace that are judged later: with the workspace if it was kept, else not at all."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AGENT = "import pathlib; pathlib.Path('notes.txt').write_text('done'); print('x')"
JUDGE = """
import json, pathlib, sys
folder = pathlib.Path(json.load(sys.stdin)["workspace_path"] or ".")
print(json.dumps({"score": 1.0 if (folder / "notes.txt").exists() else 0.0}))
"""
STOPPED_ONCE = """
import os, pathlib, signal
marker = pathlib.Path("interrupted")
if not marker.exists():
    marker.touch()
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
"""
EVALUATOR = "{{name: seen, type: code_judge, script: ['{python}', judge.py]}}"
SUITE = """
execution:
  workspace: {workspace}
evalcases:
  - id: a
    expected_outcome: The notes are done
    input_messages: [{{role: user, content: hi}}]
    evaluators: [{evaluators}]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "judge.py").write_text(JUDGE)
    (tmp_path / "agent.py").write_text(AGENT)
    # An unrelated file in the folder of the eval file, which the judge must not take for the agent's.
    (tmp_path / "notes.txt").write_text("done")
    command = f"{sys.executable} {tmp_path / 'agent.py'}"
    (tmp_path / "targets.yaml").write_text(
        f"targets: [{{name: default, provider: cli, command_template: {json.dumps(command)}}}]"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def agentv(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "agentv", *arguments], capture_output=True, text=True, check=False)


def write_suite(project: Path, workspace: str, evaluators: str = EVALUATOR) -> None:
    text = SUITE.format(workspace=workspace, evaluators=evaluators.format(python=sys.executable))
    (project / "suite.yaml").write_text(text)


def stored(project: Path, name: str) -> list[dict[str, Any]]:
    (run,) = (project / ".agentv" / "runs").iterdir()
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def test_rescored_answer_without_its_workspace_is_an_error_of_the_code_judge(project: Path) -> None:
    write_suite(project, "{setup: 'true'}")
    assert agentv("run", "suite.yaml").returncode == 0
    (project / "judge.py").write_text(JUDGE + "\n")
    done = agentv("rescore", "latest")
    assert done.returncode == 3, done.stdout
    assert "needs the workspace of this answer" in done.stdout
    assert "PASS" not in done.stdout


def test_rescored_answer_is_judged_in_its_saved_workspace(project: Path) -> None:
    write_suite(project, "{setup: 'true', keep: always}")
    assert agentv("run", "suite.yaml").returncode == 0
    (saved,) = (project / ".agentv" / "workspaces").iterdir()
    (project / "judge.py").write_text(JUDGE + "\n")
    assert agentv("rescore", "latest").returncode == 0
    (saved / "notes.txt").unlink()
    (project / "judge.py").write_text(JUDGE + "\n\n")
    assert agentv("rescore", "latest").returncode == 1


def test_rescored_answer_is_still_judged_by_evaluators_that_read_no_workspace(project: Path) -> None:
    write_suite(project, "{setup: 'true'}", "{{name: said, type: contains, value: y}}")
    assert agentv("run", "suite.yaml").returncode == 1
    write_suite(project, "{setup: 'true'}", "{{name: said, type: contains, value: x}}")
    assert agentv("rescore", "latest").returncode == 0


@pytest.mark.parametrize("keep", ["never", "failed", "always"])
def test_workspace_of_an_answer_that_is_not_scored_yet_is_kept_for_resume(project: Path, keep: str) -> None:
    (project / "judge.py").write_text(STOPPED_ONCE + JUDGE)
    write_suite(project, f"{{setup: 'true', teardown: 'rm notes.txt', keep: {keep}}}")
    stopped = agentv("run", "suite.yaml")
    assert stopped.returncode == 128 + signal.SIGINT, stopped.stdout
    (kept,) = (path.parent for path in (project / ".agentv" / "runs").rglob("notes.txt"))
    assert str(kept) in stopped.stdout
    resumed = agentv("resume")
    assert resumed.returncode == 0, resumed.stdout
    assert [(row["status"], row["verdict"]) for row in stored(project, "results.jsonl")] == [("pass", "pass")]
    (answer,) = stored(project, "answers.jsonl")
    assert not list((project / ".agentv" / "runs").glob("*/workspaces"))
    saved = [str(path) for path in (project / ".agentv").glob("workspaces/*")]
    assert saved == ([answer["workspace"]["path"]] if keep == "always" else [])
