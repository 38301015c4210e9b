"""A model on loopback that plays a script, in the four streamed dialects that coding agents speak.

Which step is played follows from the request alone: as many steps are done as the conversation holds results of tools.
So a retry gets the same reply again, and questions on the side (a title for the session) disturb nothing.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web

INPUT_TOKENS, CACHED_TOKENS, OUTPUT_TOKENS, REASONING_TOKENS = 100, 40, 10, 4
"""The usage in every response."""

Json: TypeAlias = dict[str, Any]  # a test's own wire data, read by strangers' programs
Event: TypeAlias = tuple[str, Json]


@dataclass(frozen=True)
class Call:
    """A step of the script: the model calls a tool."""

    tool: str
    input: Mapping[str, object]


@dataclass(frozen=True)
class Refusal:
    """A step of the script: the server answers with an error status."""

    status: int


@dataclass(frozen=True)
class NoResponse:
    """A step of the script: the server never answers, and if it is not the first step, stalls within its answer."""


Step: TypeAlias = Call | Refusal | NoResponse | str


@dataclass
class Model:
    """The script, and the requests received: `(path, body, authorization)` of each.

    `stalled` is set when a request gets no answer, `closing` when the server stops.
    """

    steps: Sequence[Step]
    requests: list[tuple[str, Json, str]] = field(default_factory=list)
    port: int = 0
    stalled: threading.Event = field(default_factory=threading.Event)
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def step(self, body: Json, results: int) -> Step:
        """Return the next step; a request without tools is a side request, not the agent's work."""
        return self.steps[min(results, len(self.steps) - 1)] if body.get("tools") else "A title"

    async def stall(self) -> None:
        """Wait until the server stops."""
        self.stalled.set()
        await self.closing.wait()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = request.headers.get("x-api-key") or request.headers.get("authorization") or ""
        self.requests.append((request.path, body, key))
        dialect, results_of = next(speaks for path, speaks in DIALECTS.items() if request.path.endswith(path))
        number = results_of(body)
        step = self.step(body, number)
        if isinstance(step, Refusal):
            error = {"type": "refused", "message": "No entry"}
            return web.json_response({"type": "error", "error": error}, status=step.status)
        if isinstance(step, NoResponse) and number == 0:
            await self.stall()
            return web.Response(status=503)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if isinstance(step, NoResponse):
            await self.stall()
            return response
        async for name, data in dialect(body, step, number):
            head = f"event: {name}\n" if name else ""
            await response.write(f"{head}data: {json.dumps(data)}\n\n".encode())
        if request.path.endswith("/completions"):
            await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def responses_results(body: Json) -> int:
    return sum(str(item.get("type")).endswith("call_output") for item in body["input"])


async def responses(body: Json, step: Call | str, number: int) -> AsyncIterator[Event]:
    item: Json
    if isinstance(step, Call):
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": step.tool,
            "arguments": json.dumps(step.input),
        }
    else:
        text: Json = {"type": "output_text", "text": step, "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    usage = {
        "input_tokens": INPUT_TOKENS,
        "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    head = {"id": f"resp_{number}", "object": "response", "model": body["model"], "output": []}
    events: list[Json] = [
        {"type": "response.created", "response": {**head, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**head, "status": "completed", "output": [item], "usage": usage}},
    ]
    for event in events:
        yield event["type"], event


def messages_results(body: Json) -> int:
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    return sum(part.get("type") == "tool_result" for content in contents for part in content)


async def messages(body: Json, step: Call | str, number: int) -> AsyncIterator[Event]:
    usage = {"input_tokens": INPUT_TOKENS - CACHED_TOKENS, "cache_read_input_tokens": CACHED_TOKENS}
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    start: Json
    if isinstance(step, Call):
        start = {"type": "tool_use", "id": f"toolu_{number}", "name": step.tool, "input": {}}
        delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(step.input)}
    else:
        start = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": step}
    end = {"stop_reason": "tool_use" if isinstance(step, Call) else "end_turn", "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": {**head, "usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": OUTPUT_TOKENS}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield event["type"], event


def completions_results(body: Json) -> int:
    return sum(message["role"] == "tool" for message in body["messages"])


async def completions(body: Json, step: Call | str, number: int) -> AsyncIterator[Event]:
    if isinstance(step, Call):
        function = {"name": step.tool, "arguments": json.dumps(step.input)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta: Json = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        delta = {"role": "assistant", "content": step}
    reason = "tool_calls" if isinstance(step, Call) else "stop"
    usage = {
        "prompt_tokens": INPUT_TOKENS,
        "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
        "completion_tokens": OUTPUT_TOKENS,
        "completion_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield "", {**head, "choices": [], "usage": usage}


def contents_results(body: Json) -> int:
    return sum("functionResponse" in part for content in body["contents"] for part in content["parts"])


async def contents(_: Json, step: Call | str, number: int) -> AsyncIterator[Event]:
    part: Json = {"text": step}
    if isinstance(step, Call):
        part = {"functionCall": {"id": f"call_{number}", "name": step.tool, "args": step.input}}
    usage = {
        "promptTokenCount": INPUT_TOKENS,
        "cachedContentTokenCount": CACHED_TOKENS,
        "candidatesTokenCount": OUTPUT_TOKENS - REASONING_TOKENS,
        "thoughtsTokenCount": REASONING_TOKENS,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    yield "", {"candidates": [candidate], "usageMetadata": usage, "responseId": f"response-{number}"}


DIALECTS = {
    "/responses": (responses, responses_results),
    "/messages": (messages, messages_results),
    "/chat/completions": (completions, completions_results),
    ":streamGenerateContent": (contents, contents_results),
}
"""By the end of the path: how a step is said, and how many results of tools a request holds."""


async def elsewhere(request: web.Request) -> web.Response:
    if request.path.endswith("/count_tokens"):
        return web.json_response({"input_tokens": INPUT_TOKENS})
    return web.json_response(
        {"object": "list", "data": [], "models": []}, status=200 if "models" in request.path else 404
    )


@contextmanager
def playing(*steps: Step) -> Iterator[Model]:
    """Serve the script until the end of the block; its last step is played again and again."""
    model, ready = Model(steps), threading.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        app = web.Application(client_max_size=64 * 2**20)
        for path in DIALECTS:
            for prefix in ("/v1beta/models/{model}",) if path.startswith(":") else ("", "/v1"):
                app.router.add_post(prefix + path, model.answer)
        app.router.add_route("*", "/{path:.*}", elsewhere)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        model.port = runner.addresses[0][1]
        ready.set()
        await model.closing.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        ready.wait()
        yield model
    finally:
        loop.call_soon_threadsafe(model.closing.set)
        thread.join()
        loop.close()
