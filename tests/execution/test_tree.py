import asyncio
import subprocess

from tests.support.own_process import in_own_process

from agentv.execution.processes.live_trees import LIVE
from agentv.execution.processes.tree import ProcessTree, start_tree


def start(*argv: str) -> ProcessTree:
    nothing = subprocess.DEVNULL
    return start_tree(argv, cwd=None, env=None, stdin=nothing, stdout=nothing, stderr=nothing)


def test_an_ended_command_does_not_forget_another_with_its_pid() -> None:
    in_own_process(give_a_number_again)


def give_a_number_again() -> None:
    over, running = start("true"), start("sleep", "100")
    over.process.wait()  # as a thread does where there is no pidfd: the number is free from now on
    LIVE[over.process.pid] = LIVE.pop(running.process.pid)

    assert over.release()

    assert list(LIVE.values()) == [running]
    asyncio.run(running.end())


def test_ending_leftover_processes_spares_another_command_with_the_pid() -> None:
    in_own_process(end_whose_number_was_given_again)


def end_whose_number_was_given_again() -> None:
    over, running = start("true"), start("sleep", "100")
    over.process.wait()
    over.process.pid = running.process.pid

    assert over.kill()

    assert running.process.poll() is None
    asyncio.run(running.end())
