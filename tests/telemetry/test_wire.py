"""The wire format of OTLP: equal to what the official decoder reads, and no other error than WireError."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentv.telemetry.otlp.binary import is_framed, looks_binary, read_export
from agentv.telemetry.otlp.spans import spans_of
from agentv.telemetry.otlp.wire import WireError, decode_traces

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
PAYLOADS = sorted(TRACES.glob("*.pb"))
SPANS = [path for path in PAYLOADS if ".logs" not in path.name]


def oracle(data: bytes, *, is_logs: bool = False) -> object:
    """Return what the official decoder reads, as spans."""
    message = ExportLogsServiceRequest() if is_logs else ExportTraceServiceRequest()
    message.ParseFromString(data)
    decoded = MessageToDict(message)
    return spans_of(json.loads(json.dumps(decoded))) if decoded else []


def own(data: bytes) -> object:
    decoded = decode_traces(data)
    return spans_of(decoded) if decoded else []


def comparable(spans: object) -> object:
    """Return spans without ids, which the official JSON has in another alphabet."""
    assert isinstance(spans, list)
    return [(s.name, s.kind, s.start_ns, s.end_ns, s.attributes, s.events, s.error, s.service, s.scope) for s in spans]


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.stem)
def test_every_payload_is_read_as_the_official_decoder_reads_it(path: Path) -> None:
    data = path.read_bytes()
    assert comparable(own(data)) == comparable(oracle(data, is_logs=".logs" in path.name))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(WireError):
        read_export(data)


def test_exports_with_and_without_lengths_are_distinguished() -> None:
    data = SPANS[0].read_bytes()
    framed = len(data).to_bytes(4, "big") + data
    assert (looks_binary(data), is_framed(data)) == (True, False)
    assert (looks_binary(framed), is_framed(framed)) == (False, True)


@pytest.mark.parametrize("start", [b"\n{", b'{"a"', b"\n\n  {", b"", b"\n", b"\x1f\x8b\x08"])
def test_text_is_not_taken_for_protocol_buffers(start: bytes) -> None:
    assert not looks_binary(start)
    assert not is_framed(start)


def test_groups_which_no_field_of_otlp_has_are_skipped() -> None:
    export = ExportTraceServiceRequest()
    export.resource_spans.add().scope_spans.add().spans.add(trace_id=b"1" * 16, span_id=b"2" * 8, name="chat")
    group = b"\xfb\x01" + b"\x08\x01" + b"\x12\x01x" + b"\x1b\x1c" + b"\x25abcd" + b"\xfc\x01"
    data = group + export.SerializeToString() + group
    assert ExportTraceServiceRequest.FromString(data).resource_spans[0] == export.resource_spans[0]
    assert decode_traces(data) == decode_traces(export.SerializeToString())


@pytest.mark.parametrize(
    "group",
    [b"\xfb\x01", b"\xfb\x01\x0c", b"\x0c", b"\xfb\x01\x12\x7fx\xfc\x01", b"\x0b" * 200 + b"\x0c" * 200],
    ids=["no end", "end of another", "no start", "truncated", "too deep"],
)
def test_groups_that_do_not_end_are_refused(group: bytes) -> None:
    with pytest.raises(DecodeError):
        ExportTraceServiceRequest.FromString(group)
    with pytest.raises(WireError):
        decode_traces(group)
