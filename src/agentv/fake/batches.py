"""OpenAI's files and batches, and Anthropic's message batches; a batch ends after a fixed number of polls."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from aiohttp import web
from msgspec import Struct, field
from msgspec.structs import replace

from agentv.fake.answers import OPENAI_EMBEDDINGS
from agentv.fake.anthropic import ANTHROPIC
from agentv.fake.api import CREATED, Api, Problem, RefusedError, as_object, as_text, objects, refused
from agentv.fake.endpoints import Endpoints, check_required, json_response, read_object, start_call
from agentv.fake.faults import OddBatch, choose_fault
from agentv.fake.log import Call
from agentv.fake.openai_chat import OPENAI_CHAT, refuse
from agentv.fake.openai_responses import OPENAI_RESPONSES
from agentv.types.json_value import JsonObject, JsonValue


class BatchStore(Struct):
    """The state that both batch APIs share: the description and content of each file by id, and a counter for ids.

    A batch ends after `polls` polls.
    """

    polls: int
    files: dict[str, tuple[JsonObject, bytes]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def new_id(self, kind: str) -> str:
        """Return a unique id that starts with `kind`."""
        return f"{kind}-fake-{next(self._numbers)}"


class Wait(Struct):
    """The remaining time of a batch, measured in polls."""

    polls_left: int
    is_cancelled: bool = False

    @property
    def is_over(self) -> bool:
        """True if no poll is left or the batch was cancelled."""
        return self.is_cancelled or self.polls_left <= 0

    def poll(self) -> None:
        """Count one poll."""
        self.polls_left -= 1


def batch_fault(body: JsonObject) -> str:
    """Return the name of the request's fault if it is one of batches (`OddBatch`), else ""."""
    try:
        chosen = choose_fault(as_text(body.get("model")))
    except RefusedError:  # an unknown fault, which is refused when the request is answered
        return ""
    return chosen.name if chosen is not None and isinstance(chosen.fault, OddBatch) else ""


def json_lines(rows: Sequence[JsonObject]) -> bytes:
    """Return one line of JSON for each row, the last row first: the results of real batches are not in order either."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in reversed(rows))


_APIS: Mapping[str, Api] = {
    "/chat/completions": OPENAI_CHAT,
    "/responses": OPENAI_RESPONSES,
    "/embeddings": OPENAI_EMBEDDINGS,
}
_OK = 200


class Batch(Struct):
    """One OpenAI batch."""

    id: str
    request: JsonObject
    """The body that created it."""
    wait: Wait
    rows: list[JsonObject] = field(default_factory=list)
    """The results of answered requests."""
    errors: list[JsonObject] = field(default_factory=list)
    """The results of refused and expired requests."""
    problems: list[JsonObject] = field(default_factory=list)
    """The reasons why the whole batch fails."""
    expired: bool = False
    """True if any request expires."""
    total: int = 0
    """The number of requests."""
    files: dict[str, str] = field(default_factory=dict)
    """The ids of the files with results, under "output" and "error"."""

    @property
    def status(self) -> str:
        """The status in OpenAI's terms."""
        if self.wait.is_cancelled:
            return "cancelled"
        if not self.wait.is_over:
            return "in_progress"
        if self.problems:
            return "failed"
        return "expired" if self.expired else "completed"


