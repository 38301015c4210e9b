"""A receiver of OTLP over HTTP: it accepts what exporters send, and no request makes it large or breaks it."""

import gzip
import json
import random
import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tests.support.otlp import JSON, PROTOBUF, Inbox, exchange, post, receiving
from tests.support.spans import export, span

from agentv.execution.otlp_receiver import OtlpReceiver
from agentv.telemetry.otlp.wire_out import fields

BODY = json.dumps(export(span(1, None, {"a": "b"}), span(2, 1, {}))).encode()
TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
PAYLOAD = (TRACES / "openai-v2.pb").read_bytes()


def sent(body: bytes = BODY, headers: Mapping[str, str] = JSON, path: str = "/v1/traces") -> tuple[int, Inbox]:
    """Return the status of a request to a new receiver, and what was delivered."""
    inbox = Inbox(prefixes=("", "row/7"))
    with receiving(inbox) as receiver:
        return post(receiver.port, path, body, headers).status, inbox


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (BODY, {}),
        (gzip.compress(BODY, mtime=0), {"Content-Encoding": "gzip"}),
        (gzip.compress(BODY[:50], mtime=0) + gzip.compress(BODY[50:], mtime=0), {"Content-Encoding": "gzip"}),
        (zlib.compress(BODY), {"Content-Encoding": "deflate"}),
        (BODY, {"Content-Encoding": "identity"}),
        (BODY, {"Content-Type": "application/json; charset=utf-8"}),
    ],
    ids=["plain", "gzip", "gzip in two parts", "deflate", "identity", "charset"],
)
def test_spans_are_delivered_however_they_are_encoded(body: bytes, more: Mapping[str, str]) -> None:
    status, inbox = sent(body, {**JSON, **more})
    ((prefix, spans),) = inbox.delivered
    assert (status, prefix) == (200, "")
    assert [(each.span_id, each.parent_id) for each in spans] == [(f"{1:016x}", ""), (f"{2:016x}", f"{1:016x}")]


def test_protocol_buffers_are_delivered_and_answered_in_protocol_buffers() -> None:
    inbox = Inbox()
    with receiving(inbox) as receiver:
        reply = post(receiver.port, "/v1/traces", PAYLOAD, PROTOBUF)
    assert (reply.status, reply.headers["content-type"], reply.body) == (200, "application/x-protobuf", b"")
    assert inbox.delivered[0][1]


def test_the_path_before_the_signal_is_delivered() -> None:
    status, inbox = sent(path="/row/7/v1/traces/")
    assert (status, inbox.delivered[0][0]) == (200, "row/7")


def test_what_was_accepted_is_given_on_as_it_came_and_what_was_refused_is_not() -> None:
    accepted: list[tuple[str, str, bytes]] = []
    compressed = {**PROTOBUF, "Content-Encoding": "gzip"}
    with receiving(Inbox(), on_accepted=lambda *each: accepted.append(each)) as receiver:
        post(receiver.port, "/v1/traces", gzip.compress(PAYLOAD, mtime=0), compressed)
        post(receiver.port, "/v1/logs", b"{}", {"Content-Type": "application/json; charset=utf-8"})
        post(receiver.port, "/other/v1/traces", PAYLOAD, PROTOBUF)
        post(receiver.port, "/v1/traces", b"{", JSON)
    assert accepted == [("traces", "application/x-protobuf", PAYLOAD), ("logs", "application/json", b"{}")]


def test_metrics_are_accepted_and_dropped() -> None:
    inbox = Inbox()
    with receiving(inbox) as receiver:
        assert post(receiver.port, "/v1/metrics", b"\x0a\x00", PROTOBUF).status == 200
        assert receiver.metrics == 1
    assert inbox.delivered == [("", ())]


@pytest.mark.parametrize(
    ("status", "path", "body", "headers"),
    [
        (404, "/", BODY, JSON),
        (404, "/other/v1/traces", BODY, JSON),
        (400, "/v1/traces", b"{", JSON),
        (400, "/v1/traces", b"[" * 100_000, JSON),
        (400, "/v1/traces", b"[]", JSON),
        (400, "/v1/traces", b'{"resourceSpans": 3}', JSON),
        (400, "/v1/traces", b"\xff\xff", PROTOBUF),
        (400, "/v1/traces", b"no gzip", {**JSON, "Content-Encoding": "gzip"}),
        (400, "/v1/traces", gzip.compress(BODY, mtime=0)[:-9], {**JSON, "Content-Encoding": "gzip"}),
        (415, "/v1/traces", BODY, {"Content-Type": "text/plain"}),
        (415, "/v1/traces", BODY, {**JSON, "Content-Encoding": "br"}),
        (403, "/v1/traces", BODY, {**JSON, "Host": "evil.example"}),
        (403, "/v1/traces", BODY, {**JSON, "Origin": "http://127.0.0.1"}),
    ],
)
def test_a_wrong_request_is_refused_and_reported(
    status: int, path: str, body: bytes, headers: Mapping[str, str]
) -> None:
    inbox = Inbox()
    with receiving(inbox) as receiver:
        reply = post(receiver.port, path, body, headers)
        post(receiver.port, path, body, headers)
    assert reply.status == status
    assert inbox.delivered == []
    (problem,) = inbox.problems
    assert problem.startswith(f"a request was refused with HTTP {status}: ")
    if headers.get("Content-Type") == PROTOBUF["Content-Type"]:
        code, text = dict(fields(reply.body)).values()
        assert code == 3
        assert problem.endswith(f": {bytes(text).decode()}")
    else:
        assert problem.endswith(f": {json.loads(reply.body)['message']}")


