"""Ask an agent of LangGraph before LangChain 1.0: MODULE:CLASS of the instrumentation, or `langfuse`."""

import sys

from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from shop import MODEL, QUESTIONS, SYSTEM, find_order

if sys.argv[1] == "langfuse":
    from langfuse import get_client
    from langfuse.langchain import CallbackHandler

    callbacks, finish = [CallbackHandler()], get_client().flush
else:
    from asking import instrument, send_to_receiver

    provider = send_to_receiver()
    instrument(sys.argv[1], provider)
    callbacks, finish = [], provider.shutdown
agent = create_react_agent(ChatOpenAI(model=MODEL), prompt=SYSTEM, tools=[find_order], name="shop")
for question in QUESTIONS:
    agent.invoke({"messages": [("user", question)]}, {"callbacks": callbacks})
finish()
