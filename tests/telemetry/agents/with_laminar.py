"""Ask with a plain client of OpenAI in functions that Laminar traces; its server is the receiver."""

import os

from lmnr import Laminar, observe

address, _, port = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"].rpartition(":")
Laminar.initialize(project_api_key="none", base_url=address, http_port=int(port), force_http=True)
from asking import answer_of  # noqa: E402
from openai import OpenAI  # noqa: E402
from shop import QUESTIONS  # noqa: E402
from shop import find_order as find  # noqa: E402

client = OpenAI()


@observe(name="find_order", span_type="TOOL")
def find_order(order):
    return find(order)


@observe(name="shop", session_id="one")
def ask(question):
    return answer_of(client, question, find_order)


for question in QUESTIONS:
    ask(question)
Laminar.flush()
