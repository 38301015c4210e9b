"""Ask with a plain client of OpenAI that MLflow instruments."""

import mlflow
from asking import ask_with_client
from openai import OpenAI

mlflow.openai.autolog()
ask_with_client(OpenAI())
mlflow.flush_trace_async_logging()
