"""Reads one file's document with models and collects every problem, each with its place."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from pydantic_core import ErrorDetails, ValidationError

from agentv.loading.files.documents import Document, JsonPath, Mark, child, find_container, has_child, shown_path
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.file_model import FileModel, Names, SpellingNotes
from agentv.types.errors import EvalFileError, nearest
from agentv.types.json_value import JsonValue, snake_case
from agentv.types.problems import Problem, Severity


class Sentence(NamedTuple):
    """The three clauses of a problem."""

    message: str
    allowed: str | None = None
    suggestion: str | None = None


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "none_required": "nothing",
}
_YES = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def kind_of(value: JsonValue) -> str:
    """Return what a value is, in words: `a number`, `text`, `a list`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"  # Python's, among JSON


def wanted_by(error: ErrorDetails) -> str | None:
    """Return what should stand there, when an error is about the sort of value; None for other errors."""
    if error["type"] == "literal_error":
        return f"one of {', '.join(_expected(error))}"
    return _WANTED.get(error["type"])


def _expected(error: ErrorDetails) -> list[str]:
    """Return the literals, which stand there as `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))


def mismatch(errors: Sequence[ErrorDetails], raw: JsonValue, *, as_written: bool = True) -> Sentence:
    """Return the sentence for a value of the wrong sort; several errors are the branches of one choice.

    Without `as_written` the value is not what stands in the file, and there is no advice on how to write it.
    """
    wanted = list(dict.fromkeys(filter(None, map(wanted_by, errors))))
    choices = [name for error in errors if error["type"] == "literal_error" for name in _expected(error)]
    if choices and isinstance(raw, str):
        allowed = f"allowed: {', '.join(choices)}"
        return Sentence(f"{raw[:60]!r} is not allowed here", allowed, nearest(raw, choices))
    is_fraction = isinstance(raw, float) and wanted == ["a whole number"]
    kind = f"the fraction {raw}" if is_fraction else kind_of(raw)
    return Sentence(f"must be {' or '.join(wanted)}, but is {kind}", _advice(wanted, raw) if as_written else None)


def _advice(wanted: Iterable[str], raw: JsonValue) -> str | None:
    if "text" in wanted and (isinstance(raw, int | float)):
        return "put it in quotes"
    if not isinstance(raw, str):
        return None
    if "true or false" in wanted and raw.lower() in _YES:
        return f"write {_YES[raw.lower()]}"
    if {"a number", "a whole number"} & set(wanted) and _NUMBER.fullmatch(raw):
        return "remove the quotes"
    return 'write it as a list: ["…"]' if "a list" in wanted and "an object" not in wanted else None


def sentence(error: ErrorDetails, raw: JsonValue) -> Sentence:
    """Return the sentence for one error about the value `raw`."""
    if wanted_by(error) is not None:
        return mismatch([error], raw)
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            key = error["loc"][-1]
            return Sentence(f"the key {key!r} is missing" if isinstance(key, str) else f"item {key + 1} is missing")
        case "too_long":
            return Sentence(f"must have at most {context['max_length']} items")
        case "value_error":
            return Sentence(str(context["error"]))
        case "union_tag_invalid" | "union_tag_not_found":
            return _tag_sentence(error)
        case "finite_number":
            return Sentence("must be a finite number")
        case "too_short" if context["min_length"] != 1:
            return Sentence(f"must have at least {context['min_length']} items")
        case "string_too_short" | "too_short":
            return Sentence("must not be empty")
        case _:
            return Sentence(_bound(error["type"], context) or error["msg"].replace("Input should", "must"))


def _bound(type_: str, context: Mapping[str, object]) -> str | None:
    words = {
        "greater_than": ("gt", "more than"),
        "greater_than_equal": ("ge", "at least"),
        "less_than": ("lt", "less than"),
        "less_than_equal": ("le", "at most"),
    }
    if type_ not in words:
        return None
    key, phrase = words[type_]
    bound = context[key]
    shown = f"{bound:g}" if isinstance(bound, int | float) else str(bound)
    return f"must be {phrase} {shown}"


def _tag_sentence(error: ErrorDetails) -> Sentence:
    context = error.get("ctx", {})
    key = str(context["discriminator"]).strip("'")
    if error["type"] == "union_tag_not_found":
        return Sentence(f"the key {key!r} is missing")
    known = re.findall(r"'([^']*)'", str(context["expected_tags"]))
    tag = str(context["tag"])
    return Sentence(f"unknown {key} {tag!r}", f"allowed: {', '.join(known)}", nearest(tag, known))


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
        self.problems.append(
            Problem(
                self.document.path,
                message,
                line=place.line,
                column=place.column,
                json_path=shown,
                allowed=allowed,
                suggestion=suggestion,
                severity=severity,
            )
        )

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
