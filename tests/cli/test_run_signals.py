"""Ctrl-C: what was finished is kept, the screen says how to go on, and nothing stays alive."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

AGENT = """
import os, signal, subprocess, sys
case, pids = sys.argv[1:3]
if case == "quick":
    print("done")
else:
    if case == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"])
    with open(pids, "w") as fifo:
        fifo.write(f"{os.getpid()} {child.pid}")
    signal.pause()
"""

SUITE = """
evalcases:
  - {{id: quick, expected_outcome: x, input_messages: [{{role: user, content: hi}}]}}
  - {{id: {hanging}, expected_outcome: x, input_messages: [{{role: user, content: hi}}]}}
execution:
  evaluators: [{{name: done, type: contains, value: done}}]
"""


@contextmanager
def running(
    folder: Path, hanging: str, *options: str, output: int = subprocess.PIPE
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start a run whose second case hangs, and wait until the first is done and the second has said its pids."""
    pids = folder / "pids"
    os.mkfifo(pids)
    (folder / ".git").mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "suite.yaml").write_text(SUITE.format(hanging=hanging))
    command = f"{sys.executable} agent.py {{EVAL_ID}} {pids}"
    (folder / "targets.yaml").write_text(
        f"targets: [{{name: agent, provider: cli, command_template: '{command}', workers: 1}}]"
    )
    arguments = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--log-file", "log.jsonl", *options]
    with subprocess.Popen(arguments, cwd=folder, stdout=output, stderr=subprocess.STDOUT, text=True) as run:
        try:
            # One worker: when the second case has said its pids, the first one is finished.
            yield run, read_pids(pids, run)
        finally:
            run.kill()


def read_pids(path: Path, run: subprocess.Popen[str]) -> list[int]:
    """Wait for whichever comes first, the pids or the end of the run."""
    fifo, ended = os.open(path, os.O_RDWR), os.pidfd_open(run.pid)
    try:
        ready, _, _ = select.select([fifo, ended], [], [])
        if fifo not in ready:
            pytest.fail(f"the run ended before the case hung:\n{run.communicate()[0]}")
        return [int(pid) for pid in os.read(fifo, 100).split()]
    finally:
        os.close(fifo)
        os.close(ended)


def kept_rows(folder: Path) -> list[str]:
    (run,) = (folder / ".agentv" / "runs").iterdir()
    return [json.loads(line)["slot"]["eval_id"] for line in (run / "results.jsonl").read_text().splitlines()]


def alive(pids: list[int]) -> list[int]:
    """Return who is still there after a moment: a kill is on its way for an instant."""
    found = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, left = psutil.wait_procs(found, timeout=5)
    return [process.pid for process in left if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_one_signal_stops_cleanly_keeps_what_is_done_and_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with running(tmp_path, "hangs") as (run, pids):
        run.send_signal(number)
        output = run.communicate()[0]
    assert run.returncode == code
    assert "INTERRUPTED: 1 of 2 planned results is stored" in output
    assert f"Exit code {code}" in output
    assert "agentv show" in output
    assert kept_rows(tmp_path) == ["quick"]
    assert alive(pids) == []
    (folder,) = (tmp_path / ".agentv" / "runs").iterdir()
    ended = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])
    assert (ended["type"], ended["state"]) == ("ended", "interrupted")


def test_a_second_signal_leaves_at_once_with_no_child_alive(tmp_path: Path) -> None:
    with running(tmp_path, "stubborn", "--display", "json") as (run, pids):
        run.send_signal(signal.SIGINT)
        assert run.stdout is not None
        # The first signal was taken; the child that ignores SIGTERM now holds the run up for two seconds.
        for line in run.stdout:
            if json.loads(line)["event"] == "stopping":
                break
        run.send_signal(signal.SIGINT)
        run.communicate()
    assert run.returncode == 130
    assert kept_rows(tmp_path) == ["quick"]
    assert alive(pids) == []
    (folder,) = (tmp_path / ".agentv" / "runs").iterdir()
    assert '"ended"' not in (folder / "events.jsonl").read_text(), "the run took its time to end"
