"""What dataclasses say of the values that they are read from: keys, types, and how others write them."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, cast, get_type_hints

from agentv.loading.file_model import FileModel
from agentv.loading.spellings import Names, SpellingNotes, make_names
from agentv.types.json_value import JsonValue


class _HasJson:
    value: JsonValue


_JSON_VALUE = get_type_hints(_HasJson, localns={"JsonValue": Any})["value"]
"""What JsonValue becomes when hints are read: JSON of any shape."""


@cache
def names_of(kind: type) -> Names:
    """Return the keys of a model, or of a settings dataclass with the aliases in its fields' metadata."""
    if issubclass(kind, FileModel):
        return kind.names()
    listed = dataclasses.fields(cast(Any, kind))
    aliases = {alias: each.name for each in listed for alias in each.metadata.get("aliases", ())}
    return make_names([each.name for each in listed], aliases)


def hints_of(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass' fields, with what they say beside."""
    return get_type_hints(kind, localns={"JsonValue": Any}, include_extras=True)


def key_of(kind: type, field: "dataclasses.Field[object]") -> str:
    """Return how a field's key is written."""
    return kind.KEYS.get(field.name, field.name) if issubclass(kind, FileModel) else field.name


def is_required(field: "dataclasses.Field[object]") -> bool:
    """Whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def is_json(hint: object) -> bool:
    """Whether a type is JSON of any shape."""
    return bool(hint == _JSON_VALUE)


def has_members(field: "dataclasses.Field[object]") -> bool:
    """Whether a field holds evaluators: loading.evaluator_configs reads them, which knows every type."""
    return bool(field.metadata.get("evaluators"))


def spell(raw: object, notes: SpellingNotes, names: Names) -> object:
    """Return an object with our names for its keys; anything else as it is."""
    return notes.rename(cast(Mapping[str, JsonValue], raw), names) if isinstance(raw, Mapping) else raw


def flatten(raw: object, notes: SpellingNotes, key: str) -> object:
    """Return a list with the entries under `key` of each object beside its other keys, as some write them."""
    if not isinstance(raw, list | tuple):
        return raw
    return [notes.join(item, key) if isinstance(item, Mapping) else item for item in raw]


def translate(raw: object, spellings: Mapping[str, str]) -> object:
    """Return our word for a text that others spell otherwise; anything else as it is."""
    return spellings.get(raw, raw) if isinstance(raw, str) else raw


def make(kind: type, values: Mapping[str, object]) -> object:
    """Return the instance of a dataclass whose keys have these values."""
    listed = dataclasses.fields(cast(Any, kind))
    return kind(**{each.name: values[key] for each in listed if (key := key_of(kind, each)) in values})
