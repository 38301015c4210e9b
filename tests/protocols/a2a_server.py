"""An A2A agent for tests, made with the SDK: `python a2a_server.py PORT [MODE]`; it does what a message says.

Modes: `plain` streams nothing, `old` speaks version 0.3 at the older place of the card, `rest` has only the HTTP+JSON
binding, `key` wants the header `X-Key: open sesame`, `elsewhere` names another host in its card.
"""

import asyncio
import sys

import uvicorn
from a2a.helpers import new_data_part, new_raw_part, new_task, new_text_message, new_text_part, new_url_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, TaskState
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

cancelled: list[str] = []
hanging: list[str] = []


class Clerk(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:  # noqa: C901, PLR0912 - a table
        text = context.get_user_input()
        task_id, context_id = context.task_id or "", context.context_id or ""
        if text == "hello":
            reply = new_text_message("Good day.", context_id=context_id)
            reply.metadata.update({"usage": {"input_tokens": 7, "output_tokens": 3}})
            await event_queue.enqueue_event(reply)
            return
        if text == "cancelled?":
            await event_queue.enqueue_event(new_text_message(",".join(cancelled) or "none", context_id=context_id))
            return
        if text == "hanging?":
            await event_queue.enqueue_event(new_text_message(",".join(hanging) or "none", context_id=context_id))
            return
        if text == "context?":
            await event_queue.enqueue_event(new_text_message(context_id, context_id=context_id))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task(task_id, context_id, TaskState.TASK_STATE_SUBMITTED))
        updater = TaskUpdater(event_queue, task_id, context_id)
        await updater.start_work(updater.new_agent_message([new_text_part("Looking it up.")]))
        said = updater.new_agent_message([new_text_part(f"about {text}")])
        match text:
            case "hang":
                hanging.append(task_id)
                await asyncio.sleep(10_000)
            case "slow":
                await asyncio.sleep(1)
                await updater.add_artifact([new_text_part("slowly done")])
            case "fail":
                await updater.failed(said)
            case "reject":
                await updater.reject(said)
            case "ask":
                await updater.requires_input(updater.new_agent_message([new_text_part("Which order?")]))
            case "login":
                await updater.requires_auth(said)
            case "crash":
                raise RuntimeError("no order service")
            case "chunks":
                await updater.add_artifact([new_text_part("one, ")], artifact_id="a")
                await updater.add_artifact([new_text_part("two")], artifact_id="a", append=True, last_chunk=True)
            case "parts":
                parts = [
                    new_text_part("See:"),
                    new_data_part({"order": 7, "euros": 12.5}),
                    new_raw_part(b"\x89PNG", media_type="image/png", filename="a.png"),
                    new_url_part("https://example.com/b.pdf", media_type="application/pdf"),
                ]
                await updater.add_artifact(parts, name="order")
            case _:
                files = [
                    f"{part.filename} {part.media_type} {part.raw.decode()}"
                    for part in (context.message.parts if context.message else [])
                    if part.raw
                ]
                await updater.add_artifact([new_text_part("\n".join([f"You said: {text}", *files]))])
        if text not in ("fail", "reject", "ask", "login"):
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        cancelled.append(context.task_id or "")
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


class Keyed(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        if request.headers.get("x-key") != "open sesame":
            return PlainTextResponse("no key", status_code=401)
        return await call_next(request)


def main(port: int, mode: str) -> None:
    url = "http://elsewhere.example/" if mode == "elsewhere" else f"http://127.0.0.1:{port}/"
    card = AgentCard(
        name="clerk",
        description="Knows orders.",
        version="1",
        supported_interfaces=[
            AgentInterface(
                url=url,
                protocol_binding="HTTP+JSON" if mode == "rest" else "JSONRPC",
                protocol_version="0.3" if mode == "old" else "1.0",
            )
        ],
        capabilities=AgentCapabilities(streaming=mode != "plain"),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="orders", name="orders", description="orders", tags=["orders"])],
    )
    handler = DefaultRequestHandler(agent_executor=Clerk(), task_store=InMemoryTaskStore(), agent_card=card)
    place = "/.well-known/agent.json" if mode == "old" else "/.well-known/agent-card.json"
    json_rpc = create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)
    agent = create_rest_routes(handler) if mode == "rest" else json_rpc
    middleware = [Middleware(Keyed)] if mode == "key" else []
    app = Starlette(routes=[*create_agent_card_routes(card, card_url=place), *agent], middleware=middleware)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    main(int(sys.argv[1]), "".join(sys.argv[2:]))
