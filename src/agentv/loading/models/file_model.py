"""The base class of models of files: strict types, no unknown keys, every spelling of a key accepted."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, cast, get_type_hints

from msgspec import Meta, Struct, field, structs

from agentv.types.json_value import JsonObject, JsonValue, camel_case, snake_case
from agentv.types.structs import StructField, struct_fields


class Names(Struct, frozen=True, eq=False):
    """The keys of one kind of object."""

    canonical: tuple[str, ...]
    """The keys as messages list them, in order."""
    spellings: Mapping[str, str]
    """The canonical key of every spelling."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Advice on keys that are often put here by mistake."""
    canonical_keys: frozenset[str] = frozenset()
    """The set of `canonical`."""

    def of(self, spelling: str) -> str | None:
        """Return the canonical name of a key in any spelling; None if it is unknown."""
        return self.spellings.get(spelling)

    def combined_with(self, other: "Names") -> "Names":
        """Return these names combined with others that are allowed in the same object."""
        spellings = {**other.spellings, **self.spellings}
        return Names((*self.canonical, *other.canonical), spellings, {**other.elsewhere, **self.elsewhere})

    def spelling_in(self, raw: JsonValue, name: str) -> str | None:
        """Return the spelling of `name` in an object, preferably the canonical one; None if it is absent."""
        if not isinstance(raw, Mapping):
            return None
        if name in raw:
            return name
        if raw.keys() <= self.canonical_keys:
            return None
        return next((key for key in raw if self.of(key) == name), None)


def make_names(
    canonical: Iterable[str], aliases: Mapping[str, str], elsewhere: Mapping[str, str] | None = None
) -> Names:
    """Return names with their camelCase spellings; `aliases` maps each alias to a name."""
    listed = tuple(canonical)
    spellings: dict[str, str] = {}
    for spelling, name in [*aliases.items(), *((name, name) for name in listed)]:
        spellings |= dict.fromkeys((snake_case(spelling), camel_case(spelling), spelling), name)
    spellings.update({name: name for name in listed})
    return Names(listed, spellings, elsewhere or {}, frozenset(listed))


