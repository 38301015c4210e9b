"""Ask with a plain client of OpenAI in functions that LangWatch traces; its server is the receiver."""

import json
import os

import langwatch
from openai import OpenAI
from opentelemetry import trace
from shop import MODEL, QUESTIONS, SYSTEM, TOOL
from shop import find_order as find

langwatch.setup(api_key="none", endpoint_url=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
client = OpenAI()


@langwatch.span(type="tool", name="find_order")
def find_order(order):
    return find(order)


@langwatch.trace(name="shop")
def ask(question):
    langwatch.get_current_trace().autotrack_openai_calls(client)
    langwatch.get_current_trace().update(metadata={"thread_id": "one"})
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    while True:
        message = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL]).choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            found = find_order(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})


for question in QUESTIONS:
    ask(question)
trace.get_tracer_provider().force_flush()
