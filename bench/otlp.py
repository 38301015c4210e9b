"""Traces received by `--otlp` up to the answers: the CPU time of a span of 2 kB, and the memory of the process.

Each conversation has an agent, seven calls of a model with their histories, six of a tool, and sixteen other steps;
each request has 512 spans. The process receives and joins them, and nothing is judged.
"""

import asyncio
import http.client
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

from agentv.engine.criteria.live_traces import Deliver, LiveTraces
from agentv.execution.otlp_receiver import OtlpReceiver
from agentv.execution.processes.line_stream import LostLine
from agentv.telemetry.joining import JoinOptions
from agentv.telemetry.otlp_out import Source, SpanOut, traces_request
from agentv.telemetry.wire_out import Attributes
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json
from bench.harness import ROOT
from bench.measuring import Effort
from bench.rows import AtLeast, AtMost, Row, megabytes

SPANS = 300_000
_SPANS_PER_CONVERSATION = 30
_CALLS = 6
_SPANS_PER_REQUEST = 512
_SENDERS = 2
_RESULT = "On its way. " * 150
_START_NS = 1_767_225_600_000_000_000
_BUSY = 503
_PAUSE_S = 0.2


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the spans that a second of CPU receives and joins, and the peak memory of the process."""
    conversations = max(20, effort.calls(SPANS) // _SPANS_PER_CONVERSATION)
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
    if (ended["answers"], ended["errors"]) != (conversations, 0):
        raise RuntimeError(f"{ended['answers']} answers and {ended['errors']} errors of {conversations} conversations")
    spans = conversations * _SPANS_PER_CONVERSATION
    yield Row(
        work=f"{spans:,} spans of 2 kB, spans per second of CPU",
        ours=spans / ended["cpu_s"],
        shown=_count,
        target=AtLeast(15_000),
    )
    yield Row(work="peak memory", ours=ended["megabytes"], shown=megabytes, target=AtMost(150))


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _send(port: int, numbers: Sequence[int]) -> None:
    """Send conversations, in requests as exporters make them, and again while the receiver is full."""
    source = Source({"service.name": "shop"}, "bench", "1")
    spans = (span for number in numbers for span in _conversation(number))
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while batch := list(islice(spans, _SPANS_PER_REQUEST)):
        body = traces_request(source, batch)
        while _post(connection, body) == _BUSY:
            time.sleep(_PAUSE_S)
    connection.close()


def _post(connection: http.client.HTTPConnection, body: bytes) -> int:
    connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    with connection.getresponse() as response:
        response.read()
        return response.status


def _conversation(number: int) -> Iterator[SpanOut]:
    """Yield the spans of an agent that calls a tool between calls of a model, in the order of their ends."""
    trace_id, agent = (number + 1).to_bytes(16, "big"), _span_id(number, 0)
    said: list[JsonValue] = [_message("user", "text", content=f"Where is order {number}?")]

    def span(place: int, name: str, attributes: Attributes) -> SpanOut:
        moment = _START_NS + place * 10**6
        return SpanOut(
            trace_id=trace_id,
            span_id=_span_id(number, place),
            parent_id=agent if place else b"",
            name=name,
            start_ns=moment if place else _START_NS,
            end_ns=moment + 10**6,
            attributes=attributes,
        )

    def model(place: int, kind: str, values: Mapping[str, JsonValue]) -> SpanOut:
        texts = {name: value if isinstance(value, str) else compact_json(value) for name, value in values.items()}
        named = {f"gen_ai.{name}": text for name, text in texts.items()}
        return span(place, kind, {"gen_ai.operation.name": kind, **named})

    for each in range(1, 2 * _CALLS, 2):
        asks = _message("assistant", "tool_call", id=f"c{each}", name="find", arguments={"order": number})
        yield model(each, "chat", {"input.messages": list(said), "output.messages": [asks]})
        found = {"tool.name": "find", "tool.call.id": f"c{each}", "tool.call.result": _RESULT}
        yield model(each + 1, "execute_tool", found)
        said += [asks, _message("tool", "tool_call_response", id=f"c{each}", response="On its way.")]
    for each in range(2 * _CALLS + 1, _SPANS_PER_CONVERSATION - 1):
        yield span(each, "POST", {"http.request.method": "POST", "http.response.body": _RESULT})
    answer = _message("assistant", "text", content="It is on its way.")
    yield model(_SPANS_PER_CONVERSATION - 1, "chat", {"input.messages": list(said), "output.messages": [answer]})
    yield model(0, "invoke_agent", {"agent.name": "shop", "output.messages": [answer]})


def _message(role: str, kind: str, **part: JsonValue) -> JsonValue:
    return {"role": role, "parts": [{"type": kind, **part}]}


def _span_id(number: int, place: int) -> bytes:
    return (number * 100 + place + 1).to_bytes(8, "big")


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu_s = time.process_time() - before
    print(json.dumps({"answers": answers, "errors": errors, "cpu_s": cpu_s, "megabytes": peak}))


if __name__ == "__main__":
    asyncio.run(_receive())
