"""Read a line with our own keys or their synonyms, and set fields of any line by `--map FIELD=PATH`."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from agentv.messages.logs.fields import Found, LogRecord, at_path
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.json_value import JsonObject, snake_case

_CALL_FACTS = ("model", "duration_ms", "usage", "cost_usd", "tags")
INPUT_KEYS = tuple(name for name in EvaluationInput.__struct_fields__ if name not in _CALL_FACTS)
"""The fields of EvaluationInput, except the facts about the call, which logs write in many forms."""

_FIELD_OF_KEY: Mapping[str, str] = {
    **{name: name for name in (*INPUT_KEYS, "messages", *_CALL_FACTS)},
    "ts": "timestamp",
    "created_at": "timestamp",
    "request_id": "id",
    "conversation_id": "session_id",
    "thread_id": "session_id",
    "latency_ms": "duration_ms",
    "cost": "cost_usd",
    "user_id": "metadata.user_id",
    "finish_reason": "metadata.finish_reason",
}
"""The field of each known key. Keys are in snake_case here; lines may write them in camelCase.

Keys with the value null are skipped. If several keys of a line set the same field, the key that is spelled like the
field wins, then its camelCase spelling, then the first key in the line. The others become metadata.
"""

KNOWN_KEYS: tuple[str, ...] = tuple(_FIELD_OF_KEY)


def read_own(value: JsonObject) -> LogRecord:
    """Return the fields of a line that has no other shape: its known keys are read, the others are `unread`."""
    keys_of_field: dict[str, list[str]] = {}
    unread = []
    for key, item in value.items():
        field = _FIELD_OF_KEY.get(snake_case(key))
        if field is None:
            unread.append(key)
        elif item is not None:
            keys_of_field.setdefault(field, []).append(key)
    fields: dict[str, Found] = {}
    for field, keys in keys_of_field.items():
        chosen = keys[0] if len(keys) == 1 else _preferred_key(field, keys)
        fields[field] = Found(value[chosen], f"$.{chosen}")
        for key in keys:
            if key != chosen:  # such as `request_id` in a line that has `id`: metadata, so that it is not lost
                name = key if snake_case(key) in value else snake_case(key)
                fields[f"metadata.{name}"] = Found(value[key], f"$.{key}")
    return LogRecord("own", fields, unread=tuple(unread))


def _preferred_key(field: str, keys: Sequence[str]) -> str:
    own_name = field.removeprefix("metadata.")
    return min(keys, key=lambda key: (snake_case(key) != own_name, key != own_name))


Extra: TypeAlias = Literal["metadata", "error"]
"""How to treat unknown keys of a line: store them as metadata, or report them as errors."""
LogMap: TypeAlias = Mapping[str, str]
"""The path of each mapped field in a line."""

MAP_FIELDS = (
    *("id", "prompt", "response", "messages", "context", "ground_truth", "session_id", "agent_id", "timestamp"),
    *("target", "model", "duration_ms", "usage", "cost_usd", "tags", "metadata", "metadata.NAME"),
)
"""The fields that `--map` can set; `metadata.NAME` stands for any key of the metadata."""

_RENAMED_FIELDS = {"latency_ms": "duration_ms"}
_TOP_KEY = re.compile(r"[^.\[]+")


def reads_content(paths: LogMap) -> bool:
    """Return True if `--map` names a place of what was said; each line is then read by itself."""
    return not paths.keys().isdisjoint(("prompt", "response", "messages"))


def parse_map(given: Sequence[str], option: str = "--map") -> LogMap:
    """Parse texts `FIELD=PATH`; `option` names the option in messages.

    Raises ConfigError for a text without `=` or a path, and for an unknown or repeated field.
    """
    paths: dict[str, str] = {}
    for text in given:
        name, _, path = (part.strip() for part in text.partition("="))
        if not path:
            raise ConfigError(f"{option} {text!r}: write FIELD=PATH, such as response=data.answer")
        name = _RENAMED_FIELDS.get(name, name)
        check_field(name, option)
        if name in paths:
            raise ConfigError(f"{option} {name} is given twice: {paths[name]} and {path}")
        paths[name] = path.removeprefix("$.")
    return paths


def check_field(name: str, option: str) -> None:
    """Raise ConfigError for an unknown field; `option` names the option in the message."""
    if name not in MAP_FIELDS and not name.startswith("metadata."):
        raise ConfigError(f"{option}: {UnknownNameError('field', name, known=MAP_FIELDS)}")


def with_mapped_fields(record: LogRecord, value: JsonObject, paths: LogMap) -> LogRecord:
    """Return the record of the line `value` with the fields at `paths` instead of those that its shape has.

    A mapped field is absent if its path leads to no value. A line with a mapped answer is not a step of a trace.
    """
    if not paths:
        return record
    fields = dict(record.fields)
    for name, path in paths.items():
        fields.pop(name, None)
        if (item := at_path(value, path)) is not None:
            fields[name] = Found(item, f"$.{path}", "mapped")
    used = {key for path in paths.values() for key in _first_keys(value, path)}
    has_mapped_answer = "response" in paths or "messages" in paths
    return replace(
        record,
        fields=fields,
        unread=tuple(key for key in record.unread if key not in used),
        step=None if has_mapped_answer else record.step,
    )


def _first_keys(value: JsonObject, path: str) -> list[str]:
    """Return the keys of a line that a path may start with; a key may contain dots."""
    first = _TOP_KEY.match(path)
    return [key for key in value if key == path or path.startswith(f"{key}.") or (first and key == first[0])]