class SpellingNotes(Struct):
    """Notes on one validation."""

    unknown: list[tuple[object, str, Names]] = field(default_factory=list)
    """The unknown keys, each with its object and the names that the object may have."""
    written: dict[str, set[str]] = field(default_factory=dict)
    """The spellings of known keys."""
    _joined: list[tuple[object, tuple[Mapping[str, JsonValue], ...]]] = field(default_factory=list)
    _nested: list[tuple[object, str]] = field(default_factory=list)

    def join(self, outer: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
        """Return an object with the entries of `key` merged into it, or unchanged if keys would clash."""
        inner = outer.get(key)
        if not isinstance(inner, Mapping) or inner.keys() & outer.keys():
            return outer
        joined = {**{name: value for name, value in outer.items() if name != key}, **inner}
        self._joined.append((joined, (inner, outer)))
        self._nested.append((outer, key))
        return joined

    def complete(self, raw: Mapping[str, JsonValue], derived: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return an object with the keys in `derived` that it does not have."""
        completed = {**derived, **raw}
        self._joined.append((completed, (raw,)))
        return completed

    def nested_key_of(self, outer: object) -> str | None:
        """Return the key of an object of the file whose entries `join` has merged into it; None if there is none."""
        return next((key for each, key in self._nested if each is outer), None)

    def owner_of(self, raw: object, key: str) -> object:
        """Return the object of the file that contains a key of `raw`, which `join` may have made of two objects."""
        parts = next((parts for joined, parts in self._joined if joined is raw), ())
        return next((part for part in parts if key in part), raw)

    def rename(self, raw: Mapping[str, JsonValue], names: Names) -> dict[str, JsonValue]:
        """Return an object with canonical keys. Unknown keys are recorded and dropped."""
        if isinstance(raw, dict) and raw.keys() <= names.canonical_keys:
            return raw  # the usual case
        renamed: dict[str, JsonValue] = {}
        for key, value in raw.items():
            name = names.of(key)
            if name is None:
                self.unknown.append((self.owner_of(raw, key), key, names))
            elif name == key or (name not in raw and name not in renamed):
                renamed[name] = value
                if name != key:
                    self.written.setdefault(name, set()).add(key)
        return renamed


DEPRECATED = Meta(extra={"deprecated": True})
"""Marks a field whose key is still read, but no longer listed in messages."""


class FileModel(Struct, frozen=True):
    """An object in a file. Subclasses are frozen Structs; their types define what is valid (see core_schema.py).

    A subclass may reject values in `__post_init__` by a ValueError with a plain message.
    """

    ALIASES: ClassVar[Mapping[str, str]] = {}
    """The field of each other spelling; camelCase spellings need no entry."""
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    """Advice on keys that are often put here by mistake."""

    @classmethod
    def names(cls) -> Names:
        """Return the keys that this object may have."""
        return _names_of(cast(type, cls))

    def given(self) -> JsonObject:
        """Return the fields that have a value, with models and lists in them as plain copies."""
        values = structs.asdict(self)
        return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(item) for name, item in structs.asdict(value).items()}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return type(value)(map(_plain, value)) if isinstance(value, tuple | list) else value


@cache
def _names_of(model: type) -> Names:
    own, kind = model.__annotations__, cast(type[FileModel], model)
    # The keys of a base class come last.
    fields = sorted(struct_fields(model), key=lambda each: each.name not in own)
    current = [key_of(each) for each in fields if "deprecated" not in each.extra]
    deprecated = [key_of(each) for each in fields if "deprecated" in each.extra]
    return make_names(current, {**kind.ALIASES, **{key: key for key in deprecated}}, kind.ELSEWHERE)


class Checked(Struct, frozen=True, eq=False):
    """A check of a value of the right type; it returns the value, or raises ValueError with a plain message."""

    check: Callable[[Any], object]


class DefinedAs(Struct, frozen=True):
    """A value that is read separately; in the JSON Schema of the file, its schema has this name under `$defs`."""

    name: str


class _HasJson:
    value: JsonValue


_JSON_VALUE = get_type_hints(_HasJson, localns={"JsonValue": Any})["value"]
"""The resolved type hint of JsonValue: any JSON."""


@cache
def names_of(kind: type[Any]) -> Names:
    """Return the keys of a model, or of a settings or value class with the aliases of its fields."""
    if issubclass(kind, FileModel):
        return kind.names()
    listed = file_fields(cast(type, kind))
    aliases = {alias: key_of(each) for each in listed for alias in each.extra.get("aliases", ())}
    return make_names([key_of(each) for each in listed], aliases, _advice(listed))


def _advice(fields: Iterable[StructField]) -> dict[str, str]:
    """Return the advice on keys that people bring from other tools, by each spelling of the key."""
    advice = {key: text for each in fields for key, text in each.extra.get("instead", {}).items()}
    return {spelling: text for key, text in advice.items() for spelling in (key, camel_case(key))}


@cache
def file_fields(kind: type) -> tuple[StructField, ...]:
    """Return the fields of a class that files have keys for: all but those that are declared as `not_in_files`."""
    return tuple(each for each in struct_fields(kind) if "not_in_files" not in each.extra)


def key_of(field: StructField) -> str:
    """Return the key of a field in files: its name, unless it declares a `file_key`."""
    key: str = field.extra.get("file_key", field.name)
    return key


def as_written(given: object, kind: type) -> object:
    """Return an object of a class as the file would have it, a dict by key; anything else unchanged."""
    if not isinstance(given, kind):
        return given
    return {key_of(each): getattr(given, each.name) for each in file_fields(kind)}


def is_shared(kind: type) -> bool:
    """Return True for a class with a definition of its own in JSON Schemas: a model, or a value class of agentv."""
    return issubclass(kind, FileModel) or kind.__module__.startswith(_VALUE_CLASSES)


_VALUE_CLASSES = "agentv.types."


def is_json(hint: object) -> bool:
    """Return True if a type is any JSON."""
    return bool(hint == _JSON_VALUE)


def has_members(field: StructField) -> bool:
    """Return True if a field holds evaluators, which loading.suites.evaluators reads, since it knows all types."""
    return bool(field.extra.get("evaluators"))


def with_canonical_keys(raw: object, notes: SpellingNotes, names: Names) -> object:
    """Return an object with canonical keys; anything else unchanged."""
    return notes.rename(cast(Mapping[str, JsonValue], raw), names) if isinstance(raw, Mapping) else raw


def lift_nested(raw: object, notes: SpellingNotes, key: str) -> object:
    """Return a list of objects, with the entries under `key` of each object moved up into it."""
    if not isinstance(raw, list | tuple):
        return raw
    return [notes.join(item, key) if isinstance(item, Mapping) else item for item in raw]


def number_items(raw: object, notes: SpellingNotes, prefix: str) -> object:
    """Return a list in which each object has an `id`: its own, or the prefix and its position from 1, as `rubric-2`."""
    if not isinstance(raw, list | tuple):
        return raw
    return [
        notes.complete(item, {"id": f"{prefix}-{number}"}) if isinstance(item, Mapping) and "id" not in item else item
        for number, item in enumerate(raw, start=1)
    ]


def canonical_value(raw: object, spellings: Mapping[str, str]) -> object:
    """Return the canonical value of a string with another spelling; anything else unchanged."""
    return spellings.get(raw, raw) if isinstance(raw, str) else raw


def make_instance(kind: type, names: Mapping[str, str], values: Mapping[str, object]) -> object:
    """Return an instance of a class from the values of its keys; `names` maps the keys to the names of fields."""
    return kind(**{names[key]: value for key, value in values.items()})
