"""Ask an agent of LangChain, all in one thread id: MODULE:CLASS of the instrumentation."""

import importlib
import sys

from asking import send_to_receiver
from langchain.agents import create_agent
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
module, _, name = sys.argv[1].partition(":")
getattr(importlib.import_module(module), name)().instrument(tracer_provider=provider)
agent = create_agent(f"openai:{MODEL}", system_prompt=SYSTEM, tools=[find_order], name="shop")
for question in QUESTIONS:
    agent.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "one"}})
provider.shutdown()
