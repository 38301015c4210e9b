"""A file as read: plain values, and where each of them stands."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from agentv.types.json_value import JsonValue

Key: TypeAlias = str | int
JsonPath: TypeAlias = tuple[Key, ...]


class Mark(NamedTuple):
    """A place in a text; both count from 1, and 0 stands for a place that is not known."""

    line: int
    column: int


class Spot(NamedTuple):
    """Where an entry of an object or list stands. The key of a list item is the item itself."""

    key: Mark
    value: Mark


NOWHERE = Mark(0, 0)

Marks: TypeAlias = Mapping[int, Mapping[Key, Spot]]
"""For each object and list, by identity, where its entries stand."""


class Document(Struct, frozen=True):
    """One file's content. `path` is how messages call the file. Positions are known for every entry, or for none."""

    path: str
    value: JsonValue
    start: Mark = NOWHERE
    marks: Marks = field(default_factory=dict)

    def at(self, path: JsonPath) -> JsonValue:
        """Return the value at a path; None when there is nothing."""
        value = self.value
        for key in path:
            value = child(value, key)
        return value

    def mark(self, path: JsonPath, *, on_key: bool = False) -> Mark:
        """Return where the value at `path` (or its key) stands, or the nearest thing around it whose place is known."""
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

        Entries that stand there already stay as they are; their keys are returned.
        """
        outer, inner = self.at(at), self.at((*at, key))
        if not isinstance(outer, dict) or not isinstance(inner, dict):
            return ()
        del outer[key]
        twice = tuple(name for name in inner if name in outer)
        outer.update({name: value for name, value in inner.items() if name not in outer})
        places, inner_places = self.marks.get(id(outer)), self.marks.get(id(inner))
        if isinstance(places, dict) and inner_places is not None:
            places.update({name: spot for name, spot in inner_places.items() if name not in twice})
        return twice


def child(value: JsonValue, key: Key) -> JsonValue:
    """Return one entry of an object or list; None when there is none."""
    if isinstance(value, dict):  # what files hold, told at once; asking for a Mapping takes ten times as long
        return value.get(key) if isinstance(key, str) else None
    if isinstance(key, int):
        return value[key] if isinstance(value, list | tuple) and key < len(value) else None
    return value.get(key) if isinstance(value, Mapping) else None


def has_child(value: JsonValue, key: Key) -> bool:
    """Whether an object or list has that entry."""
    if isinstance(key, int):
        return isinstance(value, list | tuple) and key < len(value)
    return isinstance(value, Mapping) and key in value


def is_deeper(value: JsonValue, levels: int) -> bool:
    """Whether objects and lists are nested more than `levels` deep in a value."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels <= 0 or any(is_deeper(item, levels - 1) for item in inner)


def shown_path(path: JsonPath) -> str:
    """Return a path as people write it: `$.evalcases[0].id`."""
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def find_container(value: JsonValue, wanted: object) -> JsonPath | None:
    """Return the path to an object or list inside a value, found by identity."""
    return next((path for path, inner in containers(value) if inner is wanted), None)


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
