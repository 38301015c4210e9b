"""Handling of a request to a model: read and check it, count it against the quota, answer or refuse it, log it."""

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import NamedTuple

from aiohttp import web
from msgspec import Struct, field
from msgspec.structs import replace

from agentv.fake.api import Api, Problem, Question, RefusedError, Reply, as_text, refused
from agentv.fake.faults import (
    FAULTS_WITH_PLACEHOLDER,
    ChosenFault,
    OddBody,
    OddReply,
    OddSending,
    OddStream,
    Outgoing,
    Refusal,
    choose_fault,
    with_placeholder,
)
from agentv.fake.log import Call, CallLog, fingerprint, key_of
from agentv.fake.quota import Permit, Quotas
from agentv.types.json_value import JsonObject, JsonValue

_JSON = "application/json"
_EVENTS = "text/event-stream"
_BLOCKED = Problem(400, "The prompt was refused by the content filter.", "content_filter")


class Behavior(Struct, frozen=True):
    """The behaviour of the server: its replies, its latency, and the Retry-After of faults that name one."""

    answer: Callable[[Question], Reply]
    latency_s: float
    retry_after_s: float


class ParsedRequest(NamedTuple):
    """A valid request, and the fault that applies to it, if any."""

    question: Question
    chosen_fault: ChosenFault | None