def test_only_post_is_accepted() -> None:
    with receiving(Inbox()) as receiver:
        assert post(receiver.port, "/v1/traces", b"", JSON, method="GET").status == 405


def test_spans_without_a_trace_are_rejected_and_the_others_delivered() -> None:
    body = json.dumps(export(span(1, None, {}), span(2, None, {}, traceId=""), span(3, None, {}, traceId="0" * 32)))
    inbox = Inbox()
    with receiving(inbox) as receiver:
        reply = post(receiver.port, "/v1/traces", body.encode(), JSON)
    assert reply.status == 200
    assert json.loads(reply.body)["partialSuccess"]["rejectedSpans"] == "2"
    assert [each.span_id for each in inbox.delivered[0][1]] == [f"{1:016x}"]


def test_a_partial_success_is_reported_in_protocol_buffers() -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add().name = "lost"
    with receiving(Inbox()) as receiver:
        reply = post(receiver.port, "/v1/traces", request.SerializeToString(), PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(reply.body).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, "a span without a trace id belongs to no answer")


def test_a_token_is_needed_for_a_host_that_others_can_reach() -> None:
    with pytest.raises(ValueError, match="token"):
        OtlpReceiver(lambda _prefix, _spans: True, host="0.0.0.0")


@pytest.mark.parametrize(
    ("status", "authorization"),
    [(200, "Bearer s3cret"), (401, "Bearer guess"), (401, "s3cret"), (401, ""), (401, "Bearer \xff")],
)
def test_only_the_holder_of_the_token_can_send(status: int, authorization: str) -> None:
    inbox = Inbox()
    headers = {**JSON, "Authorization": authorization, "Host": "agents.example"}
    with receiving(inbox, host="0.0.0.0", token="s3cret") as receiver:
        assert post(receiver.port, "/v1/traces", BODY, headers).status == status
    assert len(inbox.delivered) == (status == 200)


def test_a_full_receiver_asks_to_repeat_the_request() -> None:
    inbox = Inbox(is_full=True)
    with receiving(inbox) as receiver:
        reply = post(receiver.port, "/v1/traces", BODY, JSON)
        inbox.is_full = False
        assert post(receiver.port, "/v1/traces", BODY, JSON).status == 200
    assert (reply.status, reply.headers["retry-after"]) == (503, "2")
    assert inbox.problems == []


def test_a_large_body_is_refused() -> None:
    with receiving(Inbox(), max_bytes=1000) as receiver:
        assert post(receiver.port, "/v1/traces", b" " * 1001, JSON).status == 413


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"\x0a\x00" * 600_000, PROTOBUF),
        (b"\x0a\x80\x80\x80\x01" + b"\x0a\x02\x0a\x00" * 2**19, PROTOBUF),
        (b'{"resourceSpans": [' + b"{}," * 1_000_000 + b"{}]}", JSON),
    ],
    ids=["empty messages", "one message in many parts", "empty objects"],
)
def test_a_body_that_would_take_much_memory_or_time_is_refused(body: bytes, headers: Mapping[str, str]) -> None:
    with receiving(Inbox()) as receiver:
        reply = post(receiver.port, "/v1/traces", body, headers)
    assert reply.status == 413
    assert b"too many parts; send smaller batches" in reply.body


def test_grpc_is_refused_with_the_setting_that_helps() -> None:
    inbox = Inbox()
    with receiving(inbox) as receiver:
        answer = exchange(receiver.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert b"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in answer
    (problem,) = inbox.problems
    assert problem.startswith("a program connected by gRPC, ")
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in problem


def test_https_is_named() -> None:
    inbox = Inbox()
    with receiving(inbox) as receiver:
        exchange(receiver.port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert inbox.problems[0].startswith("a program connected by HTTPS")


def test_mutated_requests_are_answered_and_never_break_the_receiver() -> None:
    rng = random.Random(40)
    inbox = Inbox()
    with receiving(inbox) as receiver:
        for number in range(300):
            body = bytearray(BODY if number % 2 else PAYLOAD[:3000])
            for _ in range(rng.randrange(1, 5)):
                body[rng.randrange(len(body))] = rng.randrange(256)
            reply = post(receiver.port, "/v1/traces", bytes(body), JSON if number % 2 else PROTOBUF)
            assert reply.status in (200, 400)


BOMB = """
import asyncio, resource, sys, zlib
from agentv.execution.otlp_receiver import OtlpReceiver

async def main():
    squeeze = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    zeros = bytes(2**20)
    body = b"".join([*(squeeze.compress(zeros) for _ in range(1024)), squeeze.flush()])
    async with OtlpReceiver(lambda _prefix, _spans: True) as receiver:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        head = "POST /v1/traces HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/x-protobuf\\r\\n"
        writer.write(f"{head}Content-Encoding: gzip\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n".encode() + body)
        print((await reader.readline()).decode().split()[1])
        writer.close()

asyncio.run(main())
(kib,) = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(kib // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory is read from /proc")
def test_a_gigabyte_in_a_megabyte_of_gzip_is_refused_below_100_megabytes() -> None:
    done = subprocess.run([sys.executable, "-c", BOMB], capture_output=True, text=True, timeout=60, check=True)
    status, megabytes = done.stdout.split()
    assert status == "413"
    assert int(megabytes) < 100
    assert done.stderr == ""
