"""Ask an agent of LangChain, all in one thread id: MODULE:CLASS of the instrumentation."""

import sys

from asking import instrument, send_to_receiver
from langchain.agents import create_agent
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
instrument(sys.argv[1], provider)
agent = create_agent(f"openai:{MODEL}", system_prompt=SYSTEM, tools=[find_order], name="shop")
for question in QUESTIONS:
    agent.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "one"}})
provider.shutdown()