class Endpoints(Struct):
    """The handler of model requests."""

    behavior: Behavior
    quotas: Quotas
    log: CallLog
    closing: asyncio.Event
    """Set when the server stops."""
    _attempts: Counter[bytes] = field(default_factory=Counter)
    """Counts equal requests, by a digest of API, model, streaming and body.

    The body alone is not enough, because in some APIs the URL has the model or selects streaming. Only requests with a
    fault that is limited to the first N attempts are counted.
    """

    async def respond(self, request: web.Request, api: Api, *, model: str = "") -> web.StreamResponse:
        """Answer one request; `model` is the name in its URL, if any."""
        call = start_call(request, api.name)
        try:
            body = await read_object(request)
            model = model or as_text(body.get("model"))
            call = replace(call, model=model)
            check_required(request, api)
            if api.check is not None:
                api.check(body, request.headers)
            parsed = self.parse(api, body, model)
        except RefusedError as error:
            return self.refuse(api, error.problem, call)
        call = replace(call, input_tokens=parsed.question.input_tokens)
        permit = self.quotas.take(call.key, parsed.question.input_tokens)
        if not permit.allowed:
            return self.refuse(api, _over_quota(permit), call)
        try:
            await self._delay()
            response = await self._send(request, api=api, parsed=parsed, call=call, quota_headers=permit.headers)
        finally:
            self.quotas.end_request(call.key)
        return response

    def parse(self, api: Api, body: JsonObject, model: str) -> ParsedRequest:
        """Return the request in a body, with the fault that applies to this attempt.

        Counts the attempt if the fault is limited to the first N. Raises RefusedError for a request that the API would
        refuse, and for an unknown fault.
        """
        if not model:
            raise refused("you must provide a model parameter")
        question = api.read(body, model)
        chosen = choose_fault(model)
        request: JsonValue = [api.name, model, question.stream, body]
        return ParsedRequest(question, chosen if self._applies(chosen, request) else None)

    def reply_to(self, api: Api, parsed: ParsedRequest) -> Reply:
        """Return the model's reply, changed if the fault is an `OddReply`.

        Raises RefusedError if the fault is a refusal, or if it blocks the prompt and the API refuses blocked prompts.
        """
        reply = self.behavior.answer(parsed.question) if api.has_reply else Reply()
        if parsed.chosen_fault is None:
            return reply
        fault = parsed.chosen_fault.fault
        if isinstance(fault, Refusal):
            raise RefusedError(replace(fault.problem, headers=self._retry_after(fault.retry_after)))
        if isinstance(fault, OddReply):
            reply = fault.change(reply)
        if reply.finish == "blocked" and api.refuses_blocked_prompts:
            raise RefusedError(_BLOCKED)
        return reply

    def answer_line(self, api: Api, body: JsonObject, call: Call) -> tuple[int, JsonObject]:
        """Answer and log one request of a batch; return the status and the body of its result.

        Faults that refuse the request or change the model's reply apply; those of bytes, streams and connections do
        not.
        """
        call = replace(call, model=as_text(body.get("model")))
        try:
            parsed = self.parse(api, body, call.model)
            call = replace(call, fault="" if parsed.chosen_fault is None else parsed.chosen_fault.name)
            reply = self.reply_to(api, parsed)
        except RefusedError as error:
            self.log.calls.append(replace(call, status=error.problem.status))
            return error.problem.status, api.refuse(error.problem)
        done = replace(
            call,
            status=200,
            input_tokens=parsed.question.input_tokens,
            output_tokens=reply.output_tokens,
            billed=api.billed,
        )
        self.log.calls.append(done)
        return done.status, api.write(parsed.question, reply)

    def refuse(self, api: Api, problem: Problem, call: Call) -> web.Response:
        """Log and return a refusal in the API's own form."""
        self.log.calls.append(replace(call, status=problem.status))
        return json_response(api.refuse(problem), status=problem.status, headers=problem.headers)

    async def _send(
        self, request: web.Request, api: Api, parsed: ParsedRequest, call: Call, quota_headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Log the request, and send the reply as the fault changes it."""
        question, chosen = parsed
        call = replace(call, fault="" if chosen is None else chosen.name)
        try:
            reply = self.reply_to(api, parsed)
        except RefusedError as error:
            return self.refuse(api, error.problem, call)
        if call.fault in FAULTS_WITH_PLACEHOLDER:
            reply = with_placeholder(reply)
        events = _events(api, question, reply)
        content_type = _EVENTS if events else _JSON
        body = b"".join(events) or json.dumps(api.write(question, reply)).encode()
        fault = None if chosen is None else chosen.fault
        call = replace(call, status=200, output_tokens=reply.output_tokens, billed=api.billed)
        if isinstance(fault, OddSending):
            sends_200 = fault.status == call.status
            self.log.calls.append(replace(call, status=fault.status, billed=api.billed and sends_200))
            return await self._until_closing(fault.send(Outgoing(request, body, content_type)), request)
        self.log.calls.append(call)
        if isinstance(fault, OddBody):
            return web.Response(
                body=fault.change(body), headers={"Content-Type": fault.content_type or content_type, **quota_headers}
            )
        if events and isinstance(fault, OddStream) and api.report is not None:
            events = [*events[: len(events) // 2], api.report(fault.problem).encode()]
        if events:
            return await _stream(request, events, quota_headers)
        return web.Response(body=body, headers={"Content-Type": _JSON, **quota_headers})

    async def _until_closing(
        self, sending: Coroutine[None, None, web.StreamResponse], request: web.Request
    ) -> web.StreamResponse:
        """Run a fault until it ends; if the server stops or the request is cancelled first, abort the connection."""
        task, closing = asyncio.ensure_future(sending), asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait({task, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            if not task.done():
                task.cancel()
                if request.transport is not None:
                    request.transport.abort()
        return task.result() if task.done() else web.Response(status=503)

    def _applies(self, chosen_fault: ChosenFault | None, request: JsonValue) -> bool:
        """Return True if a fault applies to this attempt of a request. Counts the attempt if the fault has a limit."""
        if chosen_fault is None:
            return False
        if chosen_fault.times is None:
            return True
        digest = hashlib.sha256(json.dumps(request).encode()).digest()
        self._attempts[digest] += 1
        return self._attempts[digest] <= chosen_fault.times

    def _retry_after(self, form: str) -> Mapping[str, str]:
        """Return the header with the time to wait, in a form of `Refusal.retry_after`."""
        wait_s = self.behavior.retry_after_s
        if form == "date":
            return {"Retry-After": format_datetime(datetime.now(UTC) + timedelta(seconds=wait_s), usegmt=True)}
        if form == "ms":
            return {"retry-after-ms": f"{wait_s * 1000:g}"}
        return {"Retry-After": f"{wait_s:g}"} if form else {}

    async def _delay(self) -> None:
        """Wait for the latency, or until the server stops."""
        if self.behavior.latency_s:
            try:
                async with asyncio.timeout(self.behavior.latency_s):
                    await self.closing.wait()
            except TimeoutError:
                pass


def start_call(request: web.Request, api: str) -> Call:
    """Return the log entry of a new request, without the query, which may have a key."""
    return Call(request.method, request.path, api, key=fingerprint(key_of(request.headers, request.query)))


async def read_object(request: web.Request) -> JsonObject:
    """Return the JSON object in a request's body. Raises RefusedError for anything else."""
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        raise refused("We could not parse the JSON body of your request.") from None
    if not isinstance(body, dict):
        raise refused("The body of the request must be a JSON object.")
    return body


def json_response(value: JsonObject, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a JSON response."""
    body = json.dumps(value).encode()
    return web.Response(body=body, status=status, headers={"Content-Type": _JSON, **(headers or {})})


def check_required(request: web.Request, api: Api) -> None:
    """Raise RefusedError when a query parameter or a header that the API requires is missing."""
    for name in api.needed_query:
        if name not in request.query:
            raise refused(f"Resource not found: the query has no {name}.", status=404)
    for name in api.needed_headers:
        if name not in request.headers:
            raise refused(f"{name}: header is required")


def _over_quota(permit: Permit) -> Problem:
    wait_s = permit.retry_after_s
    headers = dict(permit.headers)
    if headers:  # empty if the quota has `headers=False`
        headers |= {"retry-after": str(math.ceil(wait_s)), "retry-after-ms": str(math.ceil(wait_s * 1000))}
    return Problem(429, f"Rate limit reached. Please try again in {wait_s:.3f}s.", headers=headers)


def _events(api: Api, question: Question, reply: Reply) -> list[bytes]:
    if not question.stream or api.stream is None:
        return []
    return [event.encode() for event in api.stream(question, reply)]


async def _stream(request: web.Request, events: list[bytes], headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _EVENTS, "Cache-Control": "no-cache", **headers})
    await response.prepare(request)
    for event in events:
        await response.write(event)
    return response
