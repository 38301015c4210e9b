"""Ask an agent of AutoGen."""

import asyncio
import sys

from asking import instrument, send_to_receiver
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
instrument(sys.argv[1], provider)


async def ask():
    for question in QUESTIONS:
        client = OpenAIChatCompletionClient(model=MODEL)
        agent = AssistantAgent("shop", client, tools=[find_order], system_message=SYSTEM, reflect_on_tool_use=True)
        await agent.run(task=question)


asyncio.run(ask())
provider.shutdown()