class OpenAIBatches(Struct):
    """The handlers of OpenAI's files and batches."""

    endpoints: Endpoints
    store: BatchStore
    _batches: dict[str, Batch] = field(default_factory=dict)

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Store a file, sent as a form with `purpose` and `file`."""
        form = await request.post()
        file, purpose = form.get("file"), form.get("purpose")
        if not isinstance(file, web.FileField) or not isinstance(purpose, str):
            return _refuse(refused("The form needs 'purpose' and 'file'."))
        return json_response(self._save(file.file.read(), file.filename, purpose))

    async def show_file(self, request: web.Request) -> web.StreamResponse:
        """Describe a file."""
        found = self.store.files.get(request.match_info["file"])
        return json_response(found[0]) if found else _refuse(refused("No such File object.", status=404))

    async def read_file(self, request: web.Request) -> web.StreamResponse:
        """Return a file's bytes."""
        found = self.store.files.get(request.match_info["file"])
        if found is None:
            return _refuse(refused("No such File object.", status=404))
        _, content = found
        return web.Response(body=content, content_type="application/octet-stream")

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a batch from `input_file_id`, `endpoint` and `completion_window`."""
        try:
            body = await read_object(request)
            stored = self.store.files.get(as_text(body.get("input_file_id")))
            api = _APIS.get(as_text(body.get("endpoint")).removeprefix("/v1"))
            if stored is None or api is None or body.get("completion_window") != "24h":
                allowed = ", ".join(f"/v1{path}" for path in _APIS)
                raise refused(
                    f"The batch needs an existing input_file_id, completion_window '24h', and an endpoint: {allowed}."
                )
        except RefusedError as error:
            return _refuse(error)
        batch = Batch(self.store.new_id("batch"), body, Wait(self.store.polls))
        self._batches[batch.id] = batch
        _, content = stored
        self._answer(batch, content, api, replace(start_call(request, api.name), batch=batch.id))
        return json_response({**self._describe(batch), "status": "validating"})

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Describe a batch, and count the poll."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None:
            return _refuse(refused("No batch found with that id.", status=404))
        batch.wait.poll()
        return json_response(self._describe(batch))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Cancel a batch; refuse the request if the batch has ended."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None:
            return _refuse(refused("No batch found with that id.", status=404))
        if batch.wait.is_over:
            return _refuse(refused(f"Cannot cancel a batch with status '{batch.status}'.", status=409))
        batch.wait.is_cancelled = True
        return json_response({**self._describe(batch), "status": "cancelling"})

    async def list_all(self, _: web.Request) -> web.StreamResponse:
        """Describe all batches, the newest first."""
        data: list[JsonValue] = [self._describe(batch) for batch in reversed(self._batches.values())]
        return json_response({"object": "list", "data": data, "has_more": False})

    def _save(self, content: bytes, name: str, purpose: str) -> JsonObject:
        """Store a file, and return its description."""
        identifier = self.store.new_id("file")
        about: JsonObject = {
            "id": identifier,
            "object": "file",
            "bytes": len(content),
            "created_at": CREATED,
            "filename": name,
            "purpose": purpose,
            "status": "processed",
        }
        self.store.files[identifier] = (about, content)
        return about

    def _answer(self, batch: Batch, content: bytes, api: Api, call: Call) -> None:
        """Answer every line of a batch's file, or record the problems of the file."""
        lines = content.splitlines()
        batch.total = len(lines)
        requests = [_read_line(line, as_text(batch.request["endpoint"])) for line in lines]
        names = [as_text(request.get("custom_id")) for request in requests]
        counts = Counter(name for name in names if name)  # an invalid line has no name
        for number, (request, name) in enumerate(zip(requests, names, strict=True), 1):
            is_duplicate = counts[name] > 1
            if not request or is_duplicate or batch_fault(as_object(request["body"])) == "batch-failed":
                message = "The custom_id is not unique." if is_duplicate else "This line is not a valid request."
                batch.problems.append({"code": "invalid_request", "line": number, "message": message, "param": None})
        if not batch.problems:
            for request in requests:
                self._answer_line(batch, request, api, call)

    def _answer_line(self, batch: Batch, line: JsonObject, api: Api, call: Call) -> None:
        """Answer one request, and add its result to the batch; with the fault batch-lost it has no result."""
        body = as_object(line["body"])
        fault = batch_fault(body)
        row: dict[str, JsonValue] = {"id": self.store.new_id("batch_req"), "custom_id": line["custom_id"]}
        if fault == "batch-expired":
            batch.expired = True
            error = {"code": "batch_expired", "message": "This request was not executed before the batch expired."}
            batch.errors.append({**row, "response": None, "error": error})
        elif fault != "batch-lost":
            status, answered = self.endpoints.answer_line(api, body, call)
            response = {"status_code": status, "request_id": row["id"], "body": answered}
            rows = batch.rows if status == _OK else batch.errors
            rows.append({**row, "response": response, "error": None})

    def _describe(self, batch: Batch) -> JsonObject:
        """Return the description of a batch; if the batch is done, first store the files with its results."""
        is_done = batch.status in ("completed", "expired")
        for name, rows in (("output", batch.rows), ("error", batch.errors)):
            if is_done and rows and name not in batch.files:
                file = self._save(json_lines(rows), f"{batch.id}_{name}.jsonl", "batch_output")
                batch.files[name] = as_text(file["id"])
        is_failed = batch.status == "failed"
        counts = {"total": batch.total, "completed": len(batch.rows), "failed": len(batch.errors)}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.request["endpoint"],
            "errors": {"object": "list", "data": batch.problems} if is_failed else None,
            "input_file_id": batch.request["input_file_id"],
            "completion_window": "24h",
            "status": batch.status,
            "output_file_id": batch.files.get("output"),
            "error_file_id": batch.files.get("error"),
            "created_at": CREATED,
            "request_counts": counts if is_done else {**counts, "completed": 0, "failed": 0},
            "metadata": batch.request.get("metadata"),
        }


