"""Messages, calls and requests of OpenAI's chat API, which several conventions wrap."""

import re
from collections.abc import Mapping

from agentv.messages.shapes.fields import ROLE_NAMES
from agentv.telemetry.contents.contents import system_of
from agentv.telemetry.contents.parts import call_of, parsed
from agentv.telemetry.otlp.values import first
from agentv.types.json_value import JsonObject, JsonValue, object_of
from agentv.types.messages import Message

_KEYS = ("role", "content", "tool_calls", "function_call", "parts", "tool_call_id", "refusal")


def chat_message(role: str, body: JsonObject) -> JsonObject:
    """Return a message with a role, which is that of the body if it is known, and the keys that messages have."""
    message = {key: body[key] for key in _KEYS if body.get(key) is not None}
    if message.get("role") not in ROLE_NAMES:  # such as `customer`, which only a vendor knows
        message = {**message, "role": role}
    if role == "tool" and body.get("id") is not None:
        message.setdefault("tool_call_id", body["id"])
    if isinstance(message.get("tool_calls"), str):
        message["tool_calls"] = parsed(message["tool_calls"])
    if isinstance(message.get("function_call"), Mapping):
        message["tool_calls"] = [message.pop("function_call")]
    if isinstance(calls := message.get("tool_calls"), list) and calls:
        message["tool_calls"] = [call_of_api(each) for each in calls]
    return message if "content" in message or "parts" in message else {**message, "content": None}


def call_of_api(value: JsonValue) -> JsonValue:
    """Return a tool call of an API in our own form; a value that is no call is reported when it is read."""
    if not isinstance(value, Mapping):
        return value
    inner = value.get("function")
    return call_of(value) if "name" in (inner if isinstance(inner, Mapping) else value) else value


def request_of(request: JsonValue, given: JsonValue) -> JsonValue:
    """Return the messages in a request of OpenAI's, Anthropic's or Google's API, whose other keys are settings."""
    found = first(object_of(request), "messages", "input", "contents")
    return given if found is None else found


def is_preparation(answer: JsonValue) -> bool:
    """Return True for the request that LlamaIndex prepares for a call in a span of its own."""
    return {"messages", "tools"} <= object_of(parsed(answer)).keys()


def instructions_of(value: JsonValue) -> tuple[Message, ...]:
    """Return the system instructions in a request of these APIs as a message."""
    request = object_of(value)
    found = first(request, "instructions", "system") or first(object_of(request.get("config")), "system_instruction")
    is_unset = isinstance(found, str) and _UNSET.fullmatch(found)
    return () if is_unset else system_of(found)


_UNSET = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")
"""The text of an object that stands for a missing argument, as in `openai.Omit`."""
