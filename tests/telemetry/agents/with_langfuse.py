"""Ask with Langfuse's client of OpenAI; its server is the receiver."""

from asking import ask_with_client
from langfuse import get_client
from langfuse.openai import OpenAI

ask_with_client(OpenAI())
get_client().flush()
