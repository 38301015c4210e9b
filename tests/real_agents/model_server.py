"""A model on loopback that plays a script, in the three streamed dialects that coding agents speak.

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
    """A step of the script: the server never answers."""


Step: TypeAlias = Call | Refusal | NoResponse | str


class UnansweredError(Exception):
    """The script has no answer to a request but this step."""

    def __init__(self, step: Refusal | NoResponse) -> None:
        self.step = step
        super().__init__(step)


@dataclass
class Model:
    """The script, and the requests received: `(path, body, authorization)` of each.

    `hangs` is set when a request of the agent waits for ever.
    """

    steps: Sequence[Step]
    requests: list[tuple[str, Json, str]] = field(default_factory=list)
    port: int = 0
    hangs: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def step(self, body: Json, results: int) -> Step:
        """Return the next step; a request without tools is a side request, not the agent's work."""
        step = self.steps[min(results, len(self.steps) - 1)] if body.get("tools") else "A title"
        if isinstance(step, Refusal | NoResponse):
            raise UnansweredError(step)
        return step

    async def leave(self, step: Refusal | NoResponse) -> web.StreamResponse:
        """Refuse a request, or never answer it."""
        if isinstance(step, NoResponse):
            self.hangs.set()
            await asyncio.Event().wait()
        error = {"type": "refused", "message": "No entry"}
        return web.json_response(
            {"type": "error", "error": error}, status=step.status if isinstance(step, Refusal) else 500
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = request.headers.get("x-api-key") or request.headers.get("authorization") or ""
        self.requests.append((request.path, body, key))
        if isinstance(self.steps[0], Refusal | NoResponse):
            return await self.leave(self.steps[0])
        dialect = next(speak for path, speak in DIALECTS.items() if request.path.endswith(path))
        try:
            events = [event async for event in dialect(self, body)]
        except UnansweredError as unanswered:
            return await self.leave(unanswered.step)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            await response.write(f"{head}data: {json.dumps(data)}\n\n".encode())
        if request.path.endswith("/completions"):
            await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


async def responses(model: Model, body: Json) -> AsyncIterator[Event]:
    results = [item for item in body["input"] if str(item.get("type")).endswith("call_output")]
    step, number = model.step(body, len(results)), len(results)
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


async def messages(model: Model, body: Json) -> AsyncIterator[Event]:
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    results = [part for content in contents for part in content if part.get("type") == "tool_result"]
    step, number = model.step(body, len(results)), len(results)
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


async def completions(model: Model, body: Json) -> AsyncIterator[Event]:
    number = sum(message["role"] == "tool" for message in body["messages"])
    step = model.step(body, number)
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


DIALECTS = {"/responses": responses, "/messages": messages, "/chat/completions": completions}


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
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        app = web.Application(client_max_size=64 * 2**20)
        for path in DIALECTS:
            for prefix in ("", "/v1"):
                app.router.add_post(prefix + path, model.answer)
        app.router.add_route("*", "/{path:.*}", elsewhere)
        runner = web.AppRunner(app, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        model.port = runner.addresses[0][1]
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        ready.wait()
        yield model
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
