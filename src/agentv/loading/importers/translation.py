"""Translations of documents: edited copies or new documents with the positions of the original, and their notes.

They translate files of AgentV, a TypeScript program, for agentv. "Here" is agentv.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.files.documents import Document, JsonPath, Key, Mark, Marks, Spot, containers, shown_path
from agentv.loading.models.reader import Reader
from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

Effect: TypeAlias = Literal["ignored", "dropped", "refused"]
"""The effect on a value: `ignored`, since it has no meaning in agentv; `dropped` with a warning, since agentv lacks the
feature that the value configures, or has a different form of it; `refused` with an error."""


class Note(Struct, frozen=True):
    """The effect of a translation on a value without a counterpart; `problem` has the message and position."""

    effect: Effect
    problem: Problem


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


class Sourced(NamedTuple):
    """A value for a new document. `at` is its path in the source document; None if it comes from elsewhere."""

    value: JsonValue
    at: JsonPath | None = None


Entries: TypeAlias = dict[str, Sourced]
"""The entries of an object for a new document, each with its path in the source."""


class NewObject(NamedTuple):
    """An object for a new document. `at` is its path in the source document; None if it comes from elsewhere."""

    entries: Entries
    at: JsonPath | None


def is_list(value: JsonValue) -> TypeGuard[Sequence[JsonValue]]:
    """Return True for a list or tuple."""
    return isinstance(value, list | tuple)


class Report(Struct):
    """The report on the keys of one file: counts of those ignored and of those without effect here.

    An ignored key has no meaning here. A key without effect here has an effect in the other program, or is unknown
    in both; it is also recorded as a warning among the problems of `source`.
    """

    source: Reader
    program: str
    """The program that the file is written for, such as `AgentV 4`."""
    ignored: int = 0
    without_effect: int = 0
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
    """Builds the objects and lists of a new document from values of the source; `marks` are their positions."""

    source: Document
    marks: dict[int, Mapping[Key, Spot]] = field(default_factory=dict)
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


def with_source_paths(problems: Iterable[Problem], source: Document) -> list[Problem]:
    """Return problems of a translated file, each with the path that its position has in the source."""
    listed = list(problems)
    if not any(problem.path == source.path and problem.line for problem in listed):
        return listed
    paths: dict[Mark, list[str]] = {source.start: [shown_path(())]}
    for path, container in containers(source.value):
        for key, spot in source.marks.get(id(container), {}).items():
            for mark in {spot.key, spot.value}:
                paths.setdefault(mark, []).append(shown_path((*path, key)))
    return [_with_path(problem, paths) if problem.path == source.path else problem for problem in listed]


def _with_path(problem: Problem, paths: Mapping[Mark, Sequence[str]]) -> Problem:
    """Return a problem with the source path at its position, preferably one that ends with the same key.

    Without a path at its position, return it unchanged.
    """
    found = paths.get(Mark(problem.line, problem.column), ())
    if not found or problem.json_path in found:
        return problem
    last_step = problem.json_path[max(problem.json_path.rfind("."), problem.json_path.rfind("[")) :]
    return replace(problem, json_path=next((path for path in found if path.endswith(last_step)), found[0]))
