"""Ask with LiteLLM: `otel` is its own callback, MODULE:CLASS an instrumentation."""

import sys
from types import SimpleNamespace

import litellm
from asking import ask_with_client, instrument, send_to_receiver

provider = send_to_receiver()
if sys.argv[1] == "otel":
    litellm.callbacks = ["otel"]
else:
    instrument(sys.argv[1], provider)


def create(model, **request):
    return litellm.completion(f"openai/{model}", **request)


ask_with_client(SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create))))
from opentelemetry import trace  # noqa: E402

if sys.argv[1] == "otel":
    import time

    time.sleep(1)
    trace.get_tracer_provider().force_flush()
provider.shutdown()
