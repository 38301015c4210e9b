"""Notes: fields that only people read, such as a remark on a setting, and that are therefore not part of any key.

A field is one if its description says so: `Annotated[str | None, Meta(extra={"in_key": False})]`, or
`field(metadata={"in_key": False})` in a dataclass. It may be in the settings of an evaluator, or in an object within
them, such as a rubric item. It is stored and shown like any other field, and a change of it repeats nothing.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, get_args

from agentv.types.json_value import JsonValue, camel_case
from agentv.types.structs import StructField, has_fields, struct_fields

SettingsClass: TypeAlias = Callable[[str], type | None]
"""Returns the settings class of a type of evaluators; None if it is not known."""


def without_notes(value: JsonValue, hint: Any) -> JsonValue:
    """Return JSON of a type, as written in a file, without the notes in it.

    `hint` is the type: that of an object, or of a list, union or mapping of objects. JSON without notes is unchanged.
    """
    if not _has_note_within(hint):
        return value
    fields = _fields_in(hint)
    if isinstance(value, list | tuple):
        return [without_notes(item, hint) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: item if (field := fields.get(key)) is None else without_notes(item, field.type)
        for key, item in value.items()
        if key not in fields or not _is_note(fields[key])
    }


def _is_note(field: StructField) -> bool:
    return field.extra.get("in_key") is False


@cache
def _has_note_within(hint: Any) -> bool:
    return any(map(_has_note, _fields_in(hint).values()))


def _has_note(field: StructField) -> bool:
    """Return True if a field is a note or may contain one."""
    return _is_note(field) or _has_note_within(field.type)


@cache
def _fields_in(hint: Any) -> Mapping[str, StructField]:
    """Return the fields of the objects in a type by every spelling of their keys."""
    found: dict[str, StructField] = {}
    for kind in _classes_in(hint):
        for field in struct_fields(kind):
            for name in (field.name, *field.extra.get("aliases", ())):
                found |= {name: field, camel_case(name): field}
    return found


def _classes_in(hint: Any) -> tuple[type, ...]:
    """Return the classes with fields that a type consists of, without those of their fields."""
    if isinstance(hint, type) and not get_args(hint):
        return (hint,) if has_fields(hint) else ()
    return tuple(kind for part in get_args(hint) for kind in _classes_in(part))
