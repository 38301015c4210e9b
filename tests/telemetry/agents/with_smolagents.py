"""Ask a tool-calling agent of smolagents, whose answer is a call of its tool `final_answer`."""

import json
import os
import sys

from asking import instrument, send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM, find_order
from smolagents import OpenAIServerModel, Tool, ToolCallingAgent


def final(answer: str) -> str:
    """Return the line that lets the fake model answer."""
    return f"@call final_answer {json.dumps({'answer': answer})}"


class FindOrder(Tool):
    name, description, output_type = "find_order", "Return the state of an order.", "string"
    inputs = {"order": {"type": "string", "description": "The number of the order."}}  # noqa: RUF012 - read by its class

    def forward(self, order: str) -> str:
        return f"{find_order(order)}\n{final(find_order(order))}"


provider = send_to_receiver()
instrument(sys.argv[1], provider)
model = OpenAIServerModel(MODEL, api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
for question in QUESTIONS:
    asked, _, answer = question.rpartition("@say ")
    agent = ToolCallingAgent([FindOrder()], model, instructions=SYSTEM, name="shop", verbosity_level=0)
    agent.run(asked.strip() if "@call" in asked else f"{asked}{final(answer)}")
provider.shutdown()
