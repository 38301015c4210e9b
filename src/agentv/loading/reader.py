"""Reads one file's document with models and collects every problem, each with its place."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from pydantic_core import ErrorDetails, ValidationError

from agentv.loading.documents import Document, JsonPath, Mark, child, find_container, has_child, shown_path
from agentv.loading.file_model import FileModel
from agentv.loading.sentences import Sentence, mismatch, sentence, wanted_by
from agentv.loading.shapes import reader_of
from agentv.loading.spellings import Names, SpellingNotes
from agentv.types.errors import EvalFileError, nearest
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem, Severity
from agentv.types.wire_names import snake_case

T = TypeVar("T")
M = TypeVar("M", bound=FileModel)


class Reader:
    """One document that is being read. Nothing stops at a problem: what can still be read is read."""

    def __init__(self, document: Document, problems: Iterable[Problem] = ()) -> None:
        self.document = document
        self.problems = list(problems)
        self._broken = {(problem.line, problem.column) for problem in self.problems if problem.line}
        self._spoiled: set[JsonPath] = set()
        self._told: set[tuple[Mark | JsonPath, str]] = set()

    def read(self, model: type[M], at: JsonPath = ()) -> M | None:
        """Return the value at a path as a model, or None when it has problems, which are then noted."""
        raw = self.document.at(at)
        return self.validate(partial(reader_of(model), raw), raw, at)

    def validate(
        self, run: Callable[[SpellingNotes], T], raw: JsonValue, at: JsonPath, *, beside: Names | None = None
    ) -> T | None:
        """Run one validation of `raw`, which stands at `at`; note its problems, and return its result if none.

        `raw` may be a part of the object there, some of its keys; `beside` are then the names of the others.
        """
        notes = SpellingNotes()
        result: T | None = None
        try:
            result = run(notes)
        except ValidationError as error:
            self._note(error.errors(include_url=False, include_input=False), raw, notes, at)
        for owner, key, names in notes.unknown:
            path = () if owner is raw else find_container(raw, owner) or ()
            known = names.beside(beside) if owner is raw and beside is not None else names
            self._unknown_key((*at, *path, key), key, known)
        return None if notes.unknown else result

    def _unknown_key(self, at: JsonPath, key: str, names: Names) -> None:
        """Note a key that nobody knows, with the keys that there are and the nearest one."""
        if key in names.elsewhere:
            self.error(at, f"unknown key {key!r}", allowed=names.elsewhere[key], on_key=True)
            return
        near = nearest(str(key), names.spellings)
        near = snake_case(near) if near is not None and near not in names.canonical else near
        known = ", ".join(names.canonical)
        self.error(at, f"unknown key {key!r}", allowed=f"allowed: {known}", suggestion=near, on_key=True)

    def error(
        self,
        at: JsonPath,
        message: str,
        *,
        allowed: str | None = None,
        suggestion: str | None = None,
        on_key: bool = False,
        severity: Severity = "error",
    ) -> None:
        """Note a problem of the value at a path, or of its key; a value that is broken already is not told twice."""
        place = self.document.mark(at, on_key=on_key)
        # What many aliases share is wrong once, however many paths lead to it.
        told = (place if place.line else at, message)
        if place in self._broken or at in self._spoiled or told in self._told:
            return
        self._told.add(told)
        shown = shown_path(at)
        self.problems.append(Problem(self.document.path, message, *place, shown, allowed, suggestion, severity))

    def spoil(self, at: JsonPath) -> None:
        """Say nothing more about the value at a path: what is wrong with it has been noted."""
        self._spoiled.add(at)

    def warn(self, at: JsonPath, message: str, *, allowed: str | None = None, on_key: bool = False) -> None:
        """Note something that does not stop a run."""
        self.error(at, message, allowed=allowed, on_key=on_key, severity="warning")

    def _note(self, errors: Sequence[ErrorDetails], raw: JsonValue, notes: SpellingNotes, at: JsonPath) -> None:
        """Note pydantic's errors. Those of the branches of one choice become one problem."""
        located = [(locate(error["loc"], raw, notes), error) for error in errors]
        groups: dict[JsonPath, list[ErrorDetails]] = {}
        for path, error in located:
            if self.is_open((*at, *path), error["type"]):
                continue
            if wanted_by(error) is None:
                self._say_about(at, path, raw, error)
            elif not any(_is_closer(other, path, known) for known, other in located):
                groups.setdefault(path, []).append(error)
        for path, group in groups.items():
            value = value_at(raw, path)
            as_written = self.document.at((*at, *path)) == value
            self._say((*at, *path), mismatch(group, value, as_written=as_written))

    def is_open(self, at: JsonPath, error_type: str) -> bool:  # noqa: ARG002 - what a subclass decides by
        """Whether nothing can be said yet about the value at a path: here never."""
        return False

    def _say_about(self, at: JsonPath, path: JsonPath, raw: JsonValue, error: ErrorDetails) -> None:
        """Note one error. A sentence of a dataclass that starts with one of its keys is told at that key."""
        value = value_at(raw, path)
        said = sentence(error, value)
        first_word = said.message.split(maxsplit=1)[0].strip("`'\":")
        if error["type"] == "value_error" and has_child(value, first_word):
            path = (*path, first_word)
        self._say((*at, *path), said)

    def _say(self, at: JsonPath, said: Sentence) -> None:
        self.error(at, said.message, allowed=said.allowed, suggestion=said.suggestion)


def _is_closer(error: ErrorDetails, path: JsonPath, known: JsonPath) -> bool:
    """Whether another error, at `known`, says more about the value at `path`: another branch got further there."""
    return known[: len(path)] == path and (known != path or wanted_by(error) is None)


def locate(loc: Sequence[int | str], raw: JsonValue, notes: SpellingNotes) -> JsonPath:
    """Return the path of an error in what was written: names as written, without the branches of a choice."""
    path: list[int | str] = []
    value = raw
    for step in loc:
        spelled = [step, *notes.written.get(str(step), ())]
        key = next((key for key in spelled if has_child(value, key)), None)
        if key is not None:
            path.append(key)
            value = child(value, key)
    return tuple(path)


def value_at(raw: JsonValue, path: JsonPath) -> JsonValue:
    """Return the value at a path inside another one."""
    for key in path:
        raw = child(raw, key)
    return raw


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems in the order of their places, each once."""
    unique = dict.fromkeys(problems)
    return tuple(sorted(unique, key=lambda problem: (problem.path, problem.line, problem.column)))


def raise_errors(path: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Raise EvalFileError when there are errors among the problems; return them (warnings) otherwise."""
    ordered = in_order(problems)
    if any(problem.severity == "error" for problem in ordered):
        raise EvalFileError(path, ordered)
    return ordered
