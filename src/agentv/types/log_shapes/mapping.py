"""`--map field=path`: where the fields of a log are that has keys of its own."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.json_value import JsonObject
from agentv.types.log_shapes.fields import Found, LogRecord, at_path

Extra: TypeAlias = Literal["metadata", "error"]
LogMap: TypeAlias = Mapping[str, str]
"""The paths of fields."""

MAP_FIELDS = (
    *("id", "prompt", "response", "messages", "context", "ground_truth", "session_id", "agent_id", "timestamp"),
    *("target", "model", "duration_ms", "usage", "cost_usd", "tags", "metadata", "metadata.NAME"),
)
_OLDER = {"latency_ms": "duration_ms"}
_TOP_KEY = re.compile(r"[^.\[]+")


def parse_map(given: Sequence[str], option: str = "--map") -> LogMap:
    """Return the paths of `field=path` texts. Raises ConfigError for an unknown or repeated field or an empty path."""
    paths: dict[str, str] = {}
    for text in given:
        name, sign, path = (part.strip() for part in text.partition("="))
        if not sign or not path:
            raise ConfigError(f"{option} {text!r}: write FIELD=PATH, such as response=data.answer")
        name = _OLDER.get(name, name)
        check_field(name, option)
        if name in paths:
            raise ConfigError(f"{option} {name} is given twice: {paths[name]} and {path}")
        paths[name] = path.removeprefix("$.")
    return paths


def check_field(name: str, option: str) -> None:
    """Raise ConfigError for a field that a log does not have."""
    if name not in MAP_FIELDS and not name.startswith("metadata."):
        raise ConfigError(f"{option}: {UnknownNameError('field', name, known=MAP_FIELDS)}")


def mapped(record: LogRecord, value: JsonObject, paths: LogMap) -> LogRecord:
    """Return a record with the fields that are mapped; a mapped answer is judged although its line is only a step."""
    if not paths:
        return record
    fields = dict(record.fields)
    for name, path in paths.items():
        fields.pop(name, None)
        if (item := at_path(value, path)) is not None:
            fields[name] = Found(item, f"$.{path}", "mapped")
    used = {key for path in paths.values() for key in _first_keys(value, path)}
    is_chosen = "response" in paths or "messages" in paths
    return replace(
        record,
        fields=fields,
        unread=tuple(key for key in record.unread if key not in used),
        step=None if is_chosen else record.step,
    )


def _first_keys(value: JsonObject, path: str) -> list[str]:
    """Return the keys of a line that a path may start with; one with dots may be the whole path."""
    first = _TOP_KEY.match(path)
    return [key for key in value if key == path or path.startswith(f"{key}.") or (first and key == first[0])]
