from datetime import UTC, datetime, timedelta

import pytest

from agentv.providers.apis.http import HttpResponse, retry_after_s, status_failure
from agentv.types.provider import Quota

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30"}, 30.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": f"Thu, 01 Jan {10**20} 12:00:30 GMT"}, None),
    ],
)
def test_how_long_to_wait_may_be_a_number_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=NOON) == seconds


def test_a_date_is_compared_with_the_present_moment() -> None:
    headers = {"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}

    assert retry_after_s(headers, now=NOON + timedelta(seconds=10)) == 20.0


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (401, b'{"error": {"message": "bad key"}}', "auth", "HTTP 401: bad key; check the key and its permissions"),
        (403, b"", "auth", "HTTP 403; check the key and its permissions"),
        (404, b'{"error": "no such model"}', "bad_request", "HTTP 404: no such model"),
        (400, b'{"detail": "x", "message": "too long"}', "bad_request", "HTTP 400: too long"),
        (400, b'{"error": {"code": "content_filter", "message": "no"}}', "content_filter", "HTTP 400: no"),
        (
            400,
            b'{"error": {"message": "Blocked by content filtering policy"}}',
            "content_filter",
            "HTTP 400: Blocked by",
        ),
        (400, b'{"error": {"message": "no", "details": [{"reason": "API_KEY_INVALID"}]}}', "auth", "HTTP 400: no"),
        (400, b'{"error": {"message": "no", "details": [4, {"reason": "OTHER"}]}}', "bad_request", "HTTP 400: no"),
        (408, b"", "server_error", "HTTP 408"),
        (429, b"slow down\n", "rate_limited", "HTTP 429: slow down"),
        (500, b"[" * 100_000, "server_error", "HTTP 500: " + "[" * 500),
        (503, b"\xff\xfe", "server_error", "HTTP 503: \ufffd\ufffd"),
        (529, b'{"type": "error", "error": {"message": "overloaded"}}', "server_error", "HTTP 529: overloaded"),
    ],
)
def test_every_status_is_one_kind_of_failure(status: int, body: bytes, kind: str, message: str) -> None:
    failure = status_failure(HttpResponse(status, {"x-request-id": "r-1"}, body), now=NOON)

    assert failure is not None
    assert (failure.kind, failure.http_status) == (kind, status)
    assert failure.message.startswith(message)
    assert failure.details is not None
    assert failure.details["request_id"] == "r-1"


def test_a_redirect_is_not_followed_and_says_where_it_led() -> None:
    failure = status_failure(HttpResponse(307, {"location": "https://elsewhere/"}, b""), now=NOON)

    assert failure is not None
    assert failure.kind == "transport"
    assert failure.message == "HTTP 307: redirect to https://elsewhere/ not followed, since the key would be sent there"


@pytest.mark.parametrize("status", [200, 201, 204])
def test_success_is_no_failure(status: int) -> None:
    assert status_failure(HttpResponse(status, {}, b""), now=NOON) is None


def test_google_says_in_the_body_how_long_to_wait() -> None:
    body = b'{"error": {"code": 429, "message": "quota", "details": [{"@type": "RetryInfo", "retryDelay": "7.5s"}]}}'

    failure = status_failure(HttpResponse(429, {}, body), now=NOON)

    assert failure is not None
    assert failure.retry_after_s == 7.5
    failure = status_failure(HttpResponse(429, {"retry-after": "2"}, body), now=NOON)
    assert failure is not None
    assert failure.retry_after_s == 2.0


@pytest.mark.parametrize(
    ("headers", "quota"),
    [
        ({}, None),
        ({"x-ratelimit-limit-requests": "soon"}, None),
        (
            {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "0"},
            Quota(limit_requests=600, remaining_requests=0),
        ),
        (
            {"anthropic-ratelimit-tokens-limit": "80000", "anthropic-ratelimit-tokens-remaining": "79000"},
            Quota(limit_tokens=80_000, remaining_tokens=79_000),
        ),
    ],
)
def test_what_is_left_of_an_account_is_read_from_the_headers(headers: dict[str, str], quota: Quota | None) -> None:
    assert HttpResponse(200, headers, b"").quota == quota


@pytest.mark.parametrize("name", ["x-request-id", "request-id", "apim-request-id"])
def test_a_request_is_called_as_the_server_calls_it(name: str) -> None:
    assert HttpResponse(200, {name: "r-1"}, b"").request_id == "r-1"
