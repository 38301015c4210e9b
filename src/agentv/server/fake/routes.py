"""Which path belongs to which API."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from agentv.server.fake.anthropic import ANTHROPIC
from agentv.server.fake.api import Api
from agentv.server.fake.endpoints import Endpoints, json_response
from agentv.server.fake.faults import FAULTS
from agentv.server.fake.gemini import GEMINI
from agentv.server.fake.openai_chat import AZURE_CHAT, OPENAI_CHAT
from agentv.types.json_value import JsonObject

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_VERTEX = "projects/{project}/locations/{location}/publishers/google/"


def add_routes(app: web.Application, endpoints: Endpoints) -> None:
    """Tell the application where everything is."""

    def asks(api: Api) -> Handler:
        return lambda request: endpoints.ask(request, api, model=request.match_info.get("model", ""))

    async def show_calls(_: web.Request) -> web.StreamResponse:
        return json_response(endpoints.log.to_json())

    async def forget_calls(_: web.Request) -> web.StreamResponse:
        endpoints.log.calls.clear()
        return json_response(endpoints.log.to_json())

    app.router.add_post("/v1/chat/completions", asks(OPENAI_CHAT))
    app.router.add_post("/openai/v1/chat/completions", asks(OPENAI_CHAT))
    app.router.add_post("/openai/deployments/{model}/chat/completions", asks(AZURE_CHAT))
    app.router.add_post("/v1/messages", asks(ANTHROPIC))
    for folder in ("", _VERTEX):
        path = "/{version:v1|v1beta|v1beta1|v1alpha}/" + folder + "models/{model}:"
        app.router.add_post(path + "generateContent", asks(GEMINI))
    app.router.add_get("/calls", show_calls)
    app.router.add_delete("/calls", forget_calls)
    app.router.add_get("/", _describe)


async def _describe(request: web.Request) -> web.StreamResponse:
    about: JsonObject = {
        "about": "The fake model server of agentv. MODEL@FAULT answers with a fault.",
        "faults": {name: fault.summary for name, fault in FAULTS.items()},
        "calls": f"{request.url.origin()}/calls",
    }
    return json_response(about)
