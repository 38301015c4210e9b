"""Validation of one file's document with models; all problems are collected, each with its position."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from pydantic_core import ErrorDetails, ValidationError

from agentv.loading.files.composer import compose, resolve_plain
from agentv.loading.files.documents import Document, JsonPath, Key, Mark, child, find_container, has_child, shown_path
from agentv.loading.files.text import decode, read_bytes, shown
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.file_model import Names, SpellingNotes
from agentv.types.errors import EvalFileError, nearest
from agentv.types.json_value import JsonValue, snake_case
from agentv.types.messages_json import compact_json
from agentv.types.problems import Problem, Severity


class ProblemText(NamedTuple):
    """The texts of a problem: its message, what is allowed, and a suggestion."""

    message: str
    allowed: str | None = None
    suggestion: str | None = None


_KINDS = {
    "string_type": "a string",
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
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_MOST_UNKNOWN_KEYS = 20
"""The most unknown keys of one object that are listed; the others are counted."""
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def kind_of(value: JsonValue) -> str:
    """Return the kind of a value in words, such as `a number`, `a list`, `nothing` for null, `true` or `false`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"  # a Python object among JSON


def expected_kind(error: ErrorDetails) -> str | None:
    """Return the expected kind of value in words, if an error is about the kind; else None."""
    if error["type"] == "literal_error":
        names = _allowed_literals(error)
        return f"one of {', '.join(names)}" if len(names) > 1 else repr(names[0])
    return _KINDS.get(error["type"])


