"""The values in a logged line, located but not yet parsed, and times as logs write them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from agentv.types.evaluation_input import moment_of
from agentv.types.json_value import JsonObject, JsonValue, listed_keys

Form: TypeAlias = Literal["own", "recorded", "mapped"]
"""The origin of a value: our own key, a tracing program (its texts may hold JSON), or a path of `--map`."""

_NUMBER = re.compile(r"\d+(\.\d+)?")
_EARLIEST_S = 10**8  # 1973: an earlier number is more likely a duration or a counter
_TIME_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""Seconds, milliseconds, microseconds and nanoseconds since 1970 are distinguished by size: the exclusive upper bound
of each, and the number of such units in a second."""


class Found(Struct, frozen=True):
    """A value of a line and its place, as in `$.outputs`."""

    value: JsonValue
    at: str
    form: Form = "own"


class LogRecord(Struct, frozen=True):
    """One line, split into fields by its shape."""

    shape: str
    fields: Mapping[str, Found]
    unread: tuple[str, ...] = ()
    """The keys that the shape does not know."""
    step: str | None = None
    """The kind of a line that is a part of a longer trace, such as one tool call."""
    failure: str | None = None
    """The reason why there is no answer."""
    notes: tuple[str, ...] = field(default=())


def find_fields(value: JsonObject, paths: Mapping[str, str | tuple[str, ...]]) -> dict[str, Found]:
    """Return the fields whose paths lead to a value; the first of several paths wins."""
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

    A key may contain dots. A path may lead into a text that holds JSON.
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
    """Return the keys of an object as text for a message."""
    return listed_keys(value) if isinstance(value, Mapping) else "none"


def logged_moment(value: JsonValue) -> datetime:
    """Return a logged time; without a time zone it is UTC. Raises ValueError."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        try:
            return moment_of(value)
        except ValueError:
            raise ValueError(_EXPECTED_TIME) from None
    if not _EARLIEST_S <= value < _TIME_UNITS[-1][0]:
        raise ValueError(f"{value} is too {'small' if value < _EARLIEST_S else 'large'} for a time; {_EXPECTED_TIME}")
    per_second = next(per for bound, per in _TIME_UNITS if value < bound)
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=value / per_second)


_EXPECTED_TIME = "must be a time such as 2026-01-31T12:00:00Z, or seconds or milliseconds since 1970"


def milliseconds_between(start: JsonValue, end: JsonValue) -> float | None:
    """Return the milliseconds from one logged time to another; None if one of them is not a time."""
    try:
        return round((logged_moment(end) - logged_moment(start)).total_seconds() * 1000, 3)
    except ValueError:
        return None
