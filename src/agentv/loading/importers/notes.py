"""A translation of one document: an edited copy with the positions of the original, and notes on what was lost."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.loading.files.documents import Document, JsonPath, Key, Marks, Spot, shown_path
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

Effect: TypeAlias = Literal["ignored", "lost", "refused"]
"""What became of a value: nothing is missed without it; its effect is missed, a warning; it cannot run, an error."""


class Note(Struct, frozen=True):
    """What a translation did with one value that has no counterpart; `problem` has its message and position."""

    effect: Effect
    problem: Problem


class Translation:
    """A copy of a document that is edited into our keys; the original is not changed.

    Every value keeps its position in the file. A new value gets the position of the one that it replaces.
    """

    def __init__(self, document: Document) -> None:
        self.notes: list[Note] = []
        self._marks: dict[int, dict[Key, Spot]] = {}
        self._copies: dict[int, JsonValue] = {}
        self._removed: list[JsonValue] = []  # still referenced, so that no new object gets the id of an old one
        self.document = Document(
            document.path, self._copied(document.value, document.marks), document.start, self._marks
        )

    def _copied(self, value: JsonValue, marks: Marks) -> JsonValue:
        """Return a copy of a value. What aliases of YAML share stays shared, so that a small file stays small."""
        if not isinstance(value, Mapping | list | tuple):
            return value
        if id(value) not in self._copies:
            copy: dict[str, JsonValue] | list[JsonValue]
            if isinstance(value, Mapping):
                copy = {key: self._copied(item, marks) for key, item in value.items()}
            else:
                copy = [self._copied(item, marks) for item in value]
            self._marks[id(copy)] = dict(marks.get(id(value), {}))
            self._copies[id(value)] = copy
        return self._copies[id(value)]

    def entries(self, at: JsonPath) -> dict[str, JsonValue]:
        """Return the object at a path, not to be changed directly; an empty one if there is none."""
        value = self.document.at(at)
        return value if isinstance(value, dict) else {}

    def rename(self, at: JsonPath, old: str, new: str) -> None:
        """Rename a key of the object at `at`, unless it has no such key, or the new one as well."""
        entries = self.entries(at)
        if old in entries and new not in entries:
            self.put(at, new, entries[old], like=old)
            del entries[old]

    def put(self, at: JsonPath, key: str, value: JsonValue, *, like: str) -> None:
        """Set a key of the object at `at`; what is new in its value gets the position of the key `like`."""
        entries = self.entries(at)
        nearest = self.document.mark(at)
        spot = self._marks[id(entries)].get(like, Spot(nearest, nearest))
        self._removed.append(entries.get(key))
        entries[key] = value
        self._marks[id(entries)][key] = spot
        self._place(value, spot)

    def _place(self, value: JsonValue, spot: Spot) -> None:
        if not isinstance(value, dict | list) or id(value) in self._marks:
            return
        inner: list[tuple[Key, JsonValue]] = list(value.items() if isinstance(value, dict) else enumerate(value))
        self._marks[id(value)] = {key: spot for key, _ in inner}
        for _, item in inner:
            self._place(item, spot)

    def remove(self, at: JsonPath, *keys: str) -> None:
        """Remove keys of the object at `at`, as far as it has them."""
        for key in keys:
            self._removed.append(self.entries(at).pop(key, None))

    def ignore(self, at: JsonPath, *keys: str) -> None:
        """Remove keys of the object at `at` that have no meaning here, with a note for each."""
        for key in keys:
            if key in self.entries(at):
                self._note("ignored", (*at, key), f"{key!r} has no meaning here", None)
                self.remove(at, key)

    def lose(self, at: JsonPath, message: str, allowed: str | None = None) -> None:
        """Remove the value at a path, whose effect is missed, with a warning. `allowed` is what to do instead."""
        self.warn(at, message, allowed)
        if isinstance(at[-1], str):
            self.remove(at[:-1], at[-1])

    def lose_any(self, at: JsonPath, messages: Mapping[str, str]) -> None:
        """Lose those of some keys that the object at `at` has, each with its message."""
        for key, message in messages.items():
            if key in self.entries(at):
                self.lose((*at, key), message)

    def warn(self, at: JsonPath, message: str, allowed: str | None = None) -> None:
        """Add a warning about the value at a path."""
        self._note("lost", at, message, allowed)

    def refuse(self, at: JsonPath, message: str, allowed: str | None = None) -> None:
        """Add an error about the value at a path, which cannot run here."""
        self._note("refused", at, message, allowed)

    def _note(self, effect: Effect, at: JsonPath, message: str, allowed: str | None) -> None:
        # An error is placed where a check of the value would report it again.
        place = self.document.mark(at, on_key=effect != "refused")
        self.notes.append(
            Note(
                effect,
                Problem(
                    self.document.path,
                    message,
                    line=place.line,
                    column=place.column,
                    json_path=shown_path(at),
                    allowed=allowed,
                    severity="error" if effect == "refused" else "warning",
                ),
            )
        )

    def problems(self) -> Iterator[Problem]:
        """Yield the warnings and errors of the notes; ignored values have none."""
        return (note.problem for note in self.notes if note.effect != "ignored")