def _read_line(line: bytes, endpoint: str) -> JsonObject:
    """Return the request in one line of a file, {} for an invalid line."""
    try:
        request = as_object(json.loads(line))
    except (ValueError, RecursionError):
        return {}
    is_valid = as_text(request.get("custom_id")) and request.get("method") == "POST" and request.get("url") == endpoint
    return request if is_valid and as_object(request.get("body")) else {}


def _refuse(error: RefusedError) -> web.StreamResponse:
    problem: Problem = error.problem
    return json_response(refuse(problem), status=problem.status)


_CREATED_AT = "2026-01-01T00:00:00Z"


class MessageBatch(Struct):
    """One Anthropic batch: its results, and the remaining time."""

    id: str
    wait: Wait
    rows: list[JsonObject]

    def results(self) -> list[JsonObject]:
        """Return the results of the requests; all are `canceled` if the batch was cancelled."""
        if not self.wait.is_cancelled:
            return self.rows
        return [{**row, "result": {"type": "canceled"}} for row in self.rows]


class MessageBatches(Struct):
    """The handlers of Anthropic's message batches."""

    endpoints: Endpoints
    store: BatchStore
    _batches: dict[str, MessageBatch] = field(default_factory=dict)

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a batch of `requests`, each with `custom_id` and `params`."""
        try:
            check_required(request, ANTHROPIC)
            requests = objects((await read_object(request)).get("requests"))
            names = {as_text(item.get("custom_id")) for item in requests}
            if not requests or "" in names or len(names) < len(requests):
                raise refused("requests: at least one is required, each with a unique custom_id")
            if any(batch_fault(as_object(item.get("params"))) == "batch-failed" for item in requests):
                raise refused("requests: the fault batch-failed of a model refuses the whole batch")
        except RefusedError as error:
            return _refuse_messages(error)
        identifier = self.store.new_id("msgbatch")
        call = replace(start_call(request, ANTHROPIC.name), batch=identifier)
        rows = [row for item in requests for row in self._rows(item, call)]
        batch = self._batches[identifier] = MessageBatch(identifier, Wait(self.store.polls), rows)
        return json_response(_describe_message_batch(batch, request))

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Describe a batch, and count the poll."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None:
            return _refuse_messages(refused("No such message batch", status=404))
        batch.wait.poll()
        return json_response(_describe_message_batch(batch, request))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Cancel a batch unless it has ended, and describe it."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None:
            return _refuse_messages(refused("No such message batch", status=404))
        if not batch.wait.is_over:
            batch.wait.is_cancelled = True
        return json_response(_describe_message_batch(batch, request))

    async def read_results(self, request: web.Request) -> web.StreamResponse:
        """Return the results of a batch that has ended, as JSON Lines."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None or not batch.wait.is_over:
            return _refuse_messages(refused("No such message batch, or it has not ended", status=404))
        return web.Response(body=json_lines(batch.results()), content_type="application/x-jsonl")

    async def list_all(self, request: web.Request) -> web.StreamResponse:
        """Describe all batches, the newest first."""
        data: list[JsonValue] = [_describe_message_batch(batch, request) for batch in reversed(self._batches.values())]
        return json_response({"data": data, "has_more": False, "first_id": None, "last_id": None})

    def _rows(self, item: JsonObject, call: Call) -> list[JsonObject]:
        """Answer one request, and return its result as a list, which is empty for the fault batch-lost."""
        params, name = as_object(item.get("params")), item["custom_id"]
        fault = batch_fault(params)
        if fault == "batch-lost":
            return []
        if fault == "batch-expired":
            return [{"custom_id": name, "result": {"type": "expired"}}]
        status, answered = self.endpoints.answer_line(ANTHROPIC, params, call)
        if status == _OK:
            return [{"custom_id": name, "result": {"type": "succeeded", "message": answered}}]
        return [{"custom_id": name, "result": {"type": "errored", "error": answered}}]


def _describe_message_batch(batch: MessageBatch, request: web.Request) -> JsonObject:
    is_over = batch.wait.is_over
    kinds = Counter(as_text(as_object(row["result"])["type"]) for row in batch.results() if is_over)
    counted = {kind: kinds[kind] for kind in ("succeeded", "errored", "canceled", "expired")}
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if is_over else "in_progress",
        "request_counts": {"processing": 0 if is_over else len(batch.rows), **counted},
        "created_at": _CREATED_AT,
        "expires_at": "2026-01-02T00:00:00Z",
        "ended_at": _CREATED_AT if is_over else None,
        "archived_at": None,
        "cancel_initiated_at": _CREATED_AT if batch.wait.is_cancelled else None,
        "results_url": f"{request.url.origin()}/v1/messages/batches/{batch.id}/results" if is_over else None,
    }


def _refuse_messages(error: RefusedError) -> web.StreamResponse:
    return json_response(ANTHROPIC.refuse(error.problem), status=error.problem.status)
