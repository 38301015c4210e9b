"""Runs that are killed while they send evaluations: a later export makes the collector whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.collectors import collecting

CASES, KILLS = 240, 5
# A killed run has answered at most 40 cases, so that the last resume always has cases left, however slow the export is.
AGENT = """
import itertools, pathlib, time

counted = itertools.count(1)

def answer(request):
    number = next(counted)
    while number > 40 and not pathlib.Path("kills-are-over").exists():
        time.sleep(0.05)
    return "answer to " + request.question
"""


def agentv(project: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        (sys.executable, "-m", "agentv", *arguments), cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def write(project: Path) -> None:
    (project / ".git").mkdir()
    (project / "agent.py").write_text(AGENT)
    (project / "targets.yaml").write_text("targets: [{name: t, provider: python, callable: 'agent.py:answer'}]")
    cases = [f"  - {{id: c{number}, input: question {number}}}" for number in range(CASES)]
    evaluators = "evaluators: [{name: has, type: contains, value: answer}, {name: no, type: contains, value: nothing}]"
    (project / "suite.yaml").write_text("\n".join((evaluators, "cases:", *cases)) + "\n")


def test_a_run_that_was_killed_five_times_is_exported_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path)
    running: list[subprocess.Popen[bytes]] = []
    kills = 0

    def kill(path: str) -> None:
        """Kill the run when the collector has taken spans and has not answered yet: the run cannot know it."""
        nonlocal kills
        if running and path.endswith("traces"):
            kills += 1
            os.kill(running.pop().pid, signal.SIGKILL)

    with collecting(on_taken=kill) as collector, collecting() as control:
        for _ in range(KILLS):
            command = ("resume",) if kills else ("run", "suite.yaml", "--gate", "none")
            with agentv(tmp_path, *command, f"--otel={collector.url}") as process:
                running.append(process)
                assert process.wait(60) == -signal.SIGKILL
        (tmp_path / "kills-are-over").touch()
        with agentv(tmp_path, "resume") as process:
            assert process.wait(60) == 0
        before = collector.span_ids()
        with agentv(tmp_path, "runs", "export", f"--otel={collector.url}") as process:
            assert process.wait(60) == 0
        with agentv(tmp_path, "runs", "export", f"--otel={control.url}") as process:
            assert process.wait(60) == 0
    assert kills == KILLS
    assert len(before) < CASES * 3  # the export had something left to send
    assert set(control.span_ids().values()) == {1}
    assert len(control.spans) == CASES * 3
    assert collector.span_ids().keys() == control.span_ids().keys()
    # What came twice because of a kill is the same both times.
    assert len({(span.span_id, span.name, span.parent_id, span.end_ns) for span in collector.spans}) == CASES * 3
    assert {(log.span_id, log.attributes["gen_ai.evaluation.name"]) for log in collector.logs} == {
        (log.span_id, log.attributes["gen_ai.evaluation.name"]) for log in control.logs
    }
