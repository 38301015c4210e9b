"""Ask with Langfuse, whose server is the receiver: `client` of OpenAI, or an agent of `langchain`."""

import sys

from asking import ask_with_client
from langfuse import get_client
from shop import MODEL, QUESTIONS, SYSTEM, find_order

if sys.argv[1] == "client":
    from langfuse.openai import OpenAI

    ask_with_client(OpenAI())
else:
    from langchain.agents import create_agent
    from langfuse.langchain import CallbackHandler

    agent = create_agent(f"openai:{MODEL}", system_prompt=SYSTEM, tools=[find_order], name="shop")
    for question in QUESTIONS:
        config = {"callbacks": [CallbackHandler()], "metadata": {"langfuse_session_id": "one"}}
        agent.invoke({"messages": [("user", question)]}, config)
get_client().flush()
