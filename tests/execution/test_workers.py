import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from agentv.execution.backends.workers import WorkerPool
from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonObject, JsonValue

T = TypeVar("T")
PATIENCE_S = 60.0

JUDGE = """
import os, subprocess, sys, threading

def judge(payload):
    what = payload["do"]
    if what == "echo": return payload
    if what == "pid": return os.getpid()
    if what == "print":
        print('{"value": "forged"}', flush=True)
        os.write(1, b'{"value": "forged"}\\n')
        subprocess.run(["echo", '{"value": "forged"}'], check=True)
        return [sys.stdin.read(), "honest"]
    if what == "raise": raise ValueError("no such rubric")
    if what == "exit": sys.exit(3)
    if what == "die":
        print("segmentation", file=sys.stderr, flush=True)
        os._exit(11)
    if what == "hang":
        subprocess.Popen(["sleep", "1000"])
        threading.Event().wait()
    if what == "no json": return object()
    if what == "flood": return "x" * 11 * 2**20

async def judge_async(payload):
    return "async"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "judge.py").write_text(JUDGE)
    return tmp_path


def with_pool(folder: Path, use: Callable[[WorkerPool], Awaitable[T]], function: str = "judge.py:judge") -> T:
    async def run() -> T:
        async with asyncio.timeout(PATIENCE_S), WorkerPool(function, str(folder)) as pool:
            return await use(pool)

    return asyncio.run(run())


def ask(pool: WorkerPool, what: str, timeout_s: float = PATIENCE_S) -> Awaitable[JsonValue]:
    return pool.call({"do": what}, timeout_s=timeout_s)


def test_what_the_function_returns_comes_back(folder: Path) -> None:
    payload: JsonObject = {"do": "echo", "text": "é\n\ud800\0", "number": 0.1, "list": [None, True, {}]}

    assert with_pool(folder, lambda pool: pool.call(payload, timeout_s=PATIENCE_S)) == payload


def test_a_coroutine_function_is_awaited(folder: Path) -> None:
    assert with_pool(folder, lambda pool: ask(pool, "x"), "judge.py:judge_async") == "async"


def test_a_process_stays_warm_for_the_next_call(folder: Path) -> None:
    async def use(pool: WorkerPool) -> set[JsonValue]:
        return {await ask(pool, "pid") for _ in range(5)}

    pids = with_pool(folder, use)

    assert len(pids) == 1
    assert pids != {os.getpid()}
    assert not psutil.pid_exists(int(str(pids.pop())))


def test_calls_at_the_same_time_have_a_process_each(folder: Path) -> None:
    async def use(pool: WorkerPool) -> int:
        return len(set(await asyncio.gather(*(ask(pool, "pid") for _ in range(3)))))

    assert with_pool(folder, use) == 3


def test_what_the_function_prints_and_reads_never_touches_the_conversation(folder: Path) -> None:
    assert with_pool(folder, lambda pool: ask(pool, "print")) == ["", "honest"]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("raise", r"judge.py:judge raised ValueError: no such rubric \(.*judge.py:13\)"),
        ("exit", r"judge.py:judge raised SystemExit: 3"),
        ("die", r"judge.py:judge crashed its process; standard error: segmentation"),
        ("no json", r"judge.py:judge returned something that is not JSON: Object of type object"),
        ("flood", r"judge.py:judge returned more than 10 MiB"),
    ],
)
def test_a_call_that_fails_says_why_and_the_next_one_works(folder: Path, what: str, message: str) -> None:
    async def use(pool: WorkerPool) -> JsonValue:
        with pytest.raises(EvaluatorError, match=message):
            await ask(pool, what)
        return await ask(pool, "pid")

    assert isinstance(with_pool(folder, use), int)


def test_a_call_that_hangs_is_ended_with_its_children(folder: Path) -> None:
    async def use(pool: WorkerPool) -> tuple[JsonValue, JsonValue]:
        first = await ask(pool, "pid")
        with pytest.raises(EvaluatorError, match=r"did not return within 0\.5 s") as raised:
            await ask(pool, "hang", timeout_s=0.5)
        assert raised.value.failure.kind == "deadline"
        return first, await ask(pool, "pid")

    first, second = with_pool(folder, use)

    assert first != second
    assert not [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)]


def test_a_function_that_cannot_be_loaded_is_said_with_each_call(folder: Path) -> None:
    async def use(pool: WorkerPool) -> None:
        for _ in range(2):
            with pytest.raises(EvaluatorError, match="Did you mean 'judge'") as raised:
                await ask(pool, "echo")
            assert raised.value.failure.kind == "plugin_error"

    with_pool(folder, use, "judge.py:jugde")
