"""Batches of OpenAI and Azure: upload a file of requests, download a file of responses."""

import hashlib
from collections.abc import Callable, Mapping

from msgspec import Struct

from agentv.providers.apis.batches import CANCELLED, EXPIRED, LOST, Outcome, Send, json_lines, parse_lines
from agentv.providers.apis.http import HttpRequest, HttpResponse
from agentv.providers.apis.replies import count, member, objects, parse_object, text_or_none, wrong_shape
from agentv.providers.apis.request_json import json_bytes, json_request
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import BatchState

_FINAL_STATUSES = ("completed", "expired", "cancelled")
_OK = 200


class OpenAIBatches(Struct, frozen=True):
    """The batch API for requests to `endpoint`. `url` returns the URL of a path such as `/batches`."""

    url: Callable[[str], str]
    endpoint: str

    async def submit(self, bodies: Mapping[str, JsonObject], send: Send) -> str:
        """Upload the requests as a file, start a batch of it, and return the batch's id."""
        file_id = _id_of(await send(build_upload(self.url("/files"), bodies, self.endpoint)))
        body = {"completion_window": "24h", "endpoint": self.endpoint, "input_file_id": file_id}
        return _id_of(await send(json_request(self.url("/batches"), body)))

    async def poll(self, batch_id: str, send: Send) -> BatchState:
        """Return the state of a batch."""
        return parse_state(await self._batch(batch_id, send))

    async def fetch(self, batch_id: str, send: Send) -> Mapping[str, Outcome]:
        """Return the outcomes of the requests, from the output file and the error file."""
        batch = await self._batch(batch_id, send)
        outcomes: dict[str, Outcome] = {}
        for kind in ("output_file_id", "error_file_id"):
            file_id = text_or_none(batch.get(kind))
            if file_id is not None:
                response = await send(HttpRequest(self.url(f"/files/{file_id}/content"), {}, method="GET"))
                outcomes |= {
                    name: outcome for line in parse_lines(response.body) for name, outcome in [parse_line(line)]
                }
        return outcomes

    async def _batch(self, batch_id: str, send: Send) -> JsonObject:
        return parse_object((await send(HttpRequest(self.url(f"/batches/{batch_id}"), {}, method="GET"))).body)


def build_upload(url: str, bodies: Mapping[str, JsonObject], endpoint: str) -> HttpRequest:
    """Return the request that uploads a file with a line for each body."""
    lines = json_lines(
        [{"custom_id": name, "method": "POST", "url": endpoint, "body": body} for name, body in bodies.items()]
    )
    boundary = hashlib.sha256(lines).hexdigest()  # a text that does not occur in the content
    fields = (
        ('name="purpose"', "", b"batch"),
        ('name="file"; filename="requests.jsonl"', "Content-Type: application/octet-stream\r\n", lines),
    )
    parts = (
        f"--{boundary}\r\nContent-Disposition: form-data; {field}\r\n{extra_header}\r\n".encode() + content + b"\r\n"
        for field, extra_header, content in fields
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return HttpRequest(url, headers, b"".join(parts) + f"--{boundary}--\r\n".encode())


def parse_state(batch: JsonObject) -> BatchState:
    """Return the state of a batch. Raises ProviderError if the whole batch failed."""
    status = text_or_none(batch.get("status"))
    if status is None:
        raise wrong_shape("no status", batch)
    if status == "failed":
        reasons = "; ".join(map(_problem, objects(member(batch, "errors", "data"))[:5]))
        raise ProviderError(Failure("bad_request", f"the batch failed: {reasons or 'no reason given'}"))
    counts = batch.get("request_counts")
    done = count(counts, "completed") + count(counts, "failed")
    return BatchState(is_over=status in _FINAL_STATUSES, status=status, done=done, total=count(counts, "total"))


def parse_line(line: JsonObject) -> tuple[str, Outcome]:
    """Return a request's name and its outcome."""
    name = text_or_none(line.get("custom_id")) or ""
    response, code = line.get("response"), member(line, "error", "code")
    if isinstance(response, Mapping):
        request_id = text_or_none(response.get("request_id"))
        headers = {"x-request-id": request_id} if request_id else {}
        body = json_bytes(response.get("body"))
        return name, HttpResponse(count(response, "status_code") or _OK, headers, body)
    known: Mapping[JsonValue, Failure] = {"batch_expired": EXPIRED, "batch_cancelled": CANCELLED}
    message = text_or_none(member(line, "error", "message"))
    other = Failure("server_error", message, retryable=True) if message else LOST
    return name, known.get(code, other) if isinstance(code, str) else other


def _id_of(response: HttpResponse) -> str:
    value = parse_object(response.body)
    found = text_or_none(value.get("id"))
    if found is None:
        raise wrong_shape("no id", value)
    return found


def _problem(problem: JsonObject) -> str:
    line = problem.get("line")
    where = f"line {line}: " if isinstance(line, int) else ""
    return f"{where}{problem.get('message')}"
