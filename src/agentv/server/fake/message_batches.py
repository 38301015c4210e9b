"""Anthropic's message batches: all requests in one body, the results as lines."""

from collections import Counter

from aiohttp import web
from msgspec import Struct, field
from msgspec.structs import replace

from agentv.server.fake.anthropic import ANTHROPIC
from agentv.server.fake.api import RefusedError, refused
from agentv.server.fake.endpoints import Endpoints, check_form, json_response, read_object, start_call
from agentv.server.fake.fields import as_object, as_text, objects
from agentv.server.fake.log import Call
from agentv.server.fake.stored_batches import Shelf, Wait, batch_fault, json_lines
from agentv.types.json_value import JsonObject, JsonValue

_AT = "2026-01-01T00:00:00Z"
_GOOD = 200


class MessageBatch(Struct):
    """One batch: its results, and how long they take."""

    id: str
    wait: Wait
    rows: list[JsonObject]

    def results(self) -> list[JsonObject]:
        """Return a result for each request; all are canceled when the batch was."""
        if not self.wait.cancelled:
            return self.rows
        return [{**row, "result": {"type": "canceled"}} for row in self.rows]


class MessageBatches(Struct):
    """The handlers of message batches."""

    endpoints: Endpoints
    shelf: Shelf
    _batches: dict[str, MessageBatch] = field(default_factory=dict)

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Begin a batch of `requests`, each with `custom_id` and `params`."""
        try:
            check_form(request, ANTHROPIC)
            asked = objects((await read_object(request)).get("requests"))
            names = {as_text(one.get("custom_id")) for one in asked}
            if not asked or "" in names or len(names) < len(asked):
                raise refused("requests: each needs a custom_id that no other has")
            if any(batch_fault(as_object(one.get("params"))) == "batch-failed" for one in asked):
                raise refused("requests: this batch cannot be made")
        except RefusedError as error:
            return _refuse(error)
        identifier = self.shelf.name("msgbatch")
        call = replace(start_call(request, ANTHROPIC.name), batch=identifier)
        rows = [row for one in asked for row in self._rows(one, call)]
        batch = self._batches[identifier] = MessageBatch(identifier, Wait(self.shelf.polls), rows)
        return json_response(_show(batch, request))

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Describe a batch, and count the look."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None:
            return _refuse(refused("No such message batch", status=404))
        batch.wait.look()
        return json_response(_show(batch, request))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Cancel a batch that is not over."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None:
            return _refuse(refused("No such message batch", status=404))
        batch.wait.cancelled = not batch.wait.over or batch.wait.cancelled
        return json_response(_show(batch, request))

    async def read_results(self, request: web.Request) -> web.StreamResponse:
        """Return the results of a batch that is over, as lines."""
        batch = self._batches.get(request.match_info["batch"])
        if batch is None or not batch.wait.over:
            return _refuse(refused("The batch has no results yet", status=404))
        return web.Response(body=json_lines(batch.results()), content_type="application/x-jsonl")

    async def list_all(self, request: web.Request) -> web.StreamResponse:
        """Describe all batches, the newest first."""
        data: list[JsonValue] = [_show(batch, request) for batch in reversed(self._batches.values())]
        return json_response({"data": data, "has_more": False, "first_id": None, "last_id": None})

    def _rows(self, asked: JsonObject, call: Call) -> list[JsonObject]:
        params, name = as_object(asked.get("params")), asked["custom_id"]
        fault = batch_fault(params)
        if fault == "batch-lost":
            return []
        if fault == "batch-expired":
            return [{"custom_id": name, "result": {"type": "expired"}}]
        status, answered = self.endpoints.answer_line(ANTHROPIC, params, call)
        if status == _GOOD:
            return [{"custom_id": name, "result": {"type": "succeeded", "message": answered}}]
        return [{"custom_id": name, "result": {"type": "errored", "error": answered}}]


def _show(batch: MessageBatch, request: web.Request) -> JsonObject:
    over = batch.wait.over
    kinds = Counter(as_text(as_object(row["result"])["type"]) for row in batch.results() if over)
    counted = {kind: kinds[kind] for kind in ("succeeded", "errored", "canceled", "expired")}
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if over else "in_progress",
        "request_counts": {"processing": 0 if over else len(batch.rows), **counted},
        "created_at": _AT,
        "expires_at": "2026-01-02T00:00:00Z",
        "ended_at": _AT if over else None,
        "archived_at": None,
        "cancel_initiated_at": _AT if batch.wait.cancelled else None,
        "results_url": f"{request.url.origin()}/v1/messages/batches/{batch.id}/results" if over else None,
    }


def _refuse(error: RefusedError) -> web.StreamResponse:
    return json_response(ANTHROPIC.refuse(error.problem), status=error.problem.status)
