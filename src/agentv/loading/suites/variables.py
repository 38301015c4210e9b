"""Variables of eval files: their values for one case, and the parts of a file that are filled with them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.files.documents import Document, JsonPath, Key, Spot, child
from agentv.loading.files.kinds import CASE_KEYS
from agentv.loading.models.reader import Reader, kind_of
from agentv.templating.case_variables import Fault, as_text, fill_text, has_variables, used_names
from agentv.types.json_value import JsonObject, JsonValue, snake_case
from agentv.types.problems import Severity


class SuiteVariables(Struct, frozen=True):
    """The variables of one eval file."""

    declared: JsonObject = field(default_factory=dict)
    """The variables under its `vars:`."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The variables of `--var`, which override all others."""
    undefined_severity: Severity = "error"
    """The severity of the problem that a name has no value."""

    def of_case(self, *, row: JsonObject | None = None, own: JsonObject | None = None) -> JsonObject:
        """Return the variables of a case; `row` has those of its dataset row, `own` those of its `vars`.

        Of equal names, the one in `given` counts, else that in `own`, `row` or `declared`, in this order.
        """
        return {**self.declared, **(row or {}), **(own or {}), **self.given}


_COMMAND_KEYS = frozenset({"script", "python", "cwd"})
_PROMPT_KEYS = frozenset({"prompt", "prompt_template"})
_UNFILLED_KEYS = frozenset({"vars", "skip", "incomplete"})


class Filler(Struct):
    """Fills one part of a document with variables."""

    reader: Reader
    values: JsonObject
    undefined_severity: Severity = "error"
    marks: dict[int, Mapping[Key, Spot]] = field(default_factory=dict)
    """The positions of the new objects and lists."""
    single_variables: set[JsonPath] = field(default_factory=set)
    """The paths of texts that start with a variable, and usually contain nothing else. Their values may be converted to
    the expected type.
    """
    case: JsonPath = ()
    """The path of the case, whose `vars` and reasons (`skip`, `incomplete`) stay as they are; () if it is no case."""

    def fill(self, value: JsonValue, at: JsonPath, *, in_evaluators: bool = False) -> JsonValue:
        """Return a copy of the value at a path with its texts and keys filled. Problems are recorded.

        Prompts of evaluators stay as they are, since they are filled when the answer is known. So do workspaces, and
        commands and paths of code in evaluators; variables in them are problems.
        """
        if isinstance(value, str):
            return self._text(value, at) if "{{" in value or "{%" in value else value
        if isinstance(value, Mapping):
            return self._object(value, at, in_evaluators=in_evaluators)
        if isinstance(value, list | tuple):
            filled = [self.fill(inner, (*at, index), in_evaluators=in_evaluators) for index, inner in enumerate(value)]
            if (places := self.reader.document.marks.get(id(value))) is not None:
                self.marks[id(filled)] = places
            return filled
        return value

    def _object(self, value: JsonObject, at: JsonPath, *, in_evaluators: bool) -> JsonValue:
        filled: dict[str, JsonValue] = {}
        places = self.reader.document.marks.get(id(value))
        filled_places: dict[Key, Spot] = {}
        for written, inner in value.items():
            key = self._key(written, at, filled) if "{{" in written or "{%" in written else written
            filled[key] = self._entry(inner, (*at, key), in_evaluators=in_evaluators)
            if places is not None and written in places:
                filled_places[key] = places[written]
        if places is not None:
            self.marks[id(filled)] = filled_places
        return filled

    def _key(self, written: str, at: JsonPath, siblings: Mapping[str, JsonValue]) -> str:
        """Return a key of the object at a path with its variables filled; with a problem, as it is written."""
        place = (*at, written)

        def report(fault: Fault) -> None:
            self._report(place, fault, on_key=True)

        before = len(self.reader.problems)
        value = fill_text(written, self.values, report)
        if len(self.reader.problems) > before:
            return written
        if isinstance(value, Mapping | list | tuple):
            self.reader.error(place, f"the key {written!r} must become a text, but is {kind_of(value)}", on_key=True)
            return written
        key = as_text(value)
        if not key.strip():
            self.reader.error(place, f"the key {written!r} is empty", on_key=True)
        elif key in siblings:
            self.reader.error(place, f"a second key {key!r}, made of {written!r}", on_key=True)
        else:
            return key
        return written

    def _report(self, at: JsonPath, fault: Fault, *, on_key: bool = False) -> None:
        self.reader.error(
            at,
            fault.message,
            allowed=fault.allowed,
            suggestion=fault.suggestion,
            on_key=on_key,
            severity=self.undefined_severity if fault.is_undefined else "error",
        )

    def _entry(self, value: JsonValue, at: JsonPath, *, in_evaluators: bool) -> JsonValue:
        if self.case and at[:-1] == self.case and at[-1] in _UNFILLED_KEYS:
            return value
        key = snake_case(str(at[-1]))
        if in_evaluators and key in _PROMPT_KEYS:
            return value
        is_command = key in _COMMAND_KEYS or (key == "path" and at[-2] == "aggregator")
        if key == "workspace" or (in_evaluators and is_command):
            self._refuse(value, at)
            return value
        return self.fill(value, at, in_evaluators=in_evaluators or key == "evaluators")

    def _refuse(self, value: JsonValue, at: JsonPath) -> None:
        """Record a problem for each text with a variable: its value comes from data, which must not become code."""
        for place, text in texts_in(value, at):
            if has_variables(text):
                message = "variables are not filled in workspaces, commands and paths of code"
                advice = "write the value itself; to pass variables to a code judge, use them in `metadata` or `config`"
                self.reader.error(place, message, allowed=advice)

    def _text(self, text: str, at: JsonPath) -> JsonValue:
        """Return a text with its variables filled; a text that is one variable becomes the value, with its type.

        As the content of a message, a number or boolean becomes a text.
        """

        def report(fault: Fault) -> None:
            self._report(at, fault)

        before = len(self.reader.problems)
        value = fill_text(text, self.values, report)
        if len(self.reader.problems) > before and self.undefined_severity == "error":
            self.reader.suppress(at)
        elif value is not text and text.strip().startswith("{{"):
            self.single_variables.add(at)
        if at[-1] == "content" and isinstance(value, bool | int | float):
            return str(value).lower() if isinstance(value, bool) else str(value)
        return value


