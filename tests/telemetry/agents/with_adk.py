"""Ask an agent of Google's ADK."""

import asyncio
import os
import sys

from asking import instrument, send_to_receiver
from google.adk.agents import Agent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
instrument(sys.argv[1] if sys.argv[1:] else "", provider)
model = Gemini(model=MODEL, base_url=os.environ["GEMINI_BASE_URL"])
agent = Agent(name="shop", model=model, instruction=SYSTEM, tools=[find_order])
for number, question in enumerate(QUESTIONS):
    asyncio.run(InMemoryRunner(agent).run_debug(question, quiet=True, session_id=str(number)))
provider.shutdown()
