"""Ask with a plain client of OpenAI that Logfire instruments."""

import logfire
from asking import ask_with_client
from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

exporter = BatchSpanProcessor(OTLPSpanExporter())
logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[exporter])
client = OpenAI()
logfire.instrument_openai(client)
ask_with_client(client)
logfire.shutdown()