def fill_in_place(reader: Reader, at: JsonPath, values: JsonObject, undefined_severity: Severity) -> None:
    """Replace the object at a path in the reader's document by a filled copy; its `vars` stay as they are.

    Problems are recorded. Without an object at the path, nothing happens.
    """
    raw, parent = reader.document.at(at), reader.document.at(at[:-1])
    if not isinstance(raw, Mapping) or not isinstance(parent, dict | list):
        return
    filler = Filler(reader, values, undefined_severity, case=at)
    cast(dict[Key, JsonValue], parent)[at[-1]] = filler.fill(raw, at)
    cast(dict[int, Mapping[Key, Spot]], reader.document.marks).update(filler.marks)
    reader.from_single_variables |= filler.single_variables


class Template(Struct, frozen=True):
    """A part of an eval file that is filled for each case: the object or list at `at`, a path without list indexes."""

    document: Document
    at: JsonPath

    @property
    def value(self) -> JsonValue:
        """The part as written in the file."""
        return self.document.at(self.at)

    def filled(self, values: JsonObject, undefined_severity: Severity) -> tuple[Reader, JsonValue]:
        """Return a reader of a document that has only the filled part, at the same path; and the filled part.

        The reader also has the problems of filling.
        """
        source = Reader(self.document)
        filler = Filler(source, values, undefined_severity, case=self.at)
        value = filler.fill(self.value, self.at, in_evaluators="evaluators" in self.at)
        return self._reader_of(value, filler), value

    def _reader_of(self, value: JsonValue, filler: Filler) -> Reader:
        """Wrap the filled value in an object for each key of the path, and return a reader of the outermost one."""
        marks, originals = filler.marks, [self.document.value]
        for key in self.at[:-1]:
            originals.append(child(originals[-1], key))
        for key, original in zip(reversed(self.at), reversed(originals), strict=True):
            value = {str(key): value}
            spot = self.document.marks.get(id(original), {}).get(key)
            if spot is not None:
                marks[id(value)] = {str(key): spot}
        reader = Reader(replace(self.document, value=value, marks=marks), filler.reader.problems)
        reader.from_single_variables = filler.single_variables
        return reader


def texts_in(value: JsonValue, at: JsonPath = ()) -> Iterator[tuple[JsonPath, str]]:
    """Yield every text inside a value, with its path."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts_in(item, (*at, key))
    elif isinstance(value, Sequence):
        for index, item in enumerate(value):
            yield from texts_in(item, (*at, index))


def texts_and_keys_in(value: JsonValue) -> Iterator[str]:
    """Yield every text and every key inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from texts_and_keys_in(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from texts_and_keys_in(item)


def needs_filling(value: JsonValue) -> bool:
    """Return True if filling may change any text or key inside a value."""
    return any(map(has_variables, texts_and_keys_in(value)))


def has_prompt(value: JsonValue) -> bool:
    """Return True if an evaluator in a value has a prompt, which may name a file that uses variables."""
    if isinstance(value, Mapping):
        return any(snake_case(key) in _PROMPT_KEYS or has_prompt(inner) for key, inner in value.items())
    return isinstance(value, list | tuple) and any(map(has_prompt, value))


def variable_names_in(value: JsonValue) -> Iterator[str]:
    """Yield the variables that the texts and keys inside a value use."""
    for text in texts_and_keys_in(value):
        yield from used_names(text)


def read_variables(
    reader: Reader, *, is_stream: bool, given: Mapping[str, str], undefined_severity: Severity = "error"
) -> SuiteVariables | None:
    """Return the variables of the eval file that a reader has open.

    Return None if there are none to fill: the file and its listed cases have no `vars`, and it reads no dataset.
    `is_stream` is True for a JSON Lines file. Invalid `vars` are reported with the file's other keys.
    """
    raw = reader.document.value
    key = next((key for key in CASE_KEYS if isinstance(raw, Mapping) and key in raw), "")
    cases = reader.document.at((key,))
    declared = reader.document.at(("vars",))
    listed = cases if isinstance(cases, list | tuple) else ()
    reads_dataset = is_stream or isinstance(cases, str | Mapping)
    has_case_variables = any(isinstance(case, Mapping) and "vars" in case for case in listed)
    if not reads_dataset and not has_case_variables and declared is None:
        return None
    return SuiteVariables(declared if isinstance(declared, Mapping) else {}, given, undefined_severity)


def used_variables(reader: Reader) -> Iterator[str]:
    """Yield the variables that an eval file declares or uses, which `--var` may set."""
    raw = reader.document.value
    yield from variable_names_in(raw)
    for value in (raw, *_listed_cases(raw)):
        declared = value.get("vars") if isinstance(value, Mapping) else None
        yield from declared if isinstance(declared, Mapping) else ()


def _listed_cases(raw: JsonValue) -> Iterator[JsonValue]:
    for key in CASE_KEYS:
        cases = raw.get(key) if isinstance(raw, Mapping) else None
        yield from cases if isinstance(cases, list | tuple) else ()
