"""Ask an agent of Haystack: `own` is its own tracer, MODULE:CLASS an instrumentation."""

import sys
from typing import Annotated

from asking import instrument, send_to_receiver
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from shop import MODEL, QUESTIONS, SYSTEM
from shop import find_order as find

provider = send_to_receiver()
if sys.argv[1] == "own":
    from haystack.tracing import enable_tracing
    from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer

    enable_tracing(OpenTelemetryTracer(provider.get_tracer("haystack")))
else:
    instrument(sys.argv[1], provider)


@tool
def find_order(order: Annotated[str, "The number of the order."]) -> str:
    """Return the state of an order."""
    return find(order)


agent = Agent(chat_generator=OpenAIChatGenerator(model=MODEL), system_prompt=SYSTEM, tools=[find_order])
for question in QUESTIONS:
    agent.run(messages=[ChatMessage.from_user(question)])
provider.shutdown()
