"""The inputs and outputs of spans as messages: texts, and lists of messages in any known shape."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from agentv.messages.logs.fields import decoded
from agentv.messages.logs.reading import PROMPT, RESPONSE, read_text_or_messages
from agentv.telemetry.contents.parts import content_of, has_keyed_parts, parsed, read_rows, without_parts
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role
from agentv.types.messages_json import compact_json, content_text


def listed_messages(value: JsonValue, at: str) -> tuple[Message, ...] | None:
    """Return a list of messages, also from its JSON; None for a value that is no list of objects.

    Raises MessageError for a message that cannot be read.
    """
    given = decoded(value) if isinstance(value, str) else value
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, list | tuple) or not given or not all(isinstance(each, dict) for each in given):
        return None
    return read_rows(given, at)


CUT = "is not whole JSON: it was cut, as by OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"


def is_cut(value: JsonValue) -> bool:
    """Return True for the beginning of a list or an object in JSON, but not for a text that only begins like one."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return False
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except RecursionError:
        pass
    return False


def said(value: JsonValue, role: Role, at: str) -> tuple[Message, ...]:
    """Return an input (role `user`) or an output (`assistant`) as messages; () for a value that says nothing.

    An output that was cut says nothing: a part of its JSON is not the answer.

    A value of no known shape is one message with its JSON. Raises MessageError for a message that cannot be read.
    """
    inner = unwrapped(value)
    if role == "assistant" and inner is value and is_cut(value):
        return ()
    value = _message_in(inner)
    if role == "assistant" and isinstance(value, Mapping):
        if len(value) == 1 and isinstance(value.get("output"), dict | list):  # LangSmith
            value = value["output"]
        elif "json_dict" in value and isinstance(value.get("raw"), str):  # CrewAI has the texts of all tasks, too
            value = value["raw"]
        elif value.get("generations") in ([], [[]]) or _is_blocked(value):  # a failed call of LangChain, or of Gemini
            return ()
    if value in (None, "", "null", [], {}):
        return ()
    if isinstance(value, list | tuple) and isinstance(value[0], list) and (len(value) == 1 or _is_call_of(value)):
        value = value[0]  # LangChain has a list of prompts, a traced function the list of its arguments
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(each, Mapping) and "role" in each for each in value)
    ):
        return read_rows(value, at)
    if isinstance(value, Mapping) and "role" in value and without_parts(value, at) != [value]:
        return read_rows([value], at)
    if has_keyed_parts(value):
        return read_rows([{"role": role, "content": value}], at)
    found = read_text_or_messages(value, at, PROMPT if role == "user" else RESPONSE)
    if isinstance(found, tuple):
        return found
    return (Message(role, found if isinstance(found, str) else compact_json(value)),)


def _is_blocked(reply: JsonObject) -> bool:
    """Return True for a reply of Gemini to a prompt that it refuses."""
    return bool(reply.get("prompt_feedback") or reply.get("promptFeedback")) and not reply.get("candidates")


_WRAPPERS = ("inputs", "outputs", "kwargs", "args", "_value")


def _message_in(value: JsonValue) -> JsonValue:
    """Return the message in a response of Amazon's Converse API; any other value as it is."""
    output = value.get("output") if isinstance(value, Mapping) else None
    message = output.get("message") if isinstance(output, Mapping) else None
    return message if isinstance(message, Mapping) and "role" in message else value


def _is_call_of(arguments: Sequence[JsonValue]) -> bool:
    """Return True for the arguments of a function whose first one, and no other, is a list of messages."""
    are_messages = [
        isinstance(each, list) and bool(each) and all(isinstance(row, Mapping) and "role" in row for row in each)
        for each in arguments
    ]
    return are_messages[0] and not any(are_messages[1:])


def unwrapped(value: JsonValue) -> JsonValue:
    """Return a value parsed from its JSON, without the objects `inputs`, `outputs`, `args` and others around it."""
    if isinstance(value, str) and value.startswith('"'):
        with suppress(ValueError):
            return cast(JsonValue, json.loads(value))
    inner = decoded(value) if isinstance(value, str) else value
    while isinstance(inner, Mapping):
        key = next((key for key in _WRAPPERS if inner.get(key)), None)
        if key is None:
            break
        inner = inner[key]
    if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str):
        return inner[0]
    return value if inner is None else inner


def with_system(system: tuple[Message, ...], messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages after the system instructions.

    If they begin with a system message already, it stays, or the instructions replace it if they have its text, too.
    """
    if not system or not messages:
        return messages
    if messages[0].role == "system":
        is_repeated = content_text(messages[0].content) in content_text(system[0].content)
        return (*system, *messages[1:]) if is_repeated else messages
    return (*system, *messages)


def system_of(value: JsonValue) -> tuple[Message, ...]:
    """Return system instructions, a text or a list of parts, as a message."""
    inner = parsed(value)
    content = content_of(inner) if isinstance(inner, list) else value
    if content in (None, "", []):
        return ()
    return (Message("system", content if isinstance(content, str) else compact_json(content)),)
