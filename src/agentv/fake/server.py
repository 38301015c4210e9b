"""The fake model server: its routes, and FakeServer, which starts and stops it and has its log."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Self

from aiohttp import web
from msgspec import Struct

from agentv.fake.answers import AZURE_EMBEDDINGS, CALLS_TOOL, GEMINI_EMBED, GEMINI_EMBED_MANY, OPENAI_EMBEDDINGS
from agentv.fake.answers import answer as default_answer
from agentv.fake.anthropic import ANTHROPIC, ANTHROPIC_COUNT
from agentv.fake.api import CREATED, Api, Problem, Question, Reply
from agentv.fake.batches import BatchStore, MessageBatches, OpenAIBatches
from agentv.fake.endpoints import Behavior, Endpoints, json_response, start_call
from agentv.fake.faults import FAULTS
from agentv.fake.gemini import GEMINI, GEMINI_COUNT, GEMINI_EVENTS
from agentv.fake.log import Call, CallLog
from agentv.fake.openai_chat import AZURE_CHAT, OPENAI_CHAT
from agentv.fake.openai_responses import AZURE_RESPONSES, OPENAI_RESPONSES
from agentv.fake.quota import Quota, Quotas
from agentv.types.json_value import JsonObject, JsonValue

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_ROUTES: Mapping[str, Api] = {
    "/v1/chat/completions": OPENAI_CHAT,
    "/v1/responses": OPENAI_RESPONSES,
    "/v1/embeddings": OPENAI_EMBEDDINGS,
    "/openai/v1/chat/completions": OPENAI_CHAT,
    "/openai/v1/responses": OPENAI_RESPONSES,
    "/openai/v1/embeddings": OPENAI_EMBEDDINGS,
    "/openai/responses": AZURE_RESPONSES,
    "/openai/deployments/{model}/chat/completions": AZURE_CHAT,
    "/openai/deployments/{model}/embeddings": AZURE_EMBEDDINGS,
    "/v1/messages": ANTHROPIC,
    "/v1/messages/count_tokens": ANTHROPIC_COUNT,
}
_GEMINI_METHODS: Mapping[str, Api] = {
    "generateContent": GEMINI,
    "streamGenerateContent": GEMINI_EVENTS,
    "countTokens": GEMINI_COUNT,
    "embedContent": GEMINI_EMBED,
    "batchEmbedContents": GEMINI_EMBED_MANY,
}
_VERTEX = "projects/{project}/locations/{location}/publishers/google/"


def add_routes(app: web.Application, endpoints: Endpoints, polls: int) -> None:
    """Add all routes to the application; a batch ends after `polls` polls."""

    def handler(api: Api) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await endpoints.respond(request, api, model=request.match_info.get("model", ""))

        return handle

    for path, api in _ROUTES.items():
        app.router.add_post(path, handler(api))
    for method, api in _GEMINI_METHODS.items():
        for folder in ("", _VERTEX):
            app.router.add_post(
                "/{version:v1|v1beta|v1beta1|v1alpha}/" + folder + "models/{model}:" + method, handler(api)
            )
    _add_batches(app, endpoints, BatchStore(polls))
    _add_log_and_fallback(app, endpoints)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/api/hello", _describe)  # Claude Code checks that its server is reachable
    app.router.add_get("/", _describe)


def _add_batches(app: web.Application, endpoints: Endpoints, store: BatchStore) -> None:
    batches, messages = OpenAIBatches(endpoints, store), MessageBatches(endpoints, store)
    for base in ("/v1", "/openai", "/openai/v1"):
        app.router.add_post(f"{base}/files", batches.upload)
        app.router.add_get(f"{base}/files/{{file}}", batches.show_file)
        app.router.add_get(f"{base}/files/{{file}}/content", batches.read_file)
        app.router.add_post(f"{base}/batches", batches.create)
        app.router.add_get(f"{base}/batches", batches.list_all)
        app.router.add_get(f"{base}/batches/{{batch}}", batches.show)
        app.router.add_post(f"{base}/batches/{{batch}}/cancel", batches.cancel)
    app.router.add_post("/v1/messages/batches", messages.create)
    app.router.add_get("/v1/messages/batches", messages.list_all)
    app.router.add_get("/v1/messages/batches/{batch}", messages.show)
    app.router.add_post("/v1/messages/batches/{batch}/cancel", messages.cancel)
    app.router.add_get("/v1/messages/batches/{batch}/results", messages.read_results)


def _add_log_and_fallback(app: web.Application, endpoints: Endpoints) -> None:
    log = endpoints.log

    async def show(_: web.Request) -> web.StreamResponse:
        return json_response(log.to_json())

    async def clear(_: web.Request) -> web.StreamResponse:
        log.calls.clear()
        return json_response(log.to_json())

    async def refuse_unknown(request: web.Request) -> web.StreamResponse:
        problem = Problem(404, f"Unknown path {request.path}; GET / lists the paths of models.")
        return endpoints.refuse(OPENAI_CHAT, problem, start_call(request, ""))

    app.router.add_get("/calls", show)
    app.router.add_delete("/calls", clear)
    app.router.add_route("*", "/{rest:.+}", refuse_unknown)


async def _models(request: web.Request) -> web.StreamResponse:
    names = ("fake", CALLS_TOOL)
    if "anthropic-version" in request.headers:
        about = {"type": "model", "created_at": "2026-01-01T00:00:00Z"}
        data: list[JsonValue] = [{**about, "id": name, "display_name": name} for name in names]
        return json_response({"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]})
    data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "agentv"} for name in names]
    return json_response({"object": "list", "data": data})


async def _describe(request: web.Request) -> web.StreamResponse:
    about: JsonObject = {
        "about": "The fake model server of agentv. Any model name is accepted; MODEL@FAULT applies a fault.",
        "paths": [*_ROUTES, *(f"/v1beta/models/{{model}}:{method}" for method in _GEMINI_METHODS)],
        "faults": {name: fault.summary for name, fault in FAULTS.items()},
        "calls": f"{request.url.origin()}/calls",
    }
    return json_response(about)


HOST = "127.0.0.1"
_MAX_REQUEST_BYTES = 512 * 2**20


class Received(Struct, frozen=True):
    """One received request, including its API key. `path` includes the query; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class FakeServer:
    """A local server that implements the model APIs. Use it with `async with`, which starts it and sets `port`.

    `port` 0 selects a free port; OSError is raised if a port cannot be used. `quota` limits every key. `retry_after_s`
    is the time in the Retry-After header of faults that send one; the header of a refusal by the quota has the time
    until the quota allows the request. `latency_s` is the time before each reply of a model outside of batches. A batch
    ends after `batch_polls` polls. With `keep_requests` all requests are stored in `requests`. `answer` returns the
    model's reply; its default is `answers.answer`.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        quota: Quota | None = None,
        retry_after_s: float = 1.0,
        latency_s: float = 0.0,
        batch_polls: int = 2,
        keep_requests: bool = False,
        answer: Callable[[Question], Reply] = default_answer,
    ) -> None:
        self.port = port
        self.requests: list[Received] = []
        self._batch_polls = batch_polls
        self._keep_requests = keep_requests
        self._numbers = count(1)
        self._log = CallLog()
        self._behavior = Behavior(answer, latency_s, retry_after_s)
        self._quotas = Quotas(quota)
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The base URL, without a path or trailing slash."""
        return f"http://{HOST}:{self.port}"

    @property
    def calls(self) -> list[Call]:
        """The latest 100,000 requests to a model or to an unknown path, in the order in which they were answered.

        Each request in a batch is one of them if it was answered; lost and expired ones are missing.
        """
        return list(self._log.calls)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES, middlewares=[self._receive])
        add_routes(app, Endpoints(self._behavior, self._quotas, self._log, self._closing), self._batch_polls)
        app.on_response_prepare.append(self._add_request_id)
        # Cancelling the request of a client that disconnects ends faults that would last for ever.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self.port).start()
        except OSError:
            await runner.cleanup()
            raise
        self.port = runner.addresses[0][1]
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _add_request_id(self, _: web.Request, response: web.StreamResponse) -> None:
        """Add a request id to a reply, under the header names of OpenAI, Anthropic and Azure."""
        name = f"req_fake_{next(self._numbers)}"
        for header in ("x-request-id", "request-id", "apim-request-id"):
            response.headers[header] = name

    @web.middleware
    async def _receive(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._keep_requests:
            headers = {name.lower(): value for name, value in request.headers.items()}
            self.requests.append(Received(request.method, request.path_qs, headers, await request.read()))
        return await handler(request)
