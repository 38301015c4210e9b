"""HTTP requests and responses as values, and the failure that a status means. Performs no I/O (see transport.py)."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from msgspec import Struct

from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.provider import Quota

EVENT_STREAM = "text/event-stream"
_MAX_EXCERPT = 2_000
_MAX_MESSAGE = 500
_BAD_REQUEST, _SERVER_ERRORS = 400, 500
_encode = msgspec.json.Encoder().encode


class HttpRequest(Struct, frozen=True, gc=False):
    """One HTTP request."""

    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    method: str = "POST"


class HttpResponse(Struct, frozen=True, gc=False):
    """One decompressed HTTP response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def request_id(self) -> str | None:
        """The id of the request in the server's logs; None if the server sends none."""
        for name in ("x-request-id", "request-id", "apim-request-id"):
            if self.headers.get(name):
                return self.headers[name]
        return None

    @property
    def is_success(self) -> bool:
        """True for the statuses that HTTP calls success."""
        return 200 <= self.status < 300  # noqa: PLR2004 - as in RFC 9110

    @property
    def quota(self) -> Quota | None:
        """The quota in the rate-limit headers of OpenAI, Azure or Anthropic; None without a readable amount."""
        if "ratelimit" not in " ".join(self.headers):
            return None
        amounts = {
            f"{kind}_{unit}": _first_not_none(
                _finite(self.headers.get(f"x-ratelimit-{kind}-{unit}", "")),
                _finite(self.headers.get(f"anthropic-ratelimit-{unit}-{kind}", "")),
            )
            for kind in ("limit", "remaining")
            for unit in ("requests", "tokens")
        }
        return Quota(**amounts) if any(amount is not None for amount in amounts.values()) else None


def is_event_stream(headers: Mapping[str, str]) -> bool:
    """Return True if headers, with names in lower case, announce a stream of server-sent events."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == EVENT_STREAM


def status_failure(response: HttpResponse, *, now: datetime) -> Failure | None:
    """Return the failure that a response's status means; None for 2xx.

    `now` is compared with the date of a `retry-after` header.
    """
    if response.is_success:
        return None
    error = _error_in(response.body)
    reason = str(error.get("message") or "")[:_MAX_MESSAGE]
    kind = kind_of_status(response.status, error)
    message = f"HTTP {response.status}{': ' if reason else ''}{reason}"
    if 300 <= response.status < 400:  # noqa: PLR2004 - what HTTP calls a redirect
        place = response.headers.get("location", "an unknown place")[:_MAX_MESSAGE]
        message = f"HTTP {response.status}: redirect to {place} not followed, since the key would be sent there"
    if kind == "auth":
        message += "; check the key and its permissions"
    return Failure(
        kind,
        message,
        http_status=response.status,
        retry_after_s=_first_not_none(retry_after_s(response.headers, now=now), retry_delay_s(error)),
        details={"request_id": response.request_id, "body": response.body[:_MAX_EXCERPT].decode(errors="replace")},
    )


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the delay in seconds that the headers request; None if there is none or it cannot be read.

    `retry-after-ms` has priority over `retry-after`, which has seconds or a date. `now` is compared with the date.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        number = _finite(headers.get(name, ""))
        if number is not None:
            return max(0.0, number / unit)
    try:
        retry_at = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError, OverflowError):
        return None
    if retry_at.tzinfo is None:
        retry_at = retry_at.replace(tzinfo=UTC)
    return max(0.0, (retry_at - now).total_seconds())


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _first_not_none(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def kind_of_status(status: int, error: JsonObject) -> FailureKind:
    """Return the kind of failure that a status other than 2xx means, given the error in the response's body."""
    # Anthropic has no code for a content filter, only a message: "Output blocked by content filtering policy".
    is_filtered = status == _BAD_REQUEST and "content filter" in str(error.get("message")).lower()
    if is_filtered or error.get("code") in ("content_filter", "content_policy_violation"):
        return "content_filter"
    kinds: Mapping[int, FailureKind] = {401: "auth", 403: "auth", 408: "server_error", 429: "rate_limited"}
    if status in kinds:
        return kinds[status]
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(error)):
        return "auth"  # Google reports an invalid key with HTTP 400
    if status < 400:  # noqa: PLR2004 - a redirect or 1xx
        return "transport"
    return "server_error" if status >= _SERVER_ERRORS else "bad_request"


def _error_in(body: bytes) -> JsonObject:
    """Return the error in a response's body: the value of `error`, else the whole body.

    An error that is not a JSON object becomes the `message` of one.
    """
    try:
        value: JsonValue = json.loads(body)
    except (ValueError, RecursionError):
        return {"message": body[:_MAX_MESSAGE].decode(errors="replace").strip()}
    error = value.get("error", value) if isinstance(value, Mapping) else value
    return error if isinstance(error, Mapping) else {"message": str(error)}


_STATUS_OF_ERROR: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses of errors that Anthropic and OpenAI report by name, in a batch or in the middle of a stream."""


def status_of_error(error: JsonObject) -> int:
    """Return the HTTP status of an error from its `code`, `status` or `type`; 500 if none of these is known.

    A number in any of them has priority over a name.
    """
    values = [error.get(key) for key in ("code", "status", "type")]
    by_number = [value for value in values if isinstance(value, int) and value >= _BAD_REQUEST]
    by_name = [_STATUS_OF_ERROR[value] for value in values if isinstance(value, str) and value in _STATUS_OF_ERROR]
    return next(iter((*by_number, *by_name)), _SERVER_ERRORS)


def retry_delay_s(error: JsonObject) -> float | None:
    """Return the retry delay in seconds of a Google error (`"retryDelay": "7s"`); None if it has none."""
    delays = (str(detail.get("retryDelay", "")).removesuffix("s") for detail in _details(error))
    return next((seconds for delay in delays if (seconds := _finite(delay)) is not None), None)


def _details(error: JsonObject) -> list[JsonObject]:
    """Return the objects in the `details` of a Google error."""
    details = error.get("details")
    return [detail for detail in details if isinstance(detail, Mapping)] if isinstance(details, list) else []


def without_none(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a body without the keys whose value is None."""
    return {key: value for key, value in body.items() if value is not None}


def json_request(url: str, body: JsonObject, *headers: Mapping[str, str]) -> HttpRequest:
    """Return a POST request with a JSON body. Of headers with the same name, ignoring case, the last one is sent."""
    return HttpRequest(url, joined_headers({"Content-Type": "application/json"}, *headers), json_bytes(body))


def json_bytes(value: JsonValue) -> bytes:
    """Return a value as JSON in UTF-8. Lone surrogates, which UTF-8 cannot encode, become question marks."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, TypeError):  # lone surrogates, and values that are not JSON
        return compact_json(value).encode(errors="replace")


def joined_headers(*several: Mapping[str, str]) -> dict[str, str]:
    """Merge headers; of those with the same name, ignoring case, the last one remains."""
    named = {name.lower(): (name, value) for headers in several for name, value in headers.items()}
    return dict(named.values())
