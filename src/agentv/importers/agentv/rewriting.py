"""New documents with the positions of the values of AgentV's that they are made of, and reports on those left out.

AgentV is a TypeScript program. "Here" is agentv.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.files.documents import Document, JsonPath, Key, Spot, shown_path
from agentv.loading.models.reader import Reader
from agentv.loading.translation.translation import Note
from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue


class Sourced(NamedTuple):
    """A value for a new document."""

    value: JsonValue
    at: JsonPath | None = None
    """The path in the source document; None if the value comes from elsewhere."""


Entries: TypeAlias = dict[str, Sourced]
"""The entries of an object for a new document, each with its path in the source."""


class NewObject(NamedTuple):
    """An object for a new document."""

    entries: Entries
    at: JsonPath | None
    """The path in the source document; None if the object comes from elsewhere."""


def is_list(value: JsonValue) -> TypeGuard[Sequence[JsonValue]]:
    """Return True for a list or tuple."""
    return isinstance(value, list | tuple)


class Report(Struct):
    """The report on the keys of one file."""

    source: Reader
    """A key without effect is also recorded as a warning among its problems."""
    program: str
    """The program that the file is written for, such as `AgentV 4`."""
    ignored: int = 0
    """The number of ignored keys, which have no meaning here."""
    without_effect: int = 0
    """The number of keys that have an effect in the other program but not here, or are unknown in both."""
    files: list[Path] = field(default_factory=list)
    """The files whose content became part of the translation."""

    def ignore(self) -> None:
        """Count a key without any meaning here."""
        self.ignored += 1

    def warn(
        self, at: JsonPath | None, message: str, *, advice: str | None = None, suggestion: str | None = None
    ) -> None:
        """Count a key without effect, and record a warning at a path of the source; without a path, at its start."""
        self.without_effect += 1
        self.source.error(at or (), message, allowed=advice, suggestion=suggestion, on_key=True, severity="warning")

    def add(self, notes: Iterable[Note], at: JsonPath) -> None:
        """Record the notes of a part of the source that was translated separately; `at` is the path of the part."""
        for note in notes:
            if note.effect == "ignored":
                self.ignored += 1
                continue
            is_dropped, problem = note.effect == "dropped", note.problem
            self.without_effect += is_dropped
            message = problem.message if is_dropped else f"{self.program}: {problem.message}"
            path = problem.json_path
            if problem.path == self.source.document.path:
                path = shown_path(at) + path.removeprefix(shown_path(()))
            self.source.problems.append(replace(problem, message=message, json_path=path))

    def drop(self, sourced: Sourced, key: str, reason: str) -> None:
        """Record that a key has no effect here, with the reason; `sourced` is its value."""
        self.warn(sourced.at, f"`{key}` of {self.program} has no effect here", advice=reason)

    def unknown(self, sourced: Sourced, key: str, known: Iterable[str]) -> None:
        """Record a key that AgentV does not know either; `sourced` is its value."""
        message = f"unknown key {key!r}; it is ignored, as in {self.program}"
        self.warn(sourced.at, message, suggestion=nearest(key, known))

    def refuse(
        self, sourced: Sourced, message: str, *, advice: str | None = None, suggestion: str | None = None
    ) -> None:
        """Record an error about a value that cannot be read here."""
        full_message = f"{self.program}: {message}"
        self.source.error(sourced.at or (), full_message, allowed=advice, suggestion=suggestion, on_key=True)


class Rewriter(Struct):
    """Builds the objects and lists of a new document from values of the source."""

    source: Document
    marks: dict[int, Mapping[Key, Spot]] = field(default_factory=dict)
    """The positions of the new objects and lists."""
    _alive: list[JsonValue] = field(default_factory=list)  # referenced, so that no two of them get the same id

    def object(self, entries: Mapping[str, Sourced]) -> dict[str, JsonValue]:
        """Return a new object with these entries, at the positions of their paths."""
        new = {key: sourced.value for key, sourced in entries.items()}
        self.marks[id(new)] = {
            key: self._spot(sourced.at) for key, sourced in entries.items() if sourced.at is not None
        }
        self._alive.append(new)
        return new

    def list(self, items: Sequence[Sourced]) -> list[JsonValue]:
        """Return a new list with these items, at the positions of their paths."""
        new = [sourced.value for sourced in items]
        self.marks[id(new)] = {i: self._spot(sourced.at) for i, sourced in enumerate(items) if sourced.at is not None}
        self._alive.append(new)
        return new

    def entries(self, sourced: Sourced) -> Entries:
        """Return the entries of an object, each with its path; {} for another value."""
        value = sourced.value
        if not isinstance(value, Mapping):
            return {}
        return {key: Sourced(item, self._below(sourced, key)) for key, item in value.items()}

    def items(self, sourced: Sourced) -> Sequence[Sourced]:
        """Return the items of a list, each with its path; none for another value."""
        value = sourced.value
        return [Sourced(item, self._below(sourced, i)) for i, item in enumerate(value)] if is_list(value) else []

    def keep_alive(self, value: JsonValue) -> None:
        """Keep a value from elsewhere alive while this document is being made, so that no new value gets its id."""
        self._alive.append(value)

    def _below(self, sourced: Sourced, key: Key) -> JsonPath | None:
        """Return the path of the entry `key` of `sourced`.

        The entries of a new value, which is not in the source, have the path of the new value itself.
        """
        if sourced.at is None or self.source.at(sourced.at) is not sourced.value:
            return sourced.at
        return (*sourced.at, key)

    def _spot(self, at: JsonPath) -> Spot:
        return Spot(self.source.mark(at, on_key=True), self.source.mark(at))

    def document(self, value: JsonValue) -> Document:
        """Return the new document with this value, which may contain values of the source."""
        return Document(self.source.path, value, self.source.start, {**self.source.marks, **self.marks})
