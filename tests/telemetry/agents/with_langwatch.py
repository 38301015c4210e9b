"""Ask with a plain client of OpenAI in functions that LangWatch traces; its server is the receiver."""

import os

import langwatch
from asking import answer_of
from openai import OpenAI
from opentelemetry import trace
from shop import QUESTIONS
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
    return answer_of(client, question, find_order)


for question in QUESTIONS:
    ask(question)
trace.get_tracer_provider().force_flush()
