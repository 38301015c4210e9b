"""Ask an agent of Agno."""

import sys

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from asking import instrument, send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
instrument(sys.argv[1], provider)
for question in QUESTIONS:
    Agent(model=OpenAIChat(id=MODEL), name="shop", instructions=SYSTEM, tools=[find_order]).run(question)
provider.shutdown()
