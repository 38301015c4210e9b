"""Message batches of Anthropic."""

from collections.abc import Mapping

from msgspec import Struct

from agentv.providers.anthropic_messages import API_VERSION, version_header
from agentv.providers.batch_endpoint import CANCELLED, EXPIRED, LOST, Outcome, Send, parse_lines
from agentv.providers.http import HttpReply, HttpRequest
from agentv.providers.reply_json import count, member, parse_object, text_or_none, wrong_shape
from agentv.providers.request_json import json_bytes, json_request
from agentv.types.json_value import JsonObject
from agentv.types.provider import BatchState

_VERSION = {"anthropic-version": API_VERSION}
_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_UNKNOWN_ERROR = 500


class MessageBatches(Struct, frozen=True):
    """Takes batches of messages at `url`."""

    url: str

    async def submit(self, bodies: Mapping[str, JsonObject], send: Send) -> str:
        """Begin a batch, and return its id."""
        requests: list[JsonObject] = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        reply = await send(json_request(self.url, {"requests": requests}, version_header(list(bodies.values()))))
        batch = parse_object(reply.body)
        batch_id = text_or_none(batch.get("id"))
        if batch_id is None:
            raise wrong_shape("no id", batch)
        return batch_id

    async def poll(self, batch_id: str, send: Send) -> BatchState:
        """Tell how far a batch is."""
        return parse_state(parse_object((await send(self._get(f"/{batch_id}"))).body))

    async def fetch(self, batch_id: str, send: Send) -> Mapping[str, Outcome]:
        """Return what became of the requests."""
        # The address that the batch itself names is not asked: the key goes to the settings' server only.
        reply = await send(self._get(f"/{batch_id}/results"))
        return dict(map(parse_line, parse_lines(reply.body)))

    def _get(self, path: str) -> HttpRequest:
        return HttpRequest(f"{self.url}{path}", _VERSION, method="GET")


def parse_state(batch: JsonObject) -> BatchState:
    """Return how far a batch is."""
    status = text_or_none(batch.get("processing_status"))
    if status is None:
        raise wrong_shape("no processing_status", batch)
    counts = batch.get("request_counts")
    done = sum(count(counts, name) for name in ("succeeded", "errored", "canceled", "expired"))
    return BatchState(is_over=status == "ended", status=status, done=done, total=done + count(counts, "processing"))


def parse_line(line: JsonObject) -> tuple[str, Outcome]:
    """Return a request's name and what became of it."""
    name = text_or_none(line.get("custom_id")) or ""
    match member(line, "result", "type"):
        case "succeeded":
            return name, HttpReply(200, {}, json_bytes(member(line, "result", "message")))
        case "errored":
            error = member(line, "result", "error")
            kind = text_or_none(member(error, "error", "type")) or text_or_none(member(error, "type")) or ""
            return name, HttpReply(_STATUSES.get(kind, _UNKNOWN_ERROR), {}, json_bytes(error))
        case "expired":
            return name, EXPIRED
        case "canceled":
            return name, CANCELLED
        case _:
            return name, LOST
