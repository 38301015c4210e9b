"""What was said, in the many forms in which tracing programs record an input or an output."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.log_shapes.fields import decoded
from agentv.types.message_shapes.fields import ROLE_NAMES
from agentv.types.message_shapes.langchain import TYPES, fields_of
from agentv.types.message_shapes.reading import read_answer, read_messages
from agentv.types.message_shapes.responses import is_item
from agentv.types.messages import Message

Spoken: TypeAlias = str | tuple[Message, ...]

INPUTS = ("input", "question", "query", "prompt", "user_input", "user_message", "message", "text", "content")
OUTPUTS = ("output", "answer", "response", "result", "completion", "output_text", "final_output", "text", "content")
_PAIR = 2


def read_spoken(value: JsonValue, at: str, names: Sequence[str]) -> Spoken | None:
    """Return a text or messages; None if it is not known where in the value they are.

    `names` are the keys that usually hold the text. Raises MessageError for a message that is not understood, and for
    several texts of which none is more likely than the others.
    """
    if isinstance(value, str):
        inner = decoded(value)
        return _in_text(inner, at, names) or value if inner is not None else value
    if isinstance(value, list | tuple):
        return _in_list(value, at, names)
    return _in_object(value, at, names) if isinstance(value, Mapping) else None


def _in_text(inner: JsonObject | list[JsonValue], at: str, names: Sequence[str]) -> Spoken | None:
    """Return what the JSON in a text says; None if the text may as well be an answer in JSON."""
    is_wrapped = isinstance(inner, Mapping) and len(inner) == 1 and next(iter(inner)) in names
    return read_spoken(inner, at, names) if is_wrapped or _is_dialogue(inner) else None


def _is_dialogue(value: JsonValue) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_dialogue, value))
    if not isinstance(value, Mapping):
        return False
    return _is_message(value) or any(isinstance(value.get(key), list) for key in ("messages", "choices", "generations"))


def _is_message(value: JsonValue) -> bool:
    if not isinstance(value, Mapping):
        return False
    return value.get("role") in ROLE_NAMES or fields_of(value) is not None or is_item(value)


def _in_list(value: Sequence[JsonValue], at: str, names: Sequence[str]) -> Spoken | None:
    if value and all(map(_is_message, value)):
        return read_messages(value, at)
    if value and all(map(_is_pair, value)):  # LangChain's short form: ["user", "Hello"]
        pairs = [item for item in value if isinstance(item, list | tuple)]
        return read_messages([{"role": _ROLES.get(str(role), role), "content": text} for role, text in pairs], at)
    if value and all(isinstance(item, Mapping) and item.get("type") == "text" for item in value):
        return (read_answer({"content": value}, at),)
    if len(value) == 1:
        return read_spoken(value[0], f"{at}[0]", names)
    return None


_ROLES = {"human": "user", "ai": "assistant"}


def _is_pair(value: JsonValue) -> bool:
    is_pair = isinstance(value, list | tuple) and len(value) == _PAIR and all(isinstance(item, str) for item in value)
    return is_pair and isinstance(value, list | tuple) and (value[0] in ROLE_NAMES or value[0] in TYPES)


def _in_object(value: JsonObject, at: str, names: Sequence[str]) -> Spoken | None:
    if _is_message(value):
        return (read_answer(value, at),)
    choices = value.get("choices")
    if isinstance(choices, list) and choices:
        return _in_choices(choices, f"{at}.choices", names)
    for key in ("messages", "generations", "message", "output", "data"):
        inner = value.get(key)
        if isinstance(inner, Mapping) or (isinstance(inner, list | tuple) and inner):
            said = read_spoken(inner, f"{at}.{key}", names)
            if said is not None:
                return said
    return _named_text(value, at, names)


def _in_choices(choices: Sequence[JsonValue], at: str, names: Sequence[str]) -> Spoken | None:
    if len(choices) > 1:
        raise MessageError(at, f"has {len(choices)} answers", f"choose one with --map response={at[2:]}[0].message")
    return read_spoken(choices[0], f"{at}[0]", names)


def _named_text(value: JsonObject, at: str, names: Sequence[str]) -> Spoken | None:
    """Return the text under the one key that usually holds it, or under the only key there is."""
    texts = {key: item for key, item in value.items() if isinstance(item, str)}
    if len(value) == 1:
        return next(iter(texts.values()), None)
    known = [key for key in names if key in texts]
    if len(known) > 1:
        keys = ", ".join(map(repr, known))
        raise MessageError(at, f"has several texts, {keys}", f"choose one with --map response={at[2:]}.{known[0]}")
    return texts[known[0]] if known else None
