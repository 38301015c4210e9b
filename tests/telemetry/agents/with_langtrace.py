"""Ask with a plain client of OpenAI that Langtrace instruments."""

from langtrace_python_sdk import langtrace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

langtrace.init(custom_remote_exporter=OTLPSpanExporter(), batch=True, disable_logging=True)
from asking import ask_with_client  # noqa: E402
from openai import OpenAI  # noqa: E402

ask_with_client(OpenAI())
