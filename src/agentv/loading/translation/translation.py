"""Translation of a document: a copy edited into our keys, with the positions of the original, and its notes."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.loading.files.documents import Document, JsonPath, Key, Marks, Spot, shown_path
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

Effect: TypeAlias = Literal["ignored", "dropped", "refused"]
"""The effect on a value: `ignored`, since it has no meaning in agentv; `dropped` with a warning, since agentv lacks the
feature that the value configures, or has a different form of it; `refused` with an error."""


class Note(Struct, frozen=True):
    """The effect of a translation on a value without a counterpart."""

    effect: Effect
    problem: Problem
    """Has the message and the position."""


class Translation:
    """A copy of a document that is edited into our keys; the original is not changed.

    Every value has a position in the original file; a new value has that of the key that it is made from.
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
        """Return a copy of a value. Values shared by YAML aliases stay shared, so that a small file stays small."""
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
        """Return the object at a path, an empty one if there is none. Do not change it directly."""
        value = self.document.at(at)
        return value if isinstance(value, dict) else {}

    def rename(self, at: JsonPath, old: str, new: str) -> None:
        """Rename a key of the object at `at`, if it has the key `old` and not yet the key `new`."""
        entries = self.entries(at)
        if old in entries and new not in entries:
            self.put(at, new, entries[old], like=old)
            del entries[old]

    def put(self, at: JsonPath, key: str, value: JsonValue, *, like: str) -> None:
        """Set a key of the object at `at`, which must exist.

        The new value has the position of the key `like`; without such a key, that of the object.
        """
        entries = self.entries(at)
        outer = self.document.mark(at)
        spot = self._marks[id(entries)].get(like, Spot(outer, outer))
        self._removed.append(entries.get(key))
        entries[key] = value
        self._marks[id(entries)][key] = spot
        self._mark_new_value(value, spot)

    def _mark_new_value(self, value: JsonValue, spot: Spot) -> None:
        if not isinstance(value, dict | list) or id(value) in self._marks:
            return
        inner: list[tuple[Key, JsonValue]] = list(value.items() if isinstance(value, dict) else enumerate(value))
        self._marks[id(value)] = {key: spot for key, _ in inner}
        for _, item in inner:
            self._mark_new_value(item, spot)

    def remove(self, at: JsonPath, *keys: str) -> None:
        """Remove those of `keys` that the object at `at` has."""
        for key in keys:
            self._removed.append(self.entries(at).pop(key, None))

    def ignore(self, at: JsonPath, *keys: str) -> None:
        """Remove those of `keys` that the object at `at` has, with a note that they have no meaning here."""
        for key in keys:
            if key in self.entries(at):
                self._note("ignored", (*at, key), f"{key!r} has no meaning here", None)
                self.remove(at, key)

    def drop(self, at: JsonPath, message: str, allowed: str | None = None) -> None:
        """Remove a value that has an effect in AgentV but not here, with a warning. `allowed` says what to do.

        An item of a list is not removed.
        """
        self.warn(at, message, allowed)
        if isinstance(at[-1], str):
            self.remove(at[:-1], at[-1])

    def drop_any(self, at: JsonPath, messages: Mapping[str, str]) -> None:
        """Drop the keys of `messages` that the object at `at` has, each with its message."""
        for key, message in messages.items():
            if key in self.entries(at):
                self.drop((*at, key), message)

    def warn(self, at: JsonPath, message: str, allowed: str | None = None) -> None:
        """Add a warning about the value at a path."""
        self._note("dropped", at, message, allowed)

    def refuse(self, at: JsonPath, message: str, allowed: str | None = None) -> None:
        """Add an error about the value at a path, which agentv cannot run."""
        self._note("refused", at, message, allowed)

    def _note(self, effect: Effect, at: JsonPath, message: str, allowed: str | None) -> None:
        # An error is placed on the value, so that a later check of it adds no second error there (see Reader.error).
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
        """Yield the warnings and errors of the notes, without the notes on ignored values."""
        return (note.problem for note in self.notes if note.effect != "ignored")
