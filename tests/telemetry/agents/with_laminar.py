"""Ask with a plain client of OpenAI in functions that Laminar traces; its server is the receiver."""

import json
import os

from lmnr import Laminar, observe

address, _, port = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"].rpartition(":")
Laminar.initialize(project_api_key="none", base_url=address, http_port=int(port), force_http=True)
from openai import OpenAI  # noqa: E402
from shop import MODEL, QUESTIONS, SYSTEM, TOOL  # noqa: E402
from shop import find_order as find  # noqa: E402

client = OpenAI()


@observe(name="find_order", span_type="TOOL")
def find_order(order):
    return find(order)


@observe(name="shop", session_id="one")
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
Laminar.flush()
