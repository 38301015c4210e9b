"""Ask with a plain client that MLflow instruments: `openai` or `anthropic`."""

import sys

import mlflow
from asking import ask_with_anthropic, ask_with_client

if sys.argv[1] == "openai":
    from openai import OpenAI

    mlflow.openai.autolog()
    ask_with_client(OpenAI())
else:
    from anthropic import Anthropic

    mlflow.anthropic.autolog()
    ask_with_anthropic(Anthropic())
mlflow.flush_trace_async_logging()
