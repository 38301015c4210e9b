import asyncio
import contextvars
import sys
import threading

import pytest
from tests.support.own_process import in_own_process

from agentv.execution.threads import AbandonedError, abandoned_calls, call_in_thread

PATIENCE_S = 30.0
NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="none")


def test_a_function_runs_in_a_daemon_thread_and_returns_its_result() -> None:
    def describe(left: str, right: str) -> tuple[str, bool]:
        return left + right, threading.current_thread().daemon

    assert asyncio.run(call_in_thread(describe, "a", "b", timeout_s=PATIENCE_S)) == ("ab", True)


def test_the_callers_context_variables_are_seen() -> None:
    async def run() -> str:
        NAME.set("ada")
        return await call_in_thread(NAME.get, timeout_s=PATIENCE_S)

    assert asyncio.run(run()) == "ada"


def test_threads_are_used_again() -> None:
    async def run() -> set[int]:
        return {await call_in_thread(threading.get_ident, timeout_s=PATIENCE_S) for _ in range(20)}

    assert len(asyncio.run(run())) < 10  # a thread is free a moment after its result is there


def test_an_exception_reaches_the_caller() -> None:
    def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        asyncio.run(call_in_thread(fail, timeout_s=PATIENCE_S))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("stop"), StopIteration("end")])
def test_what_would_end_the_program_is_an_ordinary_error(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__):
        asyncio.run(call_in_thread(fail, timeout_s=PATIENCE_S))


def test_a_call_that_hangs_is_abandoned_counted_and_forgotten_when_it_ends() -> None:
    in_own_process(abandon_at_the_deadline)


def abandon_at_the_deadline() -> None:
    release = threading.Event()
    with pytest.raises(AbandonedError, match=r"did not return within 0\.01 s"):
        asyncio.run(call_in_thread(release.wait, PATIENCE_S, timeout_s=0.01))
    assert abandoned_calls() == 1

    release.set()
    asyncio.run(let_threads_run())
    assert abandoned_calls() == 0


async def let_threads_run() -> None:
    """Let other threads run until no call is counted as abandoned."""
    async with asyncio.timeout(PATIENCE_S):
        while abandoned_calls():
            await call_in_thread(threading.get_ident, timeout_s=None)


def test_cancelling_gives_up_the_call() -> None:
    in_own_process(abandon_by_cancelling)


def abandon_by_cancelling() -> None:
    started, release = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait(PATIENCE_S)

    async def run() -> None:
        task = asyncio.create_task(call_in_thread(hang, timeout_s=None))
        await asyncio.to_thread(started.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert abandoned_calls() == 1
    release.set()


def test_a_time_out_of_the_function_itself_is_not_ours() -> None:
    def fail() -> None:
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs") as raised:
        asyncio.run(call_in_thread(fail, timeout_s=PATIENCE_S))

    assert not isinstance(raised.value, AbandonedError)


def test_a_hanging_call_does_not_keep_the_program_alive() -> None:
    program = """
import asyncio, threading
from agentv.execution.threads import call_in_thread
try:
    asyncio.run(call_in_thread(threading.Event().wait, timeout_s=0.01))
except TimeoutError:
    print("over")
"""

    async def run() -> bytes:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
        async with asyncio.timeout(PATIENCE_S):
            return (await process.communicate())[0]

    assert asyncio.run(run()) == b"over\n"
