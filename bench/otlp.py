"""Traces received by `--otlp` up to the answers: the CPU time of a span of 2 kB, and the memory of the process.

The spans are those of the benchmark `traces`, 512 in each request. The process receives and joins them, and nothing is
judged.
"""

import asyncio
import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agentv.engine.logs.live_traces import Deliver, LiveTraces
from agentv.execution.otlp_receiver import OtlpReceiver
from agentv.execution.processes.line_stream import LostLine
from agentv.telemetry.joining.joining import JoinOptions
from bench.harness import ROOT
from bench.harnesses.job import peak_mb
from bench.measuring import Effort
from bench.rows import AtLeast, AtMost, Row, megabytes
from bench.trace_input import ANSWERS_PER_CONVERSATION, AT_ONCE, SPANS_PER_CONVERSATION, as_protobuf, exports

SPANS = 300_000
_SPANS_PER_REQUEST = 512
_SENDERS = 2
_BUSY = 503
_PAUSE_S = 0.2


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the spans that a second of CPU receives and joins, and the peak memory of the process."""
    together = _SENDERS * AT_ONCE
    conversations = max(1, effort.calls(SPANS) // SPANS_PER_CONVERSATION // together) * together
    words = (sys.executable, "-m", "bench.otlp")
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            port = int(process.stdout.readline())  # type: ignore[union-attr] # it is a pipe
            with ThreadPoolExecutor(_SENDERS) as senders:
                shares = [range(first, conversations, _SENDERS) for first in range(_SENDERS)]
                list(senders.map(partial(_send, port), shares))
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate()
        finally:
            process.kill()
    ended = json.loads(said)
    if (ended["answers"], ended["errors"]) != (conversations * ANSWERS_PER_CONVERSATION, 0):
        raise RuntimeError(f"{ended['answers']} answers and {ended['errors']} errors of {conversations} conversations")
    spans = conversations * SPANS_PER_CONVERSATION
    yield Row(
        work=f"{spans:,} spans of 2 kB, spans per second of CPU",
        ours=spans / ended["cpu_s"],
        shown=_count,
        target=AtLeast(15_000),
    )
    yield Row(work="peak memory", ours=ended["megabytes"], shown=megabytes, target=AtMost(150))


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _send(port: int, conversations: range) -> None:
    """Send conversations, in requests as exporters make them, and again while the receiver is full."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number, export in enumerate(exports(conversations, _SPANS_PER_REQUEST)):
        body = as_protobuf(export, number * _SPANS_PER_REQUEST)
        while _post(connection, body) == _BUSY:
            time.sleep(_PAUSE_S)
    connection.close()


def _post(connection: http.client.HTTPConnection, body: bytes) -> int:
    connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    with connection.getresponse() as response:
        response.read()
        return response.status


async def _receive() -> None:
    """Receive traces and join them until a signal, and print what it took."""
    receivers: list[OtlpReceiver] = []

    def make(deliver: Deliver, is_full: Callable[[], bool]) -> OtlpReceiver:
        receivers.append(OtlpReceiver(deliver, is_full=is_full))
        receivers[0].bind()
        return receivers[0]

    traces = LiveTraces(make, JoinOptions())
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, traces.end)
    print(receivers[0].port, flush=True)
    before, answers, errors = time.process_time(), 0, 0
    async for batch in traces.batches():
        answers += len(batch)
        errors += sum(isinstance(line, LostLine) for line in batch)
    cpu_s = time.process_time() - before
    print(json.dumps({"answers": answers, "errors": errors, "cpu_s": cpu_s, "megabytes": peak_mb()}))


if __name__ == "__main__":
    asyncio.run(_receive())
