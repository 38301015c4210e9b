"""The start of a command, and everything that can interrupt it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.hostile import Family, hostile
from tests.support.own_process import in_own_process

from agentv.execution.processes.live_trees import LIVE, STARTING, process_mark
from agentv.execution.processes.process import Command, Outcome, run_process

PATIENCE_S = 30.0


def run(shell: str, family: Family | None = None, *, stdin: bytes = b"") -> Outcome:
    env = None if family is None else family.env
    return asyncio.run(run_process(Command(shell=shell, env=env, stdin=stdin), timeout_s=PATIENCE_S))


class Gate:
    """Blocks the start of every process: `reached` is set by the first start, which waits until it opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
        self.reached, self._opened = threading.Event(), threading.Event()
        self.started: list[object] = []
        self._popen, self._program = subprocess.Popen, program
        monkeypatch.setattr(subprocess, "Popen", self._start)

    def _start(self, argv: tuple[str, ...], **options: Any) -> object:
        if argv[0] == self._program:
            self.reached.set()
            assert self._opened.wait(PATIENCE_S)
        if argv[-1] != process_mark():  # that is the watcher
            self.started.append(argv)
        return self._popen(argv, **options)

    def open(self) -> None:
        self._opened.set()


def refusing(original: Callable[[threading.Thread], None], name: str) -> Callable[[threading.Thread], None]:
    """Return a `Thread.start` for a system that has no thread left for those of that name."""

    def start(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        original(thread)

    return start


def test_commands_run_where_python_has_no_pidfd(monkeypatch: pytest.MonkeyPatch, family: Family) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)

    assert run("cat; exit 3", family, stdin=b"hello").stdout == b"hello"
    assert (
        asyncio.run(run_process(Command(argv=hostile("daemon"), env=family.env), timeout_s=PATIENCE_S)).exit_code == 0
    )
    assert family.alive() == []


def test_a_command_whose_exit_cannot_be_awaited_is_ended(monkeypatch: pytest.MonkeyPatch, family: Family) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(threading.Thread, "start", refusing(threading.Thread.start, "agentv-wait"))

    with pytest.raises(RuntimeError, match="can't start new thread"):
        run("sleep 100", family)

    assert family.alive() == []
    assert not LIVE


def test_without_a_new_thread_a_command_fails_and_a_later_one_runs() -> None:
    in_own_process(have_no_thread_for_a_while)


def have_no_thread_for_a_while() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refusing(threading.Thread.start, "agentv-start"))
        with pytest.raises(RuntimeError, match="can't start new thread"):
            run("echo x")

    assert run("echo x").stdout == b"x\n"
    assert not STARTING


def test_a_command_without_a_stdin_pipe_fails_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send() -> None:
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(asyncio.get_running_loop(), "add_writer", refuse)
        before = psutil.Process().num_fds()
        with pytest.raises(OSError, match="No space left"):
            await run_process(Command(argv=("cat",), stdin=b"x" * 2**20), timeout_s=PATIENCE_S)
        assert psutil.Process().num_fds() <= before

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))

    assert not STARTING


def test_a_command_that_cannot_be_listened_to_fails_and_is_ended(family: Family) -> None:
    async def listen() -> None:
        loop = asyncio.get_running_loop()
        add_reader: Callable[..., None] = loop.add_reader
        added: list[int] = []

        def refuse(descriptor: int, *args: Any) -> None:
            if added:  # all but the first, which reports the exits of commands
                raise OSError(28, "No space left on device")
            added.append(descriptor)
            add_reader(descriptor, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "add_reader", refuse)
            with pytest.raises(OSError, match="No space left"):
                await run_process(Command(argv=("sleep", "100"), env=family.env), timeout_s=PATIENCE_S)

    asyncio.run(listen())

    assert family.alive() == []


def test_commands_that_wait_for_their_turn_hold_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait_behind_one() -> int:
        command = Command(argv=("true",), stdin=b"x")
        before = psutil.Process().num_fds()
        tasks = [asyncio.create_task(run_process(command, timeout_s=PATIENCE_S)) for _ in range(50)]
        await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
        opened = psutil.Process().num_fds() - before
        gate.open()
        await asyncio.gather(*tasks)
        return opened

    gate = Gate(monkeypatch, "true")

    assert asyncio.run(wait_behind_one()) < 50


