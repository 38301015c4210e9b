"""Ask with a plain client of OpenAI, instrumented by the class that the first argument names, as MODULE:CLASS."""

import importlib
import sys

from asking import ask_with_client, send_to_receiver
from openai import OpenAI

provider = send_to_receiver()
module, _, name = sys.argv[1].partition(":")
getattr(importlib.import_module(module), name)().instrument(tracer_provider=provider)
ask_with_client(OpenAI())
provider.shutdown()
