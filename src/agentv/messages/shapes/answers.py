"""Read an answer that is an object: the named rules, which are the same for every source of answers.

The rules are listed in docs/reference/messages.md. An object to which none applies, or two that differ, is refused with
its keys: a value that nobody reads must never become an empty answer.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from msgspec.structs import replace

from agentv.messages.shapes.chat import CALL_KEYS, CONTENT_KEYS
from agentv.messages.shapes.fields import ROLE_NAMES, read_content
from agentv.messages.shapes.google import content_of
from agentv.messages.shapes.langchain import fields_of
from agentv.messages.shapes.objects import plain_json
from agentv.messages.shapes.pydantic_ai import KINDS
from agentv.messages.shapes.reading import read_answer, read_messages
from agentv.messages.shapes.responses import is_item
from agentv.messages.shapes.results import messages_of_reply
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue, listed_keys
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text

TEXT_KEYS = (
    *("output", "answer", "response", "result", "completion", "output_text", "final_output"),
    *("generated_text", "text", "content"),
)
"""The keys of an object whose value is the answer."""

MESSAGES_KEYS = ("output_messages", "outputMessages", "messages")
"""The keys of an object whose value lists messages, of which the last one of the assistant is the answer."""

ANSWER_KEYS = (*TEXT_KEYS, "contentParts", "content_parts", "parts", "message", *MESSAGES_KEYS, "choices", "candidates")
"""The keys of an object under which an answer is looked for."""

_MAX_DEPTH = 5
"""The maximum number of objects inside each other in which an answer is looked for."""

ANSWER_ADVICE = f"write the answer as a text, a message, or under one of the keys {', '.join(TEXT_KEYS)}"


class NamedAnswer(NamedTuple):
    """The answer found by a rule: the key that holds it, and its text."""

    key: str
    text: str


def read_answer_object(given: object, at: str, advice: str = ANSWER_ADVICE) -> str | Message:
    """Read an answer that is an object: a message, or an object with its answer under a known key.

    Raises MessageError, which ends with `advice`, if no rule applies or two rules disagree, and for a message that
    cannot be read.
    """
    value = plain_json(given, at)
    if not isinstance(value, Mapping) or isinstance(value, Message) or is_message(value):
        return read_answer(value, at)
    found = named_answer(value, at, advice)
    calls = {key: value[key] for key in CALL_KEYS if value.get(key)}
    if found is None and not calls:
        raise MessageError(at, f"holds no answer; its keys: {listed_keys(value)}", advice)
    messages_key = next((key for key in MESSAGES_KEYS if _is_given(value, key)), None)
    if found is not None and messages_key is not None:
        return _with_calls(_last_answer(value[messages_key], f"{at}.{messages_key}"), found.text, calls, at)
    if calls or found is None or found.key in (*CONTENT_KEYS, "parts"):
        without_texts = {key: item for key, item in value.items() if key not in TEXT_KEYS}
        content: JsonObject = {} if found is None or found.key == "parts" else {"content": value[found.key]}
        return read_answer({**without_texts, **content}, at)
    return found.text


def _with_calls(last: Message, text: str, calls: JsonObject, at: str) -> Message:
    """Return the last message of an answer with the `text` beside it, and with `calls` if it has none of its own."""
    content = last.content if content_text(last.content) == text else text
    own_calls = last.tool_calls or (read_answer(calls, at).tool_calls if calls else ())
    return replace(last, content=content, tool_calls=own_calls)


def named_answer(value: JsonObject, at: str, advice: str = ANSWER_ADVICE) -> NamedAnswer | None:
    """Return the answer in an object that is not a message; None if no rule applies.

    Raises MessageError if two rules find texts that differ, and for messages that cannot be read.
    """
    texts = ((key, _text_under(value, key, at, _MAX_DEPTH)) for key in ANSWER_KEYS)
    found = [NamedAnswer(key, text) for key, text in texts if text is not None]
    if any(each.key in MESSAGES_KEYS for each in found):  # as in a response: of a text and messages one may be empty
        found = [each for each in found if each.text or each.key not in ("text", *MESSAGES_KEYS)] or found
    if len({each.text for each in found}) > 1:
        keys = " and ".join(repr(each.key) for each in found)
        raise MessageError(at, f"has several answers that differ, under {keys}; its keys: {listed_keys(value)}", advice)
    return found[0] if found else None


def is_message(value: JsonValue) -> bool:
    """Return True for an object with a role, or in another form of a message."""
    if not isinstance(value, Mapping):
        return False
    known = value.get("role") in ROLE_NAMES or fields_of(value) is not None or is_item(value)
    return known or "role" in value or (value.get("kind") in KINDS and "parts" in value)


def _is_given(value: JsonObject, key: str) -> bool:
    """Return True if an object has a value under a key; an empty list or object is one only as content."""
    item = value.get(key)
    return item is not None and (item not in ([], (), {}) or key in CONTENT_KEYS)


def _text_under(value: JsonObject, key: str, at: str, depth: int) -> str | None:
    """Return the text of the answer under a key; None if the key is missing, or its value holds no answer."""
    item, place = value.get(key), f"{at}.{key}"
    if not _is_given(value, key):
        return None
    if key in ("choices", "candidates"):
        listed = messages_of_reply(value, at)
        return None if not listed else _text_of(cast(JsonValue, listed[0]), place, depth)
    if key in MESSAGES_KEYS:
        return content_text(_last_answer(item, place).content)
    if key == "message":
        return _text_of(item, place, depth) if isinstance(item, Mapping) else None
    if key == "parts":
        return content_text(read_answer({"parts": item}, at).content)
    return _text_of(item, place, depth)


def _text_of(item: JsonValue, at: str, depth: int) -> str:
    """Return the value of an answer as text: that of a message or of content parts, the JSON of any other value."""
    if isinstance(item, str):
        return item
    if isinstance(item, list | tuple) and item:
        if all(map(is_message, item)):
            return content_text(_last_answer(item, at).content)
        if all(isinstance(each, Mapping) and each.get("type") in _TEXT_PARTS for each in item):
            return content_text(read_content(item, at))
    if isinstance(item, Mapping) and depth > 0:
        if is_message(item) or content_of(item) is not None:
            return content_text(read_answer(item, at).content)
        texts = [text for key in ANSWER_KEYS if (text := _text_under(item, key, at, depth - 1)) is not None]
        if len(set(texts)) == 1:
            return texts[0]
    return compact_json(item)


_TEXT_PARTS = ("text", "output_text")


def _last_answer(given: JsonValue | Sequence[object], at: str) -> Message:
    """Return the last message of the assistant with content after the user's last message, with the calls of all.

    Raises MessageError if there is no message of the assistant, and for a message that cannot be read.
    """
    messages = read_messages(given, at)
    last_user = max((place for place, each in enumerate(messages) if each.role == "user"), default=-1)
    answers = [each for each in messages[last_user + 1 :] if each.role == "assistant"]
    if not answers:
        raise MessageError(at, "has no message of the assistant after the last one of the user")
    last = next((each for each in reversed(answers) if content_text(each.content)), answers[-1])
    calls = tuple(call for each in answers for call in each.tool_calls)
    return Message(last.role, last.content, name=last.name, tool_calls=calls, timestamp=last.timestamp)
