"""The base of everything that people write in files: strict, nothing unknown, every spelling accepted."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, cast, get_type_hints

from msgspec import Meta, Struct, field, structs

from agentv.types.json_value import JsonObject, JsonValue, camel_case, snake_case
from agentv.types.struct_fields import StructField, names_of_fields, struct_fields


class Names(Struct, frozen=True, eq=False):
    """The keys of one kind of object: `canonical` in the order people are told them, and every other spelling.

    `elsewhere` says of keys that are often put here where they belong. `ours` are the canonical ones, to look up.
    """

    canonical: tuple[str, ...]
    spellings: Mapping[str, str]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()

    def of(self, written: str) -> str | None:
        """Return the name that a written key stands for; None when it stands for nothing."""
        return self.spellings.get(written)

    def beside(self, other: "Names") -> "Names":
        """Return these names and those that may stand in the same object."""
        spellings = {**other.spellings, **self.spellings}
        return Names((*self.canonical, *other.canonical), spellings, {**other.elsewhere, **self.elsewhere})

    def written(self, raw: JsonValue, name: str) -> str | None:
        """Return how `name` is spelled in an object; our own spelling wins; None when it is not there."""
        if not isinstance(raw, Mapping):
            return None
        if name in raw:
            return name
        if raw.keys() <= self.ours:
            return None
        return next((key for key in raw if self.of(key) == name), None)


def make_names(
    canonical: Iterable[str], aliases: Mapping[str, str], elsewhere: Mapping[str, str] | None = None
) -> Names:
    """Return the names with their camelCase twins; `aliases` maps an alias to the name it stands for."""
    listed = tuple(canonical)
    spellings: dict[str, str] = {}
    for written, name in [*aliases.items(), *((name, name) for name in listed)]:
        spellings |= dict.fromkeys((snake_case(written), camel_case(written), written), name)
    spellings.update({name: name for name in listed})
    return Names(listed, spellings, elsewhere or {}, frozenset(listed))


class SpellingNotes(Struct):
    """What was seen while one value was validated: keys that nobody knows, and how known ones were written."""

    unknown: list[tuple[object, str, Names]] = field(default_factory=list)
    written: dict[str, set[str]] = field(default_factory=dict)
    _joined: list[tuple[object, tuple[Mapping[str, JsonValue], ...]]] = field(default_factory=list)

    def join(self, outer: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
        """Return an object with what stands under `key` beside its other keys; as it is when they would clash."""
        inner = outer.get(key)
        if not isinstance(inner, Mapping) or inner.keys() & outer.keys():
            return outer
        joined = {**{name: value for name, value in outer.items() if name != key}, **inner}
        self._joined.append((joined, (inner, outer)))
        return joined

    def owner_of(self, made: object, key: str) -> object:
        """Return the object of the file in which a key stands that was seen in one made by `join`."""
        parts = next((parts for joined, parts in self._joined if joined is made), ())
        return next((part for part in parts if key in part), made)

    def rename(self, raw: Mapping[str, JsonValue], names: Names) -> dict[str, JsonValue]:
        """Return an object with our names for its keys. Unknown keys are left out and noted."""
        if isinstance(raw, dict) and raw.keys() <= names.ours:
            return raw  # as nearly all are
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
"""Marks a field whose key is still read, but no longer named to people."""


class FileModel(Struct, frozen=True):
    """An object in a file. Subclasses are frozen Structs whose types say what may stand there (shapes.py).

    `ALIASES` maps other spellings to field names; camelCase twins need no entry. `ELSEWHERE` tells of keys that are
    often put here where they belong. `KEYS` has the key of a field where that is no Python name. A subclass may refuse
    values in `__post_init__` by a ValueError with a plain sentence, and ends with a method that makes what the object
    stands for.
    """

    ALIASES: ClassVar[Mapping[str, str]] = {}
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    KEYS: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def names(cls) -> Names:
        """Return the keys that this object may have."""
        return _names_of(cast(type, cls))

    def given(self) -> JsonObject:
        """Return the fields that have a value, models and lists in them as plain values of their own."""
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
    # A base class's keys come last.
    listed = sorted(struct_fields(model), key=lambda each: each.name not in own)
    keys = {kind.KEYS.get(each.name, each.name): "deprecated" in each.extra for each in listed}
    current = [key for key, is_deprecated in keys.items() if not is_deprecated]
    return make_names(current, {**kind.ALIASES, **{key: key for key in keys if keys[key]}}, kind.ELSEWHERE)


class Limits(Struct, frozen=True):
    """Bounds of a number, or of the length of a text or list; None is no bound."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    min_length: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the bounds that there are, by name."""
        named = {"ge": self.ge, "gt": self.gt, "le": self.le, "min_length": self.min_length}
        return {name: bound for name, bound in named.items() if bound is not None}


class Checked(Struct, frozen=True, eq=False):
    """A check of a value that has the right type; it returns the value, or raises ValueError with a plain sentence."""

    check: Callable[[Any], object]


class DefinedAs(Struct, frozen=True):
    """A value that is read apart; its schema stands under `$defs` with that name, once the whole is put together."""

    name: str


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
