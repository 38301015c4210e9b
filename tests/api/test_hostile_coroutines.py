"""Async targets and evaluators that swallow cancellation, cancel tasks, or stop the event loop."""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentv import evaluate

TARGETS = """
import asyncio

async def swallows(request):
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

async def cancels_all(request):
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)

async def cancels_itself(request):
    asyncio.current_task().cancel()
    await asyncio.sleep(600)

async def cancels_itself_and_answers(request):
    asyncio.current_task().cancel()
    return "good"

async def stops(request):
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)

async def stops_later(request):
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
    await asyncio.sleep(0.01)
    return "good"

async def exits(request):
    await asyncio.sleep(0)
    raise SystemExit(7)

async def good(request):
    await asyncio.sleep(0.01)
    return "good"

KINDS = {
    "swallows": "target_timeout",
    "cancels_all": "unexpected_shape",
    "cancels_itself": "plugin_error",
    "cancels_itself_and_answers": "plugin_error",
    "stops": "plugin_error",
    "stops_later": "plugin_error",
    "exits": "plugin_error",
    "good": None,
}

async def answer(request):
    return await globals()[request.eval_case_id.split("-")[0]](request)
"""
CASES = """
targets: [{name: t, provider: python, callable: 'clerk.py:answer', timeout_seconds: 1, workers: 3}]
cases:
"""


def kinds() -> dict[str, str | None]:
    names: dict[str, Any] = {}
    exec(compile(TARGETS, "clerk.py", "exec"), names)
    found: dict[str, str | None] = names["KINDS"]
    return found


@pytest.mark.slow
def test_hostile_coroutines_are_errors_of_their_cases_alone(tmp_path: Path) -> None:
    """Two runs at the same time, since each of them waits ten seconds for what ignores its cancellation."""
    cases = [f"{name}-{number}" for number in range(2) for name in (*kinds(), "good")]
    cases = [f"{name}-{index}" for index, name in enumerate(cases)]
    check = "evaluators: [{name: e, type: equals, value: good}]"
    lines = "".join(f"  - {{id: {name}, input: q, {check}}}\n" for name in cases)
    limits = {"deadline": 3, "target_timeout": 60}
    for kind, total_s in limits.items():
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "clerk.py").write_text(TARGETS)
        (folder / "a.eval.yaml").write_text(f"timeout_seconds: {total_s}\n{CASES}{lines}")
    with ThreadPoolExecutor() as threads:
        runs = dict(zip(limits, threads.map(run_in, map(tmp_path.joinpath, limits)), strict=True))
    for kind, done in runs.items():
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 3, done.stdout + done.stderr
        (results,) = tmp_path.glob(f"{kind}/.agentv/runs/*/results.jsonl")
        rows = [json.loads(line) for line in results.read_text().splitlines()]
        found = {row["eval_id"]: (row.get("error") or {}).get("kind") for row in rows}
        expected = {**kinds(), "swallows": kind}
        assert found == {name: expected[name.split("-")[0]] for name in cases}
        assert "abandoned" in done.stdout, done.stdout


def run_in(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = (sys.executable, "-m", "agentv", "run", "a.eval.yaml", "--name", "x")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize("in_loop", [False, True], ids=["evaluate from code", "evaluate in a running loop"])
def test_evaluate_reports_hostile_coroutines(in_loop: bool) -> None:
    async def cancels_itself(request: Any) -> str:
        if request.eval_case_id == "b":
            return "good"
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "good"

    check = {"name": "e", "type": "equals", "value": "good"}
    cases = [{"id": name, "input_messages": "q", "evaluators": [check]} for name in "abc"]

    async def run_in_loop() -> Any:
        return evaluate(cases, task=cancels_itself)

    report = asyncio.run(run_in_loop()) if in_loop else evaluate(cases, task=cancels_itself)
    assert [row.error and row.error.kind for row in report.results] == ["plugin_error", None, "plugin_error"]
