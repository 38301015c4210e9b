"""Ask an agent of pydantic-ai, which instruments itself."""

from asking import send_to_receiver
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
Agent.instrument_all()
agent = Agent(OpenAIChatModel(MODEL), system_prompt=SYSTEM, tools=[find_order], name="shop")
for question in QUESTIONS:
    agent.run_sync(question)
provider.shutdown()