def _allowed_literals(error: ErrorDetails) -> list[str]:
    """Return the allowed literals, which pydantic writes as `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))


def mismatch(errors: Sequence[ErrorDetails], raw: JsonValue, *, as_written: bool = True) -> ProblemText:
    """Return the texts for a value of the wrong kind. `errors` has several errors if a union was expected.

    Without `as_written` the value differs from the file, and there is no advice on how to write it.
    """
    kinds = list(dict.fromkeys(filter(None, map(expected_kind, errors))))
    choices = [name for error in errors if error["type"] == "literal_error" for name in _allowed_literals(error)]
    is_quoted_number = isinstance(raw, str) and "a whole number" in kinds and _NUMBER.fullmatch(raw) is not None
    if choices and isinstance(raw, str) and not is_quoted_number:
        others = filter(None, (expected_kind(error) for error in errors if error["type"] != "literal_error"))
        allowed = f"allowed: {' or '.join((', '.join(choices), *others))}"
        return ProblemText(f"{raw[:60]!r} is not allowed here", allowed, nearest(raw, choices))
    is_fraction = isinstance(raw, float) and kinds == ["a whole number"]
    kind = f"the fraction {raw}" if is_fraction else kind_of(raw)
    return ProblemText(f"must be {' or '.join(kinds)}, but is {kind}", _advice(kinds, raw) if as_written else None)


def _advice(kinds: Iterable[str], raw: JsonValue) -> str | None:
    if "a string" in kinds and (isinstance(raw, int | float)):
        return "put it in quotes"
    if not isinstance(raw, str):
        return None
    if "true or false" in kinds and raw.lower() in _BOOLEAN_WORDS:
        return f"write {_BOOLEAN_WORDS[raw.lower()]}"
    if {"a number", "a whole number"} & set(kinds) and _NUMBER.fullmatch(raw):
        return "remove the quotes"
    is_list_of_texts = "a list" in kinds and not {"an object", "a number", "a whole number"} & set(kinds)
    return 'write it as a list: ["…"]' if is_list_of_texts else None


def problem_text(error: ErrorDetails, raw: JsonValue) -> ProblemText:
    """Return the texts for one error about the value `raw`."""
    if expected_kind(error) is not None:
        return mismatch([error], raw)
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            key = error["loc"][-1]
            return ProblemText(f"the key {key!r} is missing" if isinstance(key, str) else f"item {key + 1} is missing")
        case "too_long":
            return ProblemText(f"must have at most {context['max_length']} items")
        case "value_error":
            return ProblemText(str(context["error"]))
        case "union_tag_invalid" | "union_tag_not_found":
            return _tag_text(error)
        case "finite_number":
            return ProblemText("must be a finite number")
        case "too_short" if context["min_length"] != 1:
            return ProblemText(f"must have at least {context['min_length']} items")
        case "string_too_short" | "too_short":
            return ProblemText("must not be empty")
        case _:
            return ProblemText(_bound_message(error["type"], context) or error["msg"].replace("Input should", "must"))


def _bound_message(type_: str, context: Mapping[str, object]) -> str | None:
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
    bound_text = f"{bound:g}" if isinstance(bound, int | float) else str(bound)
    return f"must be {phrase} {bound_text}"


def _tag_text(error: ErrorDetails) -> ProblemText:
    context = error.get("ctx", {})
    key = str(context["discriminator"]).strip("'")
    if error["type"] == "union_tag_not_found":
        return ProblemText(f"the key {key!r} is missing")
    known = re.findall(r"'([^']*)'", str(context["expected_tags"]))
    tag = str(context["tag"])
    return ProblemText(f"unknown {key} {tag!r}", f"allowed: {', '.join(known)}", nearest(tag, known))


T = TypeVar("T")


class Reader:
    """A reader of one document, which continues after a problem and collects `problems`."""

    def __init__(self, document: Document, problems: Iterable[Problem] = ()) -> None:
        self.document = document
        self.problems = list(problems)
        self._broken_places = {(problem.line, problem.column) for problem in self.problems if problem.line}
        self._suppressed: set[JsonPath] = set()
        self._reported: set[tuple[Mark | JsonPath, str]] = set()
        self.from_single_variables: set[JsonPath] = set()
        """The paths of values from texts such as `{{ n }}`; each value may be converted to the expected type, once."""

    def all_problems(self) -> list[Problem]:
        """Return the problems; a subclass adds those of making the document."""
        return self.problems

    def read(self, kind: type[T], at: JsonPath = ()) -> T | None:
        """Return the value at a path as an object of a class; record its problems and return None if it has any."""
        raw = self.document.at(at)
        return self.validate(partial(reader_of(kind), raw), raw, at)

    def validate(
        self, run: Callable[[SpellingNotes], T], raw: JsonValue, at: JsonPath, *, other_names: Names | None = None
    ) -> T | None:
        """Return the result of `run`, which validates `raw`, the value at `at`; record problems and return None if any.

        If `raw` has only some of the keys of the object at `at`, `other_names` are the names that are allowed for the
        others; messages list them as well.
        """
        notes = SpellingNotes()
        result: T | None = None
        try:
            result = run(notes)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            if self.from_single_variables and self._convert(errors, raw, notes, at):
                return self.validate(run, raw, at, other_names=other_names)
            self._record_errors(errors, raw, notes, at)
        unknown: dict[int, list[tuple[object, str, Names]]] = {}
        for each in notes.unknown:
            unknown.setdefault(id(each[0]), []).append(each)
        for of_one_object in unknown.values():
            owner = of_one_object[0][0]
            path = () if owner is raw else find_container(raw, owner) or ()
            for _, key, names in of_one_object[:_MOST_UNKNOWN_KEYS]:
                known = names.combined_with(other_names) if owner is raw and other_names is not None else names
                self._unknown_key((*at, *path, key), key, known)
            if (left := len(of_one_object) - _MOST_UNKNOWN_KEYS) > 0:
                self.error((*at, *path), f"{left:,} more unknown {'key' if left == 1 else 'keys'}")
        return None if notes.unknown else result

    def _convert(self, errors: Sequence[ErrorDetails], raw: JsonValue, notes: SpellingNotes, at: JsonPath) -> bool:
        """Convert the values of single variables to the types that errors demand, as far as possible.

        Return True if there were such values. None of them is converted again.
        """
        wanted: dict[JsonPath, set[str]] = {}
        for error in errors:
            path = locate(error["loc"], raw, notes)
            if (*at, *path) in self.from_single_variables:
                wanted.setdefault(path, set()).add(error["type"])
        for path, error_types in wanted.items():
            self.from_single_variables.discard((*at, *path))
            owner, value = value_at(raw, path[:-1]), value_at(raw, path)
            if isinstance(owner, dict | list):
                cast(dict[Key, JsonValue], owner)[path[-1]] = _converted(value, error_types)
        return bool(wanted)

    def _unknown_key(self, at: JsonPath, key: str, names: Names) -> None:
        """Record a problem for an unknown key, with advice on it, or else with the known keys and the nearest one."""
        if key in names.elsewhere:
            self.error(at, f"unknown key {key!r}", allowed=names.elsewhere[key], on_key=True)
            return
        near = nearest(str(key), names.spellings)
        if near is not None and near not in names.canonical:
            near = snake_case(near)
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
        """Record a problem of the value at a path or, with `on_key`, of its key.

        Nothing is recorded if the same message is already recorded at this position, if the path is suppressed, or if a
        problem that the reader was created with is at this position.
        """
        place = self.document.mark(at, on_key=on_key)
        # A value shared by aliases is reported once, although several paths lead to it.
        key = (place if place.line else at, message)
        if place in self._broken_places or at in self._suppressed or key in self._reported:
            return
        self._reported.add(key)
        self.problems.append(
            Problem(
                self.document.path,
                message,
                line=place.line,
                column=place.column,
                json_path=shown_path(at),
                allowed=allowed,
                suggestion=suggestion,
                severity=severity,
            )
        )

    def suppress(self, at: JsonPath) -> None:
        """Ignore further problems of the value at a path, since the cause is already recorded."""
        self._suppressed.add(at)

    def warn(self, at: JsonPath, message: str, *, allowed: str | None = None, on_key: bool = False) -> None:
        """Record a warning, which does not stop a run."""
        self.error(at, message, allowed=allowed, on_key=on_key, severity="warning")

    def _record_errors(
        self, errors: Sequence[ErrorDetails], raw: JsonValue, notes: SpellingNotes, at: JsonPath
    ) -> None:
        """Record pydantic's errors; all errors about the kind of the same value become one problem.

        A union causes several. The problem is left out if another error is more specific.
        """
        located = [(locate(error["loc"], raw, notes), error) for error in errors]
        groups: dict[JsonPath, list[ErrorDetails]] = {}
        for path, error in located:
            if self.is_unfilled((*at, *path), error["type"]):
                continue
            if expected_kind(error) is None:
                self._record_error(at, path, raw=raw, error=error, notes=notes)
            elif not any(_is_closer(other, other_path, path) for other_path, other in located):
                groups.setdefault(path, []).append(error)
        for path, group in groups.items():
            value = value_at(raw, path)
            as_written = self.document.at((*at, *path)) == value
            self._record((*at, *path), mismatch(group, value, as_written=as_written))

    def is_unfilled(self, at: JsonPath, error_type: str) -> bool:  # noqa: ARG002 - used by a subclass
        """Return False. A subclass returns True for a value that is not known yet, whose errors do not count."""
        return False

    def _record_error(
        self, at: JsonPath, path: JsonPath, raw: JsonValue, error: ErrorDetails, notes: SpellingNotes
    ) -> None:
        """Record one error about the value at `path` inside the value at `at`.

        If the message comes from an object's own check and starts with a key, the error is recorded at that key.
        """
        value = value_at(raw, path)
        wording = problem_text(error, value)
        first_word = wording.message.split(maxsplit=1)[0].strip("`'\":")
        if error["type"] == "value_error":
            path = (*path, *_path_to((first_word, *notes.written.get(first_word, ())), value, notes))
        self._record((*at, *path), wording)

    def _record(self, at: JsonPath, wording: ProblemText) -> None:
        self.error(at, wording.message, allowed=wording.allowed, suggestion=wording.suggestion)


def _converted(value: JsonValue, error_types: set[str]) -> JsonValue:
    """Return a text as the number or boolean that it contains, or a number or boolean as a text.

    `error_types` decide what is expected. A value that cannot be converted is returned unchanged.
    """
    if isinstance(value, str) and error_types & {"int_type", "float_type", "bool_type"}:
        try:
            found = resolve_plain(value.strip())
        except ValueError:
            return value
        return found if isinstance(found, bool | int | float) else value
    if isinstance(value, bool | int | float) and "string_type" in error_types:
        return compact_json(value)
    return value


def _is_closer(error: ErrorDetails, error_path: JsonPath, path: JsonPath) -> bool:
    """Return True if `error` is more specific than an error about the kind of the value at `path`.

    An error is more specific if it is about a value inside that value, or about the same value but not its kind.
    """
    return error_path[: len(path)] == path and (error_path != path or expected_kind(error) is None)


def locate(loc: Sequence[int | str], raw: JsonValue, notes: SpellingNotes) -> JsonPath:
    """Return the path inside `raw` of pydantic's location: keys as written, without the branches of a union."""
    path: list[int | str] = []
    value = raw
    for step in loc:
        further = _path_to((step, *notes.written.get(str(step), ())), value, notes)
        path += further
        value = value_at(value, further)
    return tuple(path)


