"""Ask an agent of LangChain that LangSmith instruments; it exports by OpenTelemetry."""

from asking import send_to_receiver
from langchain.agents import create_agent
from langsmith.run_trees import get_cached_client
from shop import MODEL, QUESTIONS, SYSTEM, find_order

provider = send_to_receiver()
agent = create_agent(f"openai:{MODEL}", system_prompt=SYSTEM, tools=[find_order], name="shop")
for question in QUESTIONS:
    agent.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "one"}})
get_cached_client().flush()
provider.shutdown()
