"""A killed process leaves no command and no temporary folder behind."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from tests.support.waiting import until

RUNS_COMMANDS = """
import asyncio
import sys

from agentv.execution.processes.left_behind import temporary_folder
from agentv.execution.processes.process import Command, run_process


async def main():
    print(temporary_folder("work"), flush=True)
    await asyncio.gather(*(run_process(Command(shell=script), timeout_s=None) for script in sys.argv[1:]))


asyncio.run(main())
"""


def running(word: str) -> list[psutil.Process]:
    """Return the processes whose command line has the word, except the program that runs them."""
    lines = [(process, " ".join(process.info["cmdline"] or ())) for process in psutil.process_iter(["cmdline"])]
    return [process for process, line in lines if word in line and "asyncio" not in line]


SCRIPTS = {
    "a command": "sleep 600.{word}",
    "its child in another session": "setsid sleep 600.{word} & sleep 600.{word}",
    "a child that ignores SIGTERM": "trap '' TERM; sleep 600.{word} & while :; do sleep 600.{word}; done",
    "a child without our environment": "env -i sleep 600.{word}; true",
}


@pytest.mark.parametrize("with_children", [False, True], ids=["alone", "with its children, as Ray does"])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_killed_process_leaves_nothing_behind(script: str, with_children: bool, tmp_path: Path) -> None:
    word = f"{os.getpid()}{abs(hash((script, with_children))) % 10**9}"
    with subprocess.Popen(
        (sys.executable, "-c", RUNS_COMMANDS, script.format(word=word)),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.parent == tmp_path
        assert until(lambda: bool(running(f"600.{word}")))
        for child in psutil.Process(process.pid).children() if with_children else ():
            child.kill()
        process.send_signal(signal.SIGKILL)
    assert until(lambda: not running(f"600.{word}"))
    assert until(lambda: not folder.exists())


def test_a_process_that_ends_normally_leaves_no_watcher() -> None:
    done = subprocess.run(
        (sys.executable, "-c", RUNS_COMMANDS, "true"), capture_output=True, text=True, check=True, timeout=60
    )
    mark = Path(done.stdout.strip()).name.split("-")[1]
    assert until(lambda: not running(mark))
    assert not list(Path(tempfile.gettempdir()).glob(f"agentv-{mark}-*"))


def test_a_command_runs_where_no_watcher_can_be_started() -> None:
    without = "import sys; sys.executable = '/no/such/python'\n" + RUNS_COMMANDS
    done = subprocess.run(
        (sys.executable, "-c", without, "test -n x"), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


FORKS = """
import os
import signal
import threading

def main_of(script):
    asyncio.run(run_process(Command(shell=script), timeout_s=None))

own = temporary_folder("work")
threading.Thread(target=main_of, args=(sys.argv[1],), daemon=True).start()
while not LIVE:
    pass
child = os.fork()
if child == 0:
    of_child = temporary_folder("work")
    threading.Thread(target=main_of, args=(sys.argv[2],), daemon=True).start()
    while not LIVE:
        pass
    print(of_child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
print(own, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_commands_and_folders_of_a_parent_outlive_its_killed_fork(tmp_path: Path) -> None:
    of_parent, of_child = f"1{os.getpid()}", f"2{os.getpid()}"
    imports = RUNS_COMMANDS.partition("async def")[0] + "from agentv.execution.processes.live_trees import LIVE\n"
    scripts = (f"sleep 600.{of_parent}", f"sleep 600.{of_child}")
    with subprocess.Popen(
        (sys.executable, "-W", "ignore", "-c", imports + FORKS, *scripts),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        folder_of_child, folder = (Path(process.stdout.readline().strip()) for _ in range(2))
        assert until(lambda: not running(f"600.{of_child}") and not folder_of_child.exists())
        is_left = (bool(running(f"600.{of_parent}")), folder.exists())
        process.send_signal(signal.SIGKILL)
    assert is_left == (True, True)
    assert until(lambda: not running(f"600.{of_parent}") and not folder.exists())
