"""Ask with a plain client of OpenAI in a workflow of Traceloop's SDK."""

import os

from asking import answer_of
from openai import OpenAI
from shop import QUESTIONS
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
    return answer_of(client, question, find_order)


for question in QUESTIONS:
    ask(question)
from opentelemetry import trace  # noqa: E402

trace.get_tracer_provider().shutdown()
