"""Ask an agent of LlamaIndex; `stream` as the second argument streams."""

import asyncio
import os
import sys

from asking import instrument, send_to_receiver
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
instrument(sys.argv[1], provider)
model = OpenAI(MODEL, api_base=os.environ["OPENAI_BASE_URL"])
agent = FunctionAgent(
    name="shop", llm=model, system_prompt=SYSTEM, tools=[find_order], streaming=sys.argv[2:] == ["stream"]
)


async def ask():
    for question in QUESTIONS:
        await agent.run(question)


asyncio.run(ask())
provider.shutdown()
