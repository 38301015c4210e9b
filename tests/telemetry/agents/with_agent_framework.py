"""Ask an agent of Microsoft's Agent Framework, which instruments itself."""

import asyncio

from agent_framework import Agent
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatCompletionClient
from asking import send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
enable_instrumentation(enable_sensitive_data=True)
agent = Agent(OpenAIChatCompletionClient(model=MODEL), name="shop", instructions=SYSTEM, tools=[find_order])


async def ask():
    for question in QUESTIONS:
        await agent.run(question)


asyncio.run(ask())
provider.shutdown()
