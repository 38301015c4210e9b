"""HTTP as values: what is sent, what comes back, and which failure a status means. Pure; transport.py does the rest."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import Quota

_EXCERPT = 2_000
_MESSAGE = 500
_BAD_REQUEST, _SERVER_ERRORS = 400, 500


class HttpRequest(Struct, frozen=True, gc=False):
    """One request, ready to be sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    method: str = "POST"


class HttpResponse(Struct, frozen=True, gc=False):
    """One reply, unpacked. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def request_id(self) -> str | None:
        """How the server calls the request in its own logs."""
        names = ("x-request-id", "request-id", "apim-request-id")
        return next((self.headers[name] for name in names if self.headers.get(name)), None)

    @property
    def quota(self) -> Quota | None:
        """What the server says is left of the account, in the words of OpenAI, Azure or Anthropic."""
        if not any("ratelimit" in name for name in self.headers):
            return None
        left = {
            f"{what}_{of}": _first(
                _finite(self.headers.get(f"x-ratelimit-{what}-{of}", "")),
                _finite(self.headers.get(f"anthropic-ratelimit-{of}-{what}", "")),
            )
            for what in ("limit", "remaining")
            for of in ("requests", "tokens")
        }
        return Quota(**left) if any(value is not None for value in left.values()) else None


def status_failure(reply: HttpResponse, *, now: datetime) -> Failure | None:
    """Return the failure that a reply's status means; None for 2xx."""
    if 200 <= reply.status < 300:  # noqa: PLR2004 - what HTTP calls success
        return None
    error = _error_in(reply.body)
    said = str(error.get("message") or "")[:_MESSAGE]
    kind = _kind_of(reply.status, error)
    message = f"HTTP {reply.status}{': ' if said else ''}{said}"
    if 300 <= reply.status < 400:  # noqa: PLR2004 - what HTTP calls a redirect
        place = reply.headers.get("location", "elsewhere")
        message = (
            f"HTTP {reply.status}: a redirect to {place[:_MESSAGE]}, not followed since the key would go there too"
        )
    if kind == "auth":
        message += "; check the key and what it may use"
    return Failure(
        kind,
        message,
        http_status=reply.status,
        retry_after_s=_first(retry_after_s(reply.headers, now=now), _retry_delay_s(error)),
        details={"request_id": reply.request_id, "body": reply.body[:_EXCERPT].decode(errors="replace")},
    )


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return how long the server asks us to wait, in seconds: `retry-after-ms`, or `retry-after` as number or date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        number = _finite(headers.get(name, ""))
        if number is not None:
            return max(0.0, number / unit)
    try:
        at = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _kind_of(status: int, error: JsonObject) -> FailureKind:
    # Anthropic has no code for it, only words: "Output blocked by content filtering policy".
    in_words = status == _BAD_REQUEST and "content filter" in str(error.get("message")).lower()
    if in_words or error.get("code") in ("content_filter", "content_policy_violation"):
        return "content_filter"
    kinds: Mapping[int, FailureKind] = {401: "auth", 403: "auth", 408: "server_error", 429: "rate_limited"}
    if status in kinds:
        return kinds[status]
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(error)):
        return "auth"  # Google tells a wrong key with HTTP 400
    if status < 400:  # noqa: PLR2004 - a redirect, or a 1xx that is no answer
        return "transport"
    return "server_error" if status >= _SERVER_ERRORS else "bad_request"


def _error_in(body: bytes) -> JsonObject:
    """Return the error in a reply: an object as the APIs have it, else the beginning of the text as its message."""
    try:
        value: JsonValue = json.loads(body)
    except (ValueError, RecursionError):
        return {"message": body[:_MESSAGE].decode(errors="replace").strip()}
    error = value.get("error", value) if isinstance(value, Mapping) else value
    return error if isinstance(error, Mapping) else {"message": str(error)}


def _retry_delay_s(error: JsonObject) -> float | None:
    """Return how long Google asks us to wait, which it says in the body: `"retryDelay": "7s"`."""
    delays = (str(detail.get("retryDelay", "")).removesuffix("s") for detail in _details(error))
    return next((seconds for delay in delays if (seconds := _finite(delay)) is not None), None)


def _details(error: JsonObject) -> list[JsonObject]:
    details = error.get("details")
    return [detail for detail in details if isinstance(detail, Mapping)] if isinstance(details, list) else []
