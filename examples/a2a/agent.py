"""The agent to evaluate: `python3 agent.py` serves it at http://127.0.0.1:9797 until Ctrl-C."""

import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

PORT = 9797
SENT = {"7": "on its way", "8": "delivered"}


class Clerk(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        question = context.get_user_input()
        found = [f"Order {order} is {state}." for order, state in SENT.items() if order in question]
        await event_queue.enqueue_event(new_text_message(" ".join(found) or "Which order?"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing takes long here."""


CARD = AgentCard(
    name="clerk",
    description="Tells where orders are.",
    version="1",
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{PORT}/", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="orders", name="orders", description="Tells where orders are.", tags=["orders"])],
)

if __name__ == "__main__":
    handler = DefaultRequestHandler(agent_executor=Clerk(), task_store=InMemoryTaskStore(), agent_card=CARD)
    app = Starlette(routes=[*create_agent_card_routes(CARD), *create_jsonrpc_routes(handler, "/")])
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="error")