def _path_to(spellings: Iterable[int | str], value: JsonValue, notes: SpellingNotes) -> JsonPath:
    """Return the path of the first of `spellings` that is a key of a value; () if there is none.

    If the entries of an inner object were merged into the value for validation, its keys count, too.
    """
    spellings = tuple(spellings)
    nested = notes.nested_key_of(value)
    prefixes: tuple[JsonPath, ...] = ((),) if nested is None else ((), (nested,))
    for prefix in prefixes:
        inner = value_at(value, prefix)
        for key in spellings:
            if has_child(inner, key):
                return (*prefix, key)
    return ()


def value_at(raw: JsonValue, path: JsonPath) -> JsonValue:
    """Return the value at a path inside `raw`; None if there is none."""
    for key in path:
        raw = child(raw, key)
    return raw


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems in the order of their positions, each once."""
    unique = dict.fromkeys(problems)
    return tuple(sorted(unique, key=lambda problem: (problem.path, problem.line, problem.column)))


def raise_errors(path: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Raise EvalFileError if any problem is an error, else return the problems in order: all are warnings."""
    ordered = in_order(problems)
    if any(problem.severity == "error" for problem in ordered):
        raise EvalFileError(path, ordered)
    return ordered


def open_yaml(path: Path, data: bytes | None = None) -> Reader:
    """Return a reader of a YAML file, which may contain any kind of value. `data`, if given, are the file's bytes.

    Raises EvalFileError when the file cannot be read or is not YAML.
    """
    name = shown(path)
    text = decode(read_bytes(path) if data is None else data, name)
    document, problems = compose(text, name)
    if document is None:
        raise EvalFileError(name, problems)
    return Reader(document, problems)
