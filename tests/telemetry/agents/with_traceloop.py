"""Ask with a plain client of OpenAI in a workflow of Traceloop's SDK."""

import json
import os

from openai import OpenAI
from shop import MODEL, QUESTIONS, SYSTEM, TOOL
from shop import find_order as find
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import tool, workflow

Traceloop.init(app_name="shop", api_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], api_key="none")
client = OpenAI()


@tool(name="find_order")
def find_order(order):
    return find(order)


@workflow(name="shop")
def ask(question):
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
from opentelemetry import trace  # noqa: E402

trace.get_tracer_provider().shutdown()
