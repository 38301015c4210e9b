"""A service under 200 requests a second for a minute, with a sampler that judges 5 % of its answers, and without.

Blocks of ten seconds with and without hand-over take turns. The service, the model and this client are processes of
their own; on Linux the event loop of the service has a core of its own.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from typing import Any

import aiohttp

from bench.cores import core_of_its_own
from bench.measuring import Effort
from bench.rows import AtMost, Row

REQUESTS_PER_S = 200
BLOCK_S = 10.0
BLOCKS = 6
WARM_UP = 400
"""Requests before, which are not measured."""
_PATIENCE_S = 30.0
_SLOW_S = 0.001


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the time of a hand-over, the callbacks of the event loop, latencies, and counts of lines."""
    block_s = BLOCK_S if effort.share == 1 else 0.5
    with ExitStack() as stack:
        url, model_process = stack.enter_context(model())
        port, process = stack.enter_context(service(url))
        stack.enter_context(core_of_its_own(process.pid))
        if sys.platform == "linux":
            os.sched_setaffinity(model_process, os.sched_getaffinity(0))
        latencies, burst = asyncio.run(load(port, block_s))
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=_PATIENCE_S)
    times, stats = map(json.loads, said.splitlines()[-2:])
    wall, cpu = zip(*times["handed_over"], strict=True)
    yield Row(work="one hand-over, wall time, 99th percentile", ours=at(99, wall), target=AtMost(50e-6))
    yield Row(work="one hand-over, CPU time, 99th percentile", ours=at(99, cpu), target=AtMost(50e-6))
    yield Row(work="one hand-over, wall time, median", ours=median(wall))
    yield Row(work="longest hand-over, CPU time", ours=max(cpu), target=AtMost(_SLOW_S))
    yield from _of_callbacks(times)
    with_, without = latencies[True], latencies[False]
    yield Row(
        work="latency beyond that without a sampler, median",
        ours=median(with_) - median(without),
        target=AtMost(0.2e-3),
    )
    yield Row(work="latency, median", ours=median(with_), beside="no sampler", theirs=median(without))
    yield Row(work="latency, 99th percentile", ours=at(99, with_), beside="no sampler", theirs=at(99, without))
    lost = stats["sampled"] - stats["judged"]
    work = f"lines lost of {stats['sampled']:,} in the sample ({stats['offered']:,} offered)"
    yield Row(work=work, ours=lost, target=AtMost(0), shown=_count)
    work = f"lines dropped of {burst['offered']:,} at once, queue of 100"
    yield Row(work=work, ours=burst["dropped"], shown=_count)


def _of_callbacks(times: Mapping[str, Sequence[float]]) -> Iterator[Row]:
    yield Row(
        work="longest callback of the event loop",
        ours=max(times["with"]),
        beside="no sampler",
        theirs=max(times["without"]),
    )
    slow = {kind: sum(each > _SLOW_S for each in times[kind]) / len(times[kind]) for kind in ("with", "without")}
    yield Row(
        work="callbacks above 1 ms, of a million",
        ours=1e6 * slow["with"],
        beside="no sampler",
        theirs=1e6 * slow["without"],
        shown=_count,
    )


def _count(number: float) -> str:
    return f"{number:,.0f}"


def at(percentile: int, values: Sequence[float]) -> float:
    """Return a percentile of some values."""
    return quantiles(values, n=100)[percentile - 1]


async def load(port: int, block_s: float) -> tuple[dict[bool, list[float]], dict[str, int]]:
    """Send requests at a steady rate, whether or not the service keeps up; return the latencies by kind of block."""
    latencies: dict[bool, list[float]] = {True: [], False: []}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session, asyncio.TaskGroup() as tasks:

        async def ask(number: int, *, sampled: bool) -> None:
            begin = time.perf_counter()
            async with session.get("/answer", params={"number": number, "sampled": int(sampled)}) as response:
                await response.read()
            latencies[sampled].append(time.perf_counter() - begin)

        for number in range(WARM_UP):
            await ask(number, sampled=bool(number % 2))
        latencies.update({True: [], False: []})
        per_block = round(block_s * REQUESTS_PER_S)
        begin = time.perf_counter()
        for number in range(BLOCKS * per_block):
            await asyncio.sleep(begin + number / REQUESTS_PER_S - time.perf_counter())
            tasks.create_task(ask(number, sampled=(number // per_block) % 2 == 0))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session, session.get("/burst") as response:
        return latencies, await response.json()


@contextmanager
def model() -> Iterator[tuple[str, int]]:
    """Run `agentv serve-fake` and yield the URL of its API, and its process."""
    command = [sys.executable, "-m", "agentv", "serve-fake", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            yield _announced(process)["urls"]["openai"], process.pid
        finally:
            process.terminate()


def _announced(process: "subprocess.Popen[str]") -> Any:
    text = ""
    for line in process.stdout or ():
        text += line
        if line.startswith("}"):
            return json.loads(text)
    raise RuntimeError("the fake model did not start")


@contextmanager
def service(model_url: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """Run the service and yield its port and process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.harnesses.sampled_service", str(port), model_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            _wait_for(port, process)
            yield port, process
        finally:
            process.kill()


def _wait_for(port: int, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the service did not start")
