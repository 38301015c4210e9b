"""The fields of a logged line, found but not yet read, with their place in the line."""

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from agentv.types.json_value import JsonObject, JsonValue

Form: TypeAlias = Literal["own", "recorded", "mapped"]
"""How a value is written: as our own key, as a tracing program records it (text may hold JSON), or by `--map`."""


class Found(Struct, frozen=True):
    """A value of a line and its place, as in `$.outputs`."""

    value: JsonValue
    at: str
    form: Form = "own"


class LogRecord(Struct, frozen=True):
    """One line, split into fields by its shape.

    `unread` are the keys that the shape does not know. `step` names the kind of a line that is a part of a longer
    trace, such as one tool call. `failure` is why there is no answer.
    """

    shape: str
    fields: Mapping[str, Found]
    unread: tuple[str, ...] = ()
    step: str | None = None
    failure: str | None = None
    notes: tuple[str, ...] = field(default=())


def found(value: JsonObject, paths: Mapping[str, str | tuple[str, ...]]) -> dict[str, Found]:
    """Return the fields whose paths lead to a value; of several paths the first that does."""
    fields = {}
    for name, given in paths.items():
        for path in (given,) if isinstance(given, str) else given:
            item = at_path(value, path)
            if item is not None and item != "":
                fields[name] = Found(item, f"$.{path}", "recorded")
                break
    return fields


_STEP = re.compile(r"[^.\[\]]+")


def at_path(value: JsonValue, path: str) -> JsonValue:
    """Return the value at a path such as `data.turns[-1].text`, None if there is none.

    A key may contain dots, and a text that holds JSON is parsed on the way.
    """
    return _at(value, _STEP.findall(path))


def _at(value: JsonValue, steps: list[str]) -> JsonValue:
    if not steps:
        return value
    if isinstance(value, str):
        value = decoded(value)
    if isinstance(value, Mapping):
        for length in range(len(steps), 0, -1):
            key = ".".join(steps[:length])
            if key in value and (inner := _at(value[key], steps[length:])) is not None:
                return inner
    elif isinstance(value, list | tuple) and re.fullmatch(r"-?\d+", steps[0]):
        place = int(steps[0])
        return _at(value[place], steps[1:]) if -len(value) <= place < len(value) else None
    return None


def decoded(text: str) -> JsonObject | list[JsonValue] | None:
    """Return the JSON object or list that a text holds; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def keys_of(value: JsonValue) -> str:
    """Return the keys of an object for a message."""
    return (", ".join(map(repr, value)) or "none") if isinstance(value, Mapping) else "none"
