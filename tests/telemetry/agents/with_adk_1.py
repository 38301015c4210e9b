"""Ask an agent of Google's ADK 1.0."""

import asyncio

from asking import send_to_receiver
from google.adk.agents import Agent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
agent = Agent(name="shop", model=Gemini(model=MODEL), instruction=SYSTEM, tools=[find_order])


async def ask():
    for number, question in enumerate(QUESTIONS):
        runner = InMemoryRunner(agent, app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="user", session_id=str(number))
        content = types.Content(role="user", parts=[types.Part(text=question)])
        async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=content):
            pass


asyncio.run(ask())
provider.shutdown()
