"""Compare the requests of our adapter and of a vendor's own client for the same options and server."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.asking import ask, make_request

from agentv.fake import FakeServer, Received
from agentv.types.messages import ChatMessage
from agentv.types.provider import ProviderError
from agentv.types.structs import names_of_fields
from agentv.types.targets import ResolvedTarget

IGNORED_HEADERS: Mapping[str, str] = {
    "host": "the same server",
    "connection": "how a client keeps its connections",
    "content-length": "follows from the body, whose spaces may differ",
    "accept": "the APIs respond with JSON for any Accept header",
    "accept-encoding": "what a client can unpack",
    "user-agent": "each client names itself",
    "x-goog-api-client": "Google's client names itself once more",
    "x-stainless-": "what the clients of OpenAI and Anthropic tell about the machine they run on",
    "traceparent": "Anthropic's client sends it if another test in the process has set up OpenTelemetry",
}
PICTURE = Path(__file__).parents[2] / "fixtures" / "picture.png"
QUESTION = "Where is my ördér?"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "number"}},
    "required": ["score"],
    "additionalProperties": False,
}
PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {"order": {"type": "integer"}}}
LOOKUP: Mapping[str, Any] = {"name": "lookup", "description": "Find an order", "parameters": PARAMETERS}
SYSTEM = "Be kind.\n\n[[ ## Guidelines ## ]]\n\nNo jokes."
TURNS = (ChatMessage("system", "Be brief."), ChatMessage("user", "Hi"), ChatMessage("assistant", "Yes?"))


@dataclass(frozen=True)
class Option:
    """One option as it stands in a target's settings or in a request."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)


OPTIONS: Mapping[str, Option] = {
    "a question": Option(),
    "a system prompt and guidelines": Option(request={"system_prompt": "Be kind.", "guidelines": "No jokes."}),
    "a conversation": Option(request={"chat_prompt": TURNS}),
    "temperature": Option({"temperature": 0.2}),
    "the request's temperature": Option({"temperature": 0.2}, {"temperature": 0.0}),
    "max_output_tokens": Option({"max_output_tokens": 50}),
    "the request's max_output_tokens": Option({"max_output_tokens": 50}, {"max_output_tokens": 9}),
    "the request's model": Option(request={"model": "m-2"}),
    "a schema": Option({"structured_output": True}, {"response_schema": SCHEMA}),
    "a schema that is not sent": Option({"structured_output": False}, {"response_schema": SCHEMA}),
    "tools": Option({"tools": (LOOKUP,)}),
    "extra_headers": Option({"extra_headers": {"X-Team": "orders"}}),
    "a stream": Option({"stream": True}),
    "a picture": Option(request={"input_files": (str(PICTURE),)}),
}
"""The requests made to every API; each adds its own."""

WITHOUT_A_REQUEST = {"tool_responses", "max_steps", "batch_api", "dimensions", "system_role"}
"""Settings that add no key to a request and have tests of their own."""


def comparable(received: Received) -> Mapping[str, object]:
    """Return everything that must be equal."""
    headers = {name: value for name, value in received.headers.items() if not name.startswith(tuple(IGNORED_HEADERS))}
    is_json = "json" in headers.get("content-type", "")
    body: object = json.loads(received.body) if is_json and received.body else received.body
    return {"method": received.method, "path": received.path, "headers": headers, "body": body}


def ours(server: FakeServer, target: ResolvedTarget, **request: Any) -> list[Mapping[str, object]]:
    """Return the requests of our adapter, regardless of the response."""
    server.requests.clear()
    with suppress(ProviderError):
        ask(target, make_request(**{"question": QUESTION, **request}))
    assert server.requests
    return [comparable(received) for received in server.requests]


def theirs(server: FakeServer, *calls: Callable[[], object]) -> list[Mapping[str, object]]:
    """Return the requests of the vendor's client, regardless of the response."""
    server.requests.clear()
    for call in calls:
        with suppress(Exception):  # each vendor has its own, and here only the requests count
            call()
    assert server.requests
    return [comparable(received) for received in server.requests]


def settings_without_a_case(settings: type, options: Mapping[str, Option]) -> set[str]:
    """Return the settings that no option sets."""
    known = {name for option in options.values() for name in option.settings}
    return set(names_of_fields(settings)) - known - WITHOUT_A_REQUEST
