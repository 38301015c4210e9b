import asyncio
import gc
import os
import select
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from agentv.execution.processes.process import ExitWatcher

PATIENCE_S = 30.0
needs_pidfd = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pidfds")


@pytest.fixture
def waiting() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture
def over() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["true"]) as process:
        yield process


class ExitNames:
    """The names of the commands reported as exited, in order."""

    def __init__(self) -> None:
        self.names: asyncio.Queue[str] = asyncio.Queue()

    async def next(self) -> str:
        return await asyncio.wait_for(self.names.get(), PATIENCE_S)


def test_to_forget_a_command_that_is_over_leaves_the_next_one_watched(
    over: "subprocess.Popen[bytes]", waiting: "subprocess.Popen[bytes]"
) -> None:
    async def one_after_another() -> list[str]:
        exits, exited = ExitWatcher.of(asyncio.get_running_loop()), ExitNames()
        first = exits.watch(over, lambda: exited.names.put_nowait("first"))
        names = [await exited.next()]
        exits.watch(waiting, lambda: exited.names.put_nowait("second"))  # its pidfd has the number that is free again
        exits.forget(first)
        waiting.communicate()
        names.append(await exited.next())
        exits.release()
        return names

    assert asyncio.run(one_after_another()) == ["first", "second"]


def test_a_forgotten_command_is_not_reported(
    over: "subprocess.Popen[bytes]", waiting: "subprocess.Popen[bytes]"
) -> None:
    async def forgotten() -> str:
        exits, exited = ExitWatcher.of(asyncio.get_running_loop()), ExitNames()
        exits.forget(exits.watch(over, lambda: exited.names.put_nowait("forgotten")))
        exits.watch(waiting, lambda: exited.names.put_nowait("watched"))
        waiting.communicate()
        first = await exited.next()
        exits.release()
        return first

    assert asyncio.run(forgotten()) == "watched"


@needs_pidfd
def test_a_command_started_after_its_caller_left_leaves_nothing_open(
    waiting: "subprocess.Popen[bytes]",
) -> None:
    async def left() -> None:
        before = psutil.Process().num_fds()
        exits = ExitWatcher.of(asyncio.get_running_loop())
        exits.release()
        with pytest.raises(ValueError, match="closed epoll"):
            exits.watch(waiting, waiting.kill)
        assert psutil.Process().num_fds() <= before

    asyncio.run(left())


@needs_pidfd
def test_the_exit_of_an_unwatched_process_is_ignored(
    over: "subprocess.Popen[bytes]", waiting: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stranger_first() -> list[str]:
        epolls: list[select.epoll] = []
        make, reports = select.epoll, list[str]()

        def made() -> select.epoll:
            epolls.append(make())
            return epolls[-1]

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.append(context["message"]))
        with monkeypatch.context() as patch:
            patch.setattr(select, "epoll", made)
            exits, exited = ExitWatcher.of(loop), ExitNames()
        stranger = os.pidfd_open(over.pid)
        epolls[0].register(stranger, select.EPOLLIN)
        exits.watch(waiting, lambda: exited.names.put_nowait("watched"))
        over.wait()
        waiting.communicate()
        reports.append(await exited.next())
        assert epolls[0].poll(0) == []
        exits.release()
        os.close(stranger)
        return reports

    assert asyncio.run(stranger_first()) == ["watched"]


@needs_pidfd
def test_where_the_loop_can_watch_nothing_more_nothing_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused() -> None:
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        gc.collect()  # what earlier tests left
        before = psutil.Process().num_fds()
        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
        with pytest.raises(OSError, match="No space left"):
            ExitWatcher.of(asyncio.get_running_loop())
        gc.collect()
        assert psutil.Process().num_fds() <= before

    asyncio.run(refused())
