"""Which path belongs to which API."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from agentv.server.fake import embeddings
from agentv.server.fake.answers import CALLS_TOOL
from agentv.server.fake.anthropic import ANTHROPIC, ANTHROPIC_COUNT
from agentv.server.fake.api import CREATED, Api, Problem
from agentv.server.fake.endpoints import Endpoints, json_response, start_call
from agentv.server.fake.faults import FAULTS
from agentv.server.fake.gemini import GEMINI, GEMINI_COUNT, GEMINI_EVENTS
from agentv.server.fake.message_batches import MessageBatches
from agentv.server.fake.openai_batches import OpenAIBatches
from agentv.server.fake.openai_chat import AZURE_CHAT, OPENAI_CHAT
from agentv.server.fake.openai_responses import AZURE_RESPONSES, OPENAI_RESPONSES
from agentv.server.fake.stored_batches import Shelf
from agentv.types.json_value import JsonObject, JsonValue

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_ASKED: Mapping[str, Api] = {
    "/v1/chat/completions": OPENAI_CHAT,
    "/v1/responses": OPENAI_RESPONSES,
    "/v1/embeddings": embeddings.OPENAI_EMBEDDINGS,
    "/openai/v1/chat/completions": OPENAI_CHAT,
    "/openai/v1/responses": OPENAI_RESPONSES,
    "/openai/v1/embeddings": embeddings.OPENAI_EMBEDDINGS,
    "/openai/responses": AZURE_RESPONSES,
    "/openai/deployments/{model}/chat/completions": AZURE_CHAT,
    "/openai/deployments/{model}/embeddings": embeddings.AZURE_EMBEDDINGS,
    "/v1/messages": ANTHROPIC,
    "/v1/messages/count_tokens": ANTHROPIC_COUNT,
}
_GEMINI: Mapping[str, Api] = {
    "generateContent": GEMINI,
    "streamGenerateContent": GEMINI_EVENTS,
    "countTokens": GEMINI_COUNT,
    "embedContent": embeddings.GEMINI_EMBED,
    "batchEmbedContents": embeddings.GEMINI_EMBED_MANY,
}
_VERTEX = "projects/{project}/locations/{location}/publishers/google/"


def add_routes(app: web.Application, endpoints: Endpoints, polls: int) -> None:
    """Tell the application where everything is; a batch is done after `polls` looks."""

    def asks(api: Api) -> Handler:
        async def ask(request: web.Request) -> web.StreamResponse:
            return await endpoints.ask(request, api, model=request.match_info.get("model", ""))

        return ask

    for path, api in _ASKED.items():
        app.router.add_post(path, asks(api))
    for method, api in _GEMINI.items():
        for folder in ("", _VERTEX):
            app.router.add_post(
                "/{version:v1|v1beta|v1beta1|v1alpha}/" + folder + "models/{model}:" + method, asks(api)
            )
    _add_batches(app, endpoints, Shelf(polls))
    _add_log(app, endpoints)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/", _describe)


def _add_batches(app: web.Application, endpoints: Endpoints, shelf: Shelf) -> None:
    batches, messages = OpenAIBatches(endpoints, shelf), MessageBatches(endpoints, shelf)
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


def _add_log(app: web.Application, endpoints: Endpoints) -> None:
    log = endpoints.log

    async def show(_: web.Request) -> web.StreamResponse:
        return json_response(log.to_json())

    async def forget(_: web.Request) -> web.StreamResponse:
        log.calls.clear()
        return json_response(log.to_json())

    async def miss(request: web.Request) -> web.StreamResponse:
        problem = Problem(404, f"There is nothing at {request.path}; GET / lists what there is.")
        return endpoints.refuse(OPENAI_CHAT, problem, start_call(request, ""))

    app.router.add_get("/calls", show)
    app.router.add_delete("/calls", forget)
    app.router.add_route("*", "/{rest:.+}", miss)


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
        "about": "The fake model server of agentv. Any model answers; MODEL@FAULT answers with a fault.",
        "paths": [*_ASKED, *(f"/v1beta/models/{{model}}:{method}" for method in _GEMINI)],
        "faults": {name: fault.summary for name, fault in FAULTS.items()},
        "calls": f"{request.url.origin()}/calls",
    }
    return json_response(about)
