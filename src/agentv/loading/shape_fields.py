"""What Structs say of the values that they are read from: keys, types, and how others write them."""

from collections.abc import Mapping
from functools import cache
from typing import Any, cast, get_type_hints

from agentv.loading.file_model import FileModel
from agentv.loading.spellings import Names, SpellingNotes, make_names
from agentv.types.json_value import JsonValue
from agentv.types.struct_fields import StructField, names_of_fields, struct_fields


class _HasJson:
    value: JsonValue


_JSON_VALUE = get_type_hints(_HasJson, localns={"JsonValue": Any})["value"]
"""What JsonValue becomes when hints are read: JSON of any shape."""


@cache
def names_of(kind: type[Any]) -> Names:
    """Return the keys of a model, or of settings with the aliases that their fields declare."""
    if issubclass(kind, FileModel):
        return kind.names()
    listed = struct_fields(cast(type, kind))
    aliases = {alias: each.name for each in listed for alias in each.extra.get("aliases", ())}
    return make_names([each.name for each in listed], aliases)


def key_of(kind: type, name: str) -> str:
    """Return how a field's key is written."""
    return kind.KEYS.get(name, name) if issubclass(kind, FileModel) else name


def is_json(hint: object) -> bool:
    """Whether a type is JSON of any shape."""
    return bool(hint == _JSON_VALUE)


def has_members(field: StructField) -> bool:
    """Whether a field holds evaluators: loading.evaluator_configs reads them, which knows every type."""
    return bool(field.extra.get("evaluators"))


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
    """Return the instance of a class whose keys have these values."""
    return kind(**{name: values[key] for name in names_of_fields(kind) if (key := key_of(kind, name)) in values})
