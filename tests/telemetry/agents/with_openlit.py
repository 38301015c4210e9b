"""Ask with a plain client of OpenAI that OpenLIT instruments."""

import openlit
from asking import ask_with_client
from openai import OpenAI
from opentelemetry import trace

openlit.init()
ask_with_client(OpenAI())
trace.get_tracer_provider().shutdown()
