"""Mutated traces: read as the official decoder reads them, and every answer is judged or reported, never empty."""

import base64
import json
import random
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.nightly import IS_NIGHTLY
from tests.telemetry.mutations import (
    MEANINGS,
    Export,
    mutated_bytes,
    mutated_structure,
    recorded_exports,
    small_payloads,
    spans_in,
)
from tests.telemetry.test_joining import comparable

from agentv.engine.logs.trace_lines import TraceLines
from agentv.execution.processes.line_stream import Line, LostLine, ReadLine
from agentv.loading.suites.recorded import read_log_line
from agentv.messages.logs.reading import TraceStep
from agentv.telemetry.joining.joining import JoinOptions, join_spans
from agentv.telemetry.otlp.spans import spans_of
from agentv.telemetry.otlp.wire import WireError, decode_traces
from agentv.types.errors import EvalFileError

EXPORTS = list(recorded_exports())
BYTES, STRUCTURES, REPEATS = (5_000, 5_000, 20) if IS_NIGHTLY else (300, 200, 1)


def with_hexadecimal_ids(value: Any) -> Any:
    """Return the official JSON with ids as OTLP writes them."""
    if isinstance(value, list):
        return list(map(with_hexadecimal_ids, value))
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64decode(item).hex() if key in ids else with_hexadecimal_ids(item) for key, item in value.items()
    }


def test_mutated_bytes_are_read_as_the_official_decoder_reads_them() -> None:
    rng, payloads, read = random.Random(40), list(small_payloads()), 0
    for _ in range(BYTES):
        is_logs, data = rng.choice(payloads)
        data = mutated_bytes(data, rng)
        try:
            message = (ExportLogsServiceRequest if is_logs else ExportTraceServiceRequest).FromString(data)
        except DecodeError:
            read_or_refuse(data)
            continue
        expected = with_hexadecimal_ids(json.loads(json.dumps(MessageToDict(message))))
        assert shown(decode_traces(data)) == shown(expected)
        read += 1
    assert read > BYTES // 4


def shown(export: Any) -> str:
    """Return the spans of an export as text, in which NaN is itself; an id that is made of the JSON is left out."""
    has_ids = all(span.get("spanId") for span in spans_in(export))
    spans = spans_of(export) if export else []
    return repr(spans if has_ids else [replace(span, span_id="") for span in spans])


def read_or_refuse(data: bytes) -> None:
    """Read bytes that the official decoder refuses: ours may skip the wrong field, or refuse them, too."""
    try:
        found = decode_traces(data)
    except WireError:
        return
    join_spans(spans_of(found) if found else [])


def read_all(data: bytes) -> tuple[list[ReadLine], list[str]]:
    """Return the lines that a line of traces becomes, and the notes."""
    lines = TraceLines(JoinOptions(), ["log"])
    taken = lines.take(Line("log", 1, data))
    try:
        return [*([] if taken is None else [taken]), *lines.rest()], [note.text for note in lines.notes()]
    finally:
        lines.close()


def check(data: bytes) -> None:
    """Read mutated traces: what they have is judged or reported, and no judged conversation is without any text."""
    lines, notes = read_all(data)
    assert lines or notes or not any(mark in data for mark in (b'"spans": [{', b'"logRecords": [{'))
    for line in lines:
        if isinstance(line, LostLine):
            assert line.message
            continue
        try:
            logged = read_log_line(line.data, line.file, line.number)
        except EvalFileError:  # reported with its place
            continue
        assert not isinstance(logged, TraceStep)
        has_text = logged.given.text or any(message.content for message in logged.given.message_history)
        assert has_text or any(note.startswith("not read in ") for note in notes)


def test_mutated_structures_are_judged_or_reported() -> None:
    rng = random.Random(41)
    for _ in range(STRUCTURES):
        check(encoded(mutated_structure(rng.choice(EXPORTS), rng)))


def encoded(export: Export) -> bytes:
    return json.dumps(export).encode()


@pytest.mark.parametrize("meaning", MEANINGS)
def test_mutated_meanings_are_judged_or_reported(meaning: str) -> None:
    rng = random.Random(42)
    for export in EXPORTS * REPEATS:
        made: Export = json.loads(json.dumps(export))
        MEANINGS[meaning](spans_in(made), rng)
        check(encoded(made))


@pytest.mark.parametrize("meaning", ["ids of spans that other traces have, too", "ids in base64"])
def test_other_ids_of_spans_make_the_same_answers(meaning: str) -> None:
    for export in EXPORTS:
        made: Export = json.loads(json.dumps(export))
        MEANINGS[meaning](spans_in(made), random.Random(43))
        (before, _), (after, _) = join_spans(spans_of(export)), join_spans(spans_of(made))
        assert [row[4:6] for row in comparable(after)] == [row[4:6] for row in comparable(before)]
