"""Ask an agent of LiveKit, which instruments itself, in one session of texts."""

import asyncio
import os

from asking import send_to_receiver
from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.telemetry import set_tracer_provider
from livekit.plugins import openai
from shop import MODEL, QUESTIONS, SYSTEM
from shop import find_order as find

provider = send_to_receiver()
set_tracer_provider(provider)


@function_tool
async def find_order(order: str) -> str:
    """Return the state of an order."""
    return find(order)


async def ask() -> None:
    for question in QUESTIONS:
        model = openai.LLM(model=MODEL, base_url=os.environ["OPENAI_BASE_URL"], api_key="none")
        async with model, AgentSession(llm=model) as session:
            await session.start(Agent(instructions=SYSTEM, tools=[find_order]))
            await session.run(user_input=question)


asyncio.run(ask())
provider.shutdown()
