"""Ask an agent of Strands, which instruments itself; `unnamed` as the argument is for versions before 1.0."""

import sys

from asking import send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM, find_order
from strands import Agent, tool
from strands.models.openai import OpenAIModel

provider = send_to_receiver()
for question in QUESTIONS:
    model = OpenAIModel(model_id=MODEL)
    named = {} if sys.argv[1:] == ["unnamed"] else {"name": "shop"}
    Agent(model=model, **named, system_prompt=SYSTEM, tools=[tool(find_order)], callback_handler=None)(question)
provider.shutdown()