def test_the_first_commands_of_two_threads_are_both_started() -> None:
    in_own_process(begin_in_two_threads)


def begin_in_two_threads() -> None:
    make, made, both_are_here = threading.Thread.__init__, list[threading.Thread](), threading.Barrier(2)

    def make_slowly(thread: threading.Thread, *args: Any, **options: Any) -> None:
        make(thread, *args, **options)
        if thread.name == "agentv-start":
            made.append(thread)
            with contextlib.suppress(threading.BrokenBarrierError):  # the other one waits for us, as it should
                both_are_here.wait(0.5)

    outputs: list[bytes] = []
    hosts = [threading.Thread(target=lambda: outputs.append(run("echo x").stdout), daemon=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "__init__", make_slowly)
        for host in hosts:
            host.start()
        for host in hosts:
            host.join(PATIENCE_S)

    assert outputs == [b"x\n", b"x\n"]
    assert len(made) == 1


def test_a_cancelled_command_that_waits_for_its_turn_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cancel_one_in_the_queue() -> None:
        first = asyncio.create_task(run_process(Command(argv=("echo", "x")), timeout_s=PATIENCE_S))
        await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
        second = asyncio.create_task(run_process(Command(argv=("true",)), timeout_s=PATIENCE_S))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(second, PATIENCE_S)
        gate.open()
        assert (await first).stdout == b"x\n"
        assert (await run_process(Command(argv=("echo", "y")), timeout_s=PATIENCE_S)).stdout == b"y\n"

    gate = Gate(monkeypatch, "echo")
    asyncio.run(cancel_one_in_the_queue())

    assert gate.started == [("echo", "x"), ("echo", "y")]
    assert not STARTING


def test_a_killed_command_that_waits_for_its_turn_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kill_one_in_the_queue() -> Outcome:
        tasks = [
            asyncio.create_task(run_process(Command(argv=argv), timeout_s=PATIENCE_S))
            for argv in (("sleep", "0"), ("true",))
        ]
        await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
        assert sorted(start.kill() for start in tuple(STARTING)) == [False, True]
        gate.open()
        await tasks[0]
        return await asyncio.wait_for(tasks[1], PATIENCE_S)

    gate = Gate(monkeypatch, "sleep")

    assert asyncio.run(kill_one_in_the_queue()).exit_code == -signal.SIGKILL
    assert gate.started == [("sleep", "0")]


def test_a_start_that_is_cancelled_twice_ends_before_its_pipes_are_closed(
    monkeypatch: pytest.MonkeyPatch, family: Family, tmp_path: Path
) -> None:
    async def cancel_twice() -> None:
        command = Command(argv=("sh", "-c", "echo written where it should not; sleep 100"), env=family.env)
        task = asyncio.create_task(run_process(command, timeout_s=None))
        await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
        for _ in range(2):  # as asyncio.run does, of everything that still runs
            for one in asyncio.all_tasks() - {asyncio.current_task()}:
                one.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        files = [(tmp_path / str(number)).open("wb") for number in range(8)]  # they take the numbers that are free
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)
        for file in files:
            file.close()

    gate = Gate(monkeypatch, "sh")
    asyncio.run(cancel_twice())

    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b""}
    assert family.alive() == []
    assert not LIVE


def test_a_forked_child_starts_nothing_of_what_its_parent_has_in_the_queue() -> None:
    in_own_process(fork_with_a_command_in_the_queue)


def fork_with_a_command_in_the_queue() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        gate = Gate(monkeypatch, "true")
        asyncio.run(fork_while_two_are_starting(gate))
    assert gate.started == [("true",), ("echo", "queued")]


async def fork_while_two_are_starting(gate: Gate) -> None:
    tasks = []
    for argv in (("true",), ("echo", "queued")):
        tasks.append(asyncio.create_task(run_process(Command(argv=argv), timeout_s=PATIENCE_S)))
        await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
    child = os.fork()
    if child == 0:
        os._exit(in_the_child(gate))
    assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
    gate.open()
    await asyncio.gather(*tasks)


def in_the_child(gate: Gate) -> int:
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run("sleep 100 & echo own")), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    good = [outcome.stdout for outcome in outcomes] == [b"own\n"] and not LIVE and not STARTING
    return int(not good or gate.started != [("/bin/sh", "-c", "sleep 100 & echo own")])
