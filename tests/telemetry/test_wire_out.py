"""The wire format of protobuf, with opentelemetry-proto as the oracle."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue, KeyValueList
from tests.support.collectors import value_of

from agentv.telemetry.otlp.requests import Rejected, Source, SpanOut, rejected_part, traces_request
from agentv.telemetry.otlp.wire_out import attributes, fields, text, varint

int64 = st.integers(-(2**63), 2**63 - 1)
values = st.one_of(
    st.text(), st.booleans(), int64, st.floats(allow_nan=False), st.lists(st.text(), max_size=4).map(tuple)
)


@given(st.dictionaries(st.text(), values, max_size=6))
def test_attributes_are_read_back_as_they_were(given_values: dict[str, object]) -> None:
    read = KeyValueList.FromString(attributes(1, given_values))  # type: ignore[arg-type]
    found = {each.key: value_of(each.value) for each in read.values}
    assert found == {key: list(value) if isinstance(value, tuple) else value for key, value in given_values.items()}


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert KeyValue.FromString(text(1, "a\ud800b")).key == "a?b"


@given(st.lists(st.tuples(st.integers(1, 2**20), st.integers(0, 2**64 - 1)), max_size=5))
def test_integers_of_fields_are_read_as_written(pairs: list[tuple[int, int]]) -> None:
    encoded = b"".join(varint(number << 3) + varint(value) for number, value in pairs)
    assert list(fields(encoded)) == pairs


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_fields_or_a_value_error(encoded: bytes) -> None:
    with suppress(ValueError):
        assert all(number >= 0 for number, _ in fields(encoded))


@given(st.binary(max_size=64))
def test_an_arbitrary_response_is_no_error(encoded: bytes) -> None:
    assert isinstance(rejected_part(encoded), Rejected | None)


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(
            ExportTraceServiceResponse(
                partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="too old")
            ),
            id="traces",
        ),
        pytest.param(
            ExportLogsServiceResponse(
                partial_success=ExportLogsPartialSuccess(rejected_log_records=3, error_message="too old")
            ),
            id="logs",
        ),
    ],
)
def test_a_partial_success_says_what_was_rejected(
    response: ExportTraceServiceResponse | ExportLogsServiceResponse,
) -> None:
    assert rejected_part(response.SerializeToString()) == Rejected(3, "too old")


def test_a_full_success_rejects_nothing() -> None:
    assert rejected_part(b"") is None
    assert (
        rejected_part(ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess()).SerializeToString())
        is None
    )


def test_a_span_is_read_back_by_the_oracle() -> None:
    span = SpanOut(
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        parent_id=b"p" * 8,
        name="evaluation tone",
        start_ns=1,
        end_ns=2**63,
        attributes={"n": 1},
        error="bad",
    )
    request = ExportTraceServiceRequest.FromString(traces_request(Source({"service.name": "x"}, "agentv", "1"), [span]))
    (scope,) = request.resource_spans[0].scope_spans
    (read,) = scope.spans
    assert (scope.scope.name, scope.scope.version) == ("agentv", "1")
    assert (read.trace_id, read.span_id, read.parent_span_id) == (b"t" * 16, b"s" * 8, b"p" * 8)
    assert (read.name, read.start_time_unix_nano, read.end_time_unix_nano) == ("evaluation tone", 1, 2**63)
    assert (read.status.code, read.status.message, read.kind) == (2, "bad", 1)
