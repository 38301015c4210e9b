"""Runs of agents that are killed, again and again: nothing is lost or paid twice, and no process is left behind."""

import json
import os
import random
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.durability.witness import WORKERS, Project, project_against

AGENT = Path(__file__).parent.parent / "fixtures" / "billed_agent.py"
ENDS_WITHIN_S = 5.0


def use_agents(project: Project, word: str) -> None:
    """Replace the project's model by an agent in a process, whose own child sleeps `600.{word}` seconds."""
    command = f"{sys.executable} {AGENT} {project.witness.url} {word} {{EVAL_ID}}"
    target = {"name": "t", "provider": "cli", "command_template": command, "workers": WORKERS}
    (project.folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))


def alive(*words: str) -> list[str]:
    """Return the command lines that have one of these words."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(word in line for word in words)]


def seconds_until_gone(*words: str) -> float:
    """Wait for the end of every process with one of these words; fail after `ENDS_WITHIN_S`."""
    began = time.monotonic()
    while found := alive(*words):
        assert time.monotonic() - began < ENDS_WITHIN_S, found
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("count", "kills", "seed"),
    [
        pytest.param(60, 4, 1, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
        pytest.param(600, 30, 2, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)]),
    ],
)
def test_kills_of_a_run_leave_no_agent_and_one_row_per_case(tmp_path: Path, count: int, kills: int, seed: int) -> None:
    word = f"{os.getpid()}{seed}"
    with project_against(tmp_path, count) as project:
        use_agents(project, word)
        moments = sorted(random.Random(seed).sample(range(WORKERS, count), kills))
        process, slowest, seen = project.start("run", "cases.jsonl", "--display", "none"), 0.0, 0
        for moment in moments:
            assert project.witness.wait_for(moment, process)
            seen += len(alive(f"600.{word}"))
            process.kill()
            project.end(process)
            slowest = max(slowest, seconds_until_gone(f"600.{word}", f"{AGENT} {project.witness.url}"))
            process = project.start("resume", "latest", "--display", "none")
        code, said = project.end(process)
        assert code == 0, said
        assert seen > kills  # there was something to end
        assert project.rows() == project.every_case_once()
        billed = project.witness.bills()
        assert billed.keys() == project.every_case_once().keys()
        assert billed.total() - count <= WORKERS * kills
        seconds_until_gone(f"600.{word}")
        print(f"{kills} kills: slowest end {slowest:.2f} s; paid twice: {billed.total() - count}")
