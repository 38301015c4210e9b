"""Ask an agent of the OpenAI Agents SDK: MODULE:CLASS of each instrumentation, or `logfire`; `chat` or `responses`."""

import sys

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled
from asking import instrument, send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM, find_order

set_tracing_disabled(False)
if sys.argv[1] == "logfire":
    import logfire
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    exporter = SimpleSpanProcessor(OTLPSpanExporter())
    logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[exporter])
    logfire.instrument_openai_agents()
    provider = logfire
else:
    provider = send_to_receiver()
    instrument(sys.argv[1], provider)
set_default_openai_api("chat_completions" if sys.argv[2] == "chat" else "responses")
agent = Agent(name="shop", instructions=SYSTEM, tools=[function_tool(find_order)], model=MODEL)
for question in QUESTIONS:
    Runner.run_sync(agent, question)
provider.shutdown()
