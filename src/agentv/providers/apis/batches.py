"""Batch endpoints of model APIs (`batch_api`): submit, poll and fetch. OpenAI and Azure exchange batches as files."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.providers.apis.credentials import Credentials
from agentv.providers.apis.dialogue import Dialogue, parse_turn
from agentv.providers.apis.http import (
    HttpRequest,
    HttpResponse,
    joined_headers,
    json_bytes,
    json_request,
    status_failure,
)
from agentv.providers.apis.model_provider import ModelProvider, to_message, to_response
from agentv.providers.apis.responses import count, member, objects, parse_object, text_or_none, wrong_shape
from agentv.providers.apis.transport import send, utc_now
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.protocols import ProviderTools
from agentv.types.provider import BatchState, BatchTicket, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

Send: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a request with credentials and returns a response with a status of 2xx."""

Outcome: TypeAlias = HttpResponse | Failure
"""The outcome of one request of a batch: a response like that to a single call, or a failure."""

MAX_RESULTS_BYTES = 512 * 2**20
LOST = Failure("server_error", "the batch ended without a response to this request", retryable=True)
EXPIRED = Failure("deadline", "the batch ended before this request was answered", retryable=True)
CANCELLED = Failure("cancelled", "the batch was cancelled before this request was answered")
_FINAL_STATUSES = ("completed", "expired", "cancelled")
_OK = 200


class BatchEndpoint(Protocol):
    """The batch endpoint of one API. Requests have names such as `r0`, which every API accepts."""

    async def submit(self, bodies: Mapping[str, JsonObject], send: Send) -> str:
        """Submit request bodies by name and return the batch's id."""

    async def poll(self, batch_id: str, send: Send) -> BatchState:
        """Return the state of a batch. Raises ProviderError if the whole batch failed."""

    async def fetch(self, batch_id: str, send: Send) -> Mapping[str, Outcome]:
        """Return the outcomes of the requests by name; some may be missing."""


def request_names(keys: Sequence[str]) -> Mapping[str, str]:
    """Return a request name for each key; a key may contain characters that no API accepts."""
    return {key: f"r{number}" for number, key in enumerate(keys)}


def json_lines(values: Sequence[JsonObject]) -> bytes:
    """Return one line of JSON for each value."""
    return b"".join(json_bytes(value) + b"\n" for value in values)


def parse_lines(body: bytes) -> Iterator[JsonObject]:
    """Yield the object on each line of a results file. Raises ProviderError for an invalid line."""
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, Mapping):
            raise ProviderError(Failure("malformed_reply", f"line {number} of the batch results is not a JSON object"))
        yield value


class BatchedModelProvider(ModelProvider):
    """Makes single calls or submits batches. In a batch, tool calls are not executed: there is one turn."""

    def __init__(
        self,
        target: ResolvedTarget,
        tools: ProviderTools,
        *,
        dialogue: Dialogue,
        credentials: Credentials,
        batches: BatchEndpoint,
    ) -> None:
        super().__init__(target, tools, dialogue=dialogue, credentials=credentials)
        self._batches = batches

    @property
    def uses_batch_api(self) -> bool:
        """True if this target is configured to use the batch endpoint."""
        return self._settings.batch_api

    async def submit_batch(self, requests: Mapping[str, ProviderRequest]) -> BatchTicket:
        """Submit requests by key and return at once. Raises ProviderError if the batch is rejected."""
        keys = tuple(requests)
        names = request_names(keys)
        bodies = {names[key]: self._dialogue.build_body(self._open(request)) for key, request in requests.items()}
        return BatchTicket(await self._batches.submit(bodies, self._send), keys)

    async def poll_batch(self, ticket: BatchTicket) -> BatchState:
        """Return the state of a batch. Raises ProviderError if it failed as a whole or no longer exists."""
        return await self._batches.poll(ticket.id, self._send)

    async def fetch_batch(self, ticket: BatchTicket) -> Mapping[str, ProviderResponse | Failure]:
        """Return the outcome of every request of a finished batch, by key; none is missing."""
        outcomes = await self._batches.fetch(ticket.id, self._send)
        return {key: self._to_response(outcomes.get(name, LOST)) for key, name in request_names(ticket.keys).items()}

    def _to_response(self, outcome: Outcome) -> ProviderResponse | Failure:
        if isinstance(outcome, Failure):
            return outcome
        failure = status_failure(outcome, now=utc_now())
        if failure is not None:
            return failure
        try:
            turn = parse_turn(self._dialogue, outcome)
        except ProviderError as error:
            return error.failure
        return to_response(turn, [to_message(turn)], turn.usage)

    async def _send(self, request: HttpRequest) -> HttpResponse:
        """Send a request with credentials, with the deadline of a single call."""
        auth = await self._credentials.headers(timeout_s=self._target.try_timeout_s)
        headers = joined_headers(request.headers, auth, self._settings.extra_headers)
        return await send(
            replace(request, headers=headers),
            self._shared,
            timeout_s=self._target.try_timeout_s,
            max_bytes=MAX_RESULTS_BYTES,
        )


class OpenAIBatches(Struct, frozen=True):
    """The batch API for requests to one endpoint."""

    url: Callable[[str], str]
    """Returns the URL of a path such as `/batches`."""
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
                outcomes.update(map(parse_line, parse_lines(response.body)))
        return outcomes

    async def _batch(self, batch_id: str, send: Send) -> JsonObject:
        return parse_object((await send(HttpRequest(self.url(f"/batches/{batch_id}"), {}, method="GET"))).body)


def build_upload(url: str, bodies: Mapping[str, JsonObject], endpoint: str) -> HttpRequest:
    """Return the request that uploads a file with a line for each body."""
    lines = json_lines(
        [{"custom_id": name, "method": "POST", "url": endpoint, "body": body} for name, body in bodies.items()]
    )
    boundary = hashlib.sha256(lines).hexdigest()  # must not occur in the content
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
    if code == "batch_expired":
        return name, EXPIRED
    if code == "batch_cancelled":
        return name, CANCELLED
    message = text_or_none(member(line, "error", "message"))
    return name, Failure("server_error", message, retryable=True) if message else LOST


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
