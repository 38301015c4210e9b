"""Keys as people spell them: aliases and camelCase twins → our snake_case names; what is no name at all is noted."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from agentv.types.json_value import JsonValue
from agentv.types.wire_names import camel_case, snake_case


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
