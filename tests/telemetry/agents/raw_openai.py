"""Ask with a plain client of OpenAI, instrumented by the class that the first argument names, as MODULE:CLASS."""

import sys

from asking import ask_with_client, instrument, send_to_receiver
from openai import OpenAI

provider = send_to_receiver()
instrument(sys.argv[1], provider)
ask_with_client(OpenAI())
provider.shutdown()
