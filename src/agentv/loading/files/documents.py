"""The parsed content of a file: plain values, and the position of each of them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias, cast

from msgspec import Struct, field

from agentv.types.json_value import JsonValue

Key: TypeAlias = str | int
JsonPath: TypeAlias = tuple[Key, ...]


class Mark(NamedTuple):
    """A position in a text; both count from 1, and 0 means unknown."""

    line: int
    column: int


class Spot(NamedTuple):
    """The positions of an entry's key and value. For an item of a list, both are the position of the item."""

    key: Mark
    value: Mark


NOWHERE = Mark(0, 0)

Marks: TypeAlias = Mapping[int, Mapping[Key, Spot]]
"""The positions of the entries of each object and list, by identity."""


class Document(Struct, frozen=True):
    """The content of one file. Positions are known for all entries, or for none."""

    path: str
    """Its name in messages."""
    value: JsonValue
    start: Mark = NOWHERE
    marks: Marks = field(default_factory=dict)

    def at(self, path: JsonPath) -> JsonValue:
        """Return the value at a path; None if there is none."""
        value = self.value
        for key in path:
            value = child(value, key)
        return value

    def mark(self, path: JsonPath, *, on_key: bool = False) -> Mark:
        """Return the position of the value at `path`, or of its key; if unknown, that of the nearest outer value."""
        value, place = self.value, self.start
        for index, key in enumerate(path):
            spot = self.marks.get(id(value), {}).get(key)
            if spot is None:
                return place
            place = spot.key if on_key and index == len(path) - 1 else spot.value
            value = child(value, key)
        return place

    def lift(self, at: JsonPath, key: Key) -> tuple[Key, ...]:
        """Move the entries of the object under `key` into the object at `at`, which contains it.

        Entries that exist there already are not overwritten; their keys are returned.
        """
        outer, inner = self.at(at), self.at((*at, key))
        if not isinstance(outer, dict) or not isinstance(inner, dict):
            return ()
        del outer[key]
        duplicates = tuple(name for name in inner if name in outer)
        outer.update({name: value for name, value in inner.items() if name not in outer})
        places, inner_places = self.marks.get(id(outer)), self.marks.get(id(inner))
        if isinstance(places, dict) and inner_places is not None:
            places.update({name: spot for name, spot in inner_places.items() if name not in duplicates})
        return duplicates


def child(value: object, key: Key) -> JsonValue:
    """Return one entry of an object or list; None if there is none. From Python, an object may be a value class."""
    if isinstance(value, dict):  # the usual type; isinstance with Mapping is much slower
        return value.get(key) if isinstance(key, str) else None
    if isinstance(key, int):
        return value[key] if isinstance(value, list | tuple) and key < len(value) else None
    if isinstance(value, Struct):
        return cast(JsonValue, getattr(value, key, None))
    return value.get(key) if isinstance(value, Mapping) else None


def has_child(value: object, key: Key) -> bool:
    """Return True if an object or list has that entry."""
    if isinstance(key, int):
        return isinstance(value, list | tuple) and key < len(value)
    if isinstance(value, Struct):
        return key in value.__struct_fields__
    return isinstance(value, Mapping) and key in value


def is_deeper(value: JsonValue, levels: int) -> bool:
    """Return True if objects and lists in a value are nested more than `levels` deep."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels <= 0 or any(is_deeper(item, levels - 1) for item in inner)


def shown_path(path: JsonPath) -> str:
    """Return a path as text: `$.evalcases[0].id`."""
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def find_container(value: JsonValue, container: object) -> JsonPath | None:
    """Return the path to an object or list inside a value, found by identity."""
    return next((path for path, inner in containers(value) if inner is container), None)


def containers(value: JsonValue, path: JsonPath = ()) -> Iterator[tuple[JsonPath, JsonValue]]:
    """Yield every object and list inside a value with its path, the outermost first."""
    if isinstance(value, Mapping):
        yield path, value
        for name, inner in value.items():
            yield from containers(inner, (*path, name))
    elif isinstance(value, list | tuple):
        yield path, value
        for index, inner in enumerate(value):
            yield from containers(inner, (*path, index))
