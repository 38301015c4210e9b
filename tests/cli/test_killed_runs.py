"""A run that was killed, and its watcher with it: `resume` and `doctor` end what it left running."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.support.waiting import until

SUITE = """
evalcases:
  - {id: a, expected_outcome: x, input_messages: [{role: user, content: hi}]}
execution:
  evaluators: [{name: done, type: contains, value: done}]
"""


def with_words(*words: str) -> list[psutil.Process]:
    """Return the processes whose command line has all these words."""
    lines = [(process, " ".join(process.info["cmdline"] or ())) for process in psutil.process_iter(["cmdline"])]
    return [process for process, line in lines if all(word in line for word in words)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def agentv(project: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        (sys.executable, "-m", "agentv", *arguments),
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(project / "tmp")},
    )


def write_target(project: Path, command: str) -> None:
    target = {"name": "agent", "provider": "cli", "command_template": command}
    (project / "targets.yaml").write_text(json.dumps({"targets": [target]}))


def kill_with_its_watcher(project: Path, word: str) -> None:
    """Start a run whose target sleeps, and kill the run and its watcher."""
    (project / "tmp").mkdir(exist_ok=True)
    write_target(project, f'sh -c "sleep 600.{word}" {{PROMPT_FILE}}')
    with agentv(project, "run", "suite.yaml") as run:
        assert until(lambda: with_words(f"sleep 600.{word}"))
        lock = next((project / ".agentv" / "runs").glob("*/lock"))
        mark = json.loads(lock.read_text())["mark"]
        (watcher,) = with_words("watcher_process", mark)
        watcher.kill()
        run.send_signal(signal.SIGKILL)
        run.communicate()
    assert with_words(f"sleep 600.{word}")
    assert list((project / "tmp").glob(f"agentv-{mark}-*"))


def test_resume_ends_what_a_killed_run_left(project: Path) -> None:
    word = str(os.getpid()) + "1"
    kill_with_its_watcher(project, word)
    write_target(project, "echo done")
    with agentv(project, "resume", "latest") as resume:
        _, said = resume.communicate()
    assert "had left 2 command processes and 1 temporary folder; they were ended and removed" in said
    assert resume.returncode == 0
    assert not with_words(f"sleep 600.{word}")
    assert not list((project / "tmp").glob("agentv-*"))


def test_doctor_ends_what_a_killed_run_left_and_leaves_a_running_one_alone(project: Path) -> None:
    killed, alive = f"{os.getpid()}2", f"{os.getpid()}3"
    kill_with_its_watcher(project, killed)
    write_target(project, f"sleep 600.{alive}")
    with agentv(project, "run", "suite.yaml") as run:
        assert until(lambda: with_words(f"sleep 600.{alive}"))
        with agentv(project, "doctor") as doctor:
            said, _ = doctor.communicate()
        assert "had left 2 command processes" in said
        assert "agentv resume " in said
        assert not with_words(f"sleep 600.{killed}")
        assert with_words(f"sleep 600.{alive}")
        run.send_signal(signal.SIGKILL)
        run.communicate()
    assert until(lambda: not with_words(f"sleep 600.{alive}"))


@pytest.mark.parametrize("mark", ["", "*", "x/../keep", "AGENTV"])
def test_a_mark_that_was_written_into_a_lock_ends_and_removes_nothing(project: Path, mark: str) -> None:
    write_target(project, "echo done")
    with agentv(project, "run", "suite.yaml") as run:
        run.communicate()
    (lock,) = (project / ".agentv" / "runs").glob("*/lock")
    lock.write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname(), "mark": mark}))
    (project / "tmp" / "agentv-x").mkdir(parents=True)
    kept = project / "tmp" / "keep-1"
    kept.mkdir()
    bystander = subprocess.Popen(("sleep", "60"))
    with agentv(project, "resume", "latest") as resume:
        _, said = resume.communicate()
    assert ("had left" in said, resume.returncode) == (False, 0)
    assert (bystander.poll(), kept.exists()) == (None, True)
    bystander.kill()
    bystander.wait()


def test_a_copy_of_a_run_that_goes_on_ends_nothing(project: Path) -> None:
    word = f"{os.getpid()}4"
    (project / "tmp").mkdir()
    write_target(project, f"sleep 600.{word}")
    with agentv(project, "run", "suite.yaml") as run:
        assert until(lambda: with_words(f"sleep 600.{word}"))
        (folder,) = (project / ".agentv" / "runs").iterdir()
        shutil.copytree(folder, folder.with_name(f"{folder.name}-copy"))
        with agentv(project, "doctor") as doctor:
            said, _ = doctor.communicate()
        assert "had left" not in said
        assert with_words(f"sleep 600.{word}")
        run.send_signal(signal.SIGKILL)
        run.communicate()
    assert until(lambda: not with_words(f"sleep 600.{word}"))
