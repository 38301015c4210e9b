"""Ask a crew of CrewAI."""

import os
import sys

from asking import instrument, send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM
from shop import find_order as find

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["CREWAI_TRACING_ENABLED"] = "false"
provider = send_to_receiver()
from crewai import Agent, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402

instrument(sys.argv[1], provider)


@tool("find_order")
def find_order(order: str) -> str:
    """Return the state of an order."""
    return find(order)


for question in QUESTIONS:
    shop = Agent(role="shop", goal="Answer", backstory=SYSTEM, llm=f"openai/{MODEL}", tools=[find_order])
    task = Task(description=question, expected_output="An answer", agent=shop)
    Crew(agents=[shop], tasks=[task]).kickoff()
provider.shutdown()
