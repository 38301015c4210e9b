"""Ask an agent of LangChain that Monocle instruments."""

from monocle_apptrace import setup_monocle_telemetry
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

setup_monocle_telemetry(workflow_name="shop", span_processors=[SimpleSpanProcessor(OTLPSpanExporter())])
from langchain.agents import create_agent  # noqa: E402
from shop import MODEL, QUESTIONS, SYSTEM, find_order  # noqa: E402

agent = create_agent(f"openai:{MODEL}", system_prompt=SYSTEM, tools=[find_order], name="shop")
for question in QUESTIONS:
    agent.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "one"}})
