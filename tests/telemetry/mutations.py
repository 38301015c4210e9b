"""Mutations of recorded traces: of the bytes, of the structure, and of the meaning of spans."""

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentv.telemetry.otlp.binary import read_export

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
Export: TypeAlias = dict[str, Any]
Span: TypeAlias = dict[str, Any]


def recorded_exports() -> Iterator[Export]:
    """Yield each recorded export as OTLP's JSON."""
    for path in sorted(TRACES.glob("*.pb")):
        yield json.loads(json.dumps(read_export(path.read_bytes())))


def spans_in(export: Export) -> list[Span]:
    """Return the spans and the log records of an export."""
    scopes = [scope for each in export.get("resourceSpans", []) for scope in each.get("scopeSpans", [])]
    logs = [scope for each in export.get("resourceLogs", []) for scope in each.get("scopeLogs", [])]
    spans = [span for scope in scopes for span in scope.get("spans", [])]
    return spans + [record for scope in logs for record in scope.get("logRecords", [])]


def small_payloads() -> Iterator[tuple[bool, bytes]]:
    """Yield exports of one span, or of one log record (True), in protocol buffers."""
    for path in sorted(TRACES.glob("*.pb")):
        is_logs = ".logs" in path.name
        whole = (ExportLogsServiceRequest if is_logs else ExportTraceServiceRequest).FromString(path.read_bytes())
        for resource in whole.resource_logs if is_logs else whole.resource_spans:
            for scope in resource.scope_logs if is_logs else resource.scope_spans:
                for one in (scope.log_records if is_logs else scope.spans)[:6]:
                    single = type(whole)()
                    outer = (single.resource_logs if is_logs else single.resource_spans).add()
                    outer.resource.CopyFrom(resource.resource)
                    inner = (outer.scope_logs if is_logs else outer.scope_spans).add()
                    inner.scope.CopyFrom(scope.scope)
                    (inner.log_records if is_logs else inner.spans).add().CopyFrom(one)
                    yield is_logs, single.SerializeToString()


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with a few changed, deleted or inserted; most changes keep texts valid."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(made)) if made else 0
        if rng.random() < 0.9 and made:
            made[at] = rng.randrange(128 if rng.random() < 0.8 else 256)
        elif rng.random() < 0.5:
            del made[at : at + rng.randrange(1, 9)]
        else:
            made[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(made)


def _deep(rng: random.Random) -> Any:
    value: Any = "end"
    for _ in range(rng.choice((50, 150, 400))):
        value = [value] if rng.random() < 0.5 else {"kwargs": value}
    return value


_SIMPLE: Sequence[Any] = (None, True, 0, -1, 5, 1e308, 2**70, "", "x", "0", [], {}, [None])
_VALUES: Sequence[Callable[[random.Random], Any]] = (
    lambda rng: rng.choice(_SIMPLE),
    lambda _: "\ud800 lone",
    lambda _: "word " * 50_000,
    _deep,
    lambda rng: json.dumps(_deep(rng)),
    lambda _: {"role": "user", "content": "Hi"},
    lambda _: '[{"role": "user", "parts": [{"type": "text", "content": 5}]}]',
)


def mutated_structure(export: Export, rng: random.Random) -> Export:
    """Return an export in which one value, anywhere, is replaced, deleted or repeated."""
    made: Export = json.loads(json.dumps(export))
    places = list(_places(made))
    for _ in range(rng.choice((1, 1, 2, 4))):
        holder, key = rng.choice(places)
        if (key not in holder) if isinstance(holder, dict) else (key >= len(holder)):
            continue
        action = rng.random()
        if action < 0.6:
            holder[key] = rng.choice(_VALUES)(rng)
        elif action < 0.8:
            del holder[key]
        elif isinstance(holder, list):
            holder.append(holder[key])
    return made


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def _set_attribute(span: Span, key: str, value: Any) -> None:
    kept = [each for each in span.get("attributes", []) if each.get("key") != key]
    span["attributes"] = [*kept, {"key": key, "value": value}]


def _wrong_attribute(spans: Sequence[Span], rng: random.Random) -> None:
    known = [(span, each["key"]) for span in spans for each in span.get("attributes", []) if "key" in each]
    if known:
        span, key = rng.choice(known)
        value: Any = rng.choice(
            ({"intValue": "-3"}, {"intValue": "x"}, {"boolValue": True}, {"arrayValue": {}}, {"doubleValue": "NaN"},
             {"kvlistValue": {"values": [{"key": "role", "value": {"stringValue": "user"}}]}}, {"stringValue": "x"},
             {"bytesValue": "AAEC"}, {}, None, 7)
        )  # fmt: skip
        _set_attribute(span, key, value)


def _cycle(spans: Sequence[Span], _: random.Random) -> None:
    for span, other in zip(spans, [*spans[1:], spans[0]], strict=True):
        span["parentSpanId"] = other.get("spanId")


def _own_parent(spans: Sequence[Span], rng: random.Random) -> None:
    span = rng.choice(spans)
    span["parentSpanId"] = span.get("spanId")


def _same_span_ids(spans: Sequence[Span], _: random.Random) -> None:
    """Reuse ids of spans in other traces; within one trace each span keeps an id of its own."""
    counts: dict[str, int] = {}
    renamed: dict[tuple[str, str], str] = {}
    for span in spans:
        trace, name = span.get("traceId", ""), span.get("spanId", "")
        if (trace, name) not in renamed:
            counts[trace] = counts.get(trace, 0) + 1
            renamed[trace, name] = f"{counts[trace]:016x}"
    for span in spans:
        trace = span.get("traceId", "")
        span["spanId"] = renamed[trace, span.get("spanId", "")]
        if span.get("parentSpanId"):
            span["parentSpanId"] = renamed.get((trace, span["parentSpanId"]), span["parentSpanId"])


def _no_ids(spans: Sequence[Span], rng: random.Random) -> None:
    for span in spans:
        span.pop(rng.choice(("traceId", "spanId", "parentSpanId")), None)


def _base64_ids(spans: Sequence[Span], _: random.Random) -> None:
    for span in spans:
        for key in ("traceId", "spanId", "parentSpanId"):
            if span.get(key):
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()


def _no_times(spans: Sequence[Span], rng: random.Random) -> None:
    value = rng.choice(("0", 0, "", None, "-5", "x", str(2**63)))
    for span in spans:
        for key in ("startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "observedTimeUnixNano"):
            if key in span:
                span[key] = value


def _reversed_times(spans: Sequence[Span], _: random.Random) -> None:
    for span in spans:
        if "endTimeUnixNano" in span:
            span["startTimeUnixNano"], span["endTimeUnixNano"] = span["endTimeUnixNano"], span["startTimeUnixNano"]


MEANINGS: Mapping[str, Callable[[Sequence[Span], random.Random], None]] = {
    "a wrong value of a known attribute": _wrong_attribute,
    "a cycle of parents": _cycle,
    "a span that is its own parent": _own_parent,
    "ids of spans that other traces have, too": _same_span_ids,
    "missing ids": _no_ids,
    "ids in base64": _base64_ids,
    "no times": _no_times,
    "times that are reversed": _reversed_times,
}
