"""Ask an agent of the OpenAI Agents SDK: MODULE:CLASS of each instrumentation, by commas; `chat` or `responses`."""

import sys

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled
from asking import instrument, send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM, find_order

set_tracing_disabled(False)
provider = send_to_receiver()
instrument(sys.argv[1], provider)
set_default_openai_api("chat_completions" if sys.argv[2] == "chat" else "responses")
agent = Agent(name="shop", instructions=SYSTEM, tools=[function_tool(find_order)], model=MODEL)
for question in QUESTIONS:
    Runner.run_sync(agent, question)
provider.shutdown()
