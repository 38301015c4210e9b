"""One request to collectors that answer, refuse, hang, drip and hang up."""

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.certificates import Authority, tls_of
from tests.support.loopback import Writer, endless, hang_up, never_answer, reply, serving

from agentv.telemetry.sending.collector import find_collector
from agentv.telemetry.sending.post import Accepted, Refused, post


def send(url: str, body: bytes = b"\x0a\x00", *, timeout_s: float = 5.0, **env: str) -> Accepted | Refused:
    variables = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in env.items()}
    endpoint = find_collector(url, variables).endpoints["traces"]
    return post(replace(endpoint, timeout_s=timeout_s), body, content_type="application/x-protobuf")


def test_a_request_is_compressed_protobuf_with_the_headers() -> None:
    with serving(reply("")) as server:
        assert send(server.url, b"body", HEADERS="api-key=s3cret") == Accepted()
    (request,) = server.requests
    assert request.line.startswith("POST /v1/traces ")
    assert request.headers["content-type"] == "application/x-protobuf"
    assert request.headers["api-key"] == "s3cret"
    assert gzip.decompress(request.body) == b"body"


def test_without_compression_the_body_is_plain() -> None:
    with serving(reply("")) as server:
        assert send(server.url, b"body", COMPRESSION="none") == Accepted()
    assert server.requests[0].body == b"body"


@pytest.mark.parametrize(
    ("status", "is_retryable", "is_unsupported"),
    [
        pytest.param("405 Method Not Allowed", False, True, id="405"),
        pytest.param("404 Not Found", False, True, id="404"),
        pytest.param("401 Unauthorized", False, False, id="401"),
        pytest.param("307 Temporary Redirect", False, False, id="307"),
        pytest.param("429 Too Many Requests", True, False, id="429"),
        pytest.param("503 Service Unavailable", True, False, id="503"),
    ],
)
def test_a_status_says_whether_to_try_again(status: str, is_retryable: bool, is_unsupported: bool) -> None:
    with serving(reply("no", status=status, headers={"Location": "http://127.0.0.1:9/"})) as server:
        outcome = send(server.url)
    assert isinstance(outcome, Refused)
    assert outcome.reason == f"HTTP {status[:3]}"
    assert (outcome.is_retryable, outcome.is_unsupported) == (is_retryable, is_unsupported)
    assert len(server.requests) == 1


def test_a_web_page_is_no_acceptance() -> None:
    """As the login page of a gateway, which has the status 200."""
    with serving(reply("<html>Log in</html>", headers={"Content-Type": "text/html; charset=utf-8"})) as server:
        outcome = send(server.url)
    assert isinstance(outcome, Refused)
    told = outcome.with_advice(keys="KEYS", url="the address")
    assert (told.reason, told.is_retryable) == ("answered with a web page: check the address", False)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("Thu, 01 Jan 1970 00:00:00 GMT", 0.0, id="date"),
        pytest.param("soon", None, id="neither"),
    ],
)
def test_a_refusal_says_how_long_to_wait(header: str, seconds: float | None) -> None:
    with serving(reply("", status="429 Slow", headers={"Retry-After": header})) as server:
        outcome = send(server.url)
    assert isinstance(outcome, Refused)
    assert outcome.retry_after_s == seconds


def test_a_dead_collector_is_named_as_such() -> None:
    assert send("http://127.0.0.1:9") == Refused("connection refused")


def test_a_silent_collector_ends_at_the_time_limit() -> None:
    with serving(never_answer) as server:
        assert send(server.url, timeout_s=0.2) == Refused("no answer within 0.2 s")


def test_a_dripping_collector_ends_at_the_time_limit() -> None:
    drips = endless(b"x", head="X-Long: ", pause_s=0.05)
    with serving(drips) as server:
        assert send(server.url, timeout_s=0.3) == Refused("no answer within 0.3 s")


def test_a_collector_that_hangs_up_is_a_refusal() -> None:
    with serving(hang_up) as server:
        outcome = send(server.url)
    assert isinstance(outcome, Refused)
    assert outcome.is_retryable


def test_a_collector_behind_tls_is_trusted_by_its_authority_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with serving(reply(""), tls=tls_of(authority.certificate("127.0.0.1"))) as server:
        assert send(server.url, CERTIFICATE=str(authority.file)) == Accepted()
        assert send(server.url) == Refused("TLS: CERTIFICATE_VERIFY_FAILED")


def test_something_that_does_not_speak_http_is_a_refusal() -> None:
    async def mutter(writer: Writer) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")
        await writer.drain()

    with serving(mutter) as server:
        outcome = send(server.url)
    assert isinstance(outcome, Refused)
    assert "HTTP" in outcome.reason
