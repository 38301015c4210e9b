"""References `${{ VAR }}` in targets: kept while a file is read, filled from the environment when a target is used."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from pydantic_core import ValidationError

from agentv.loading.files.composer import resolve_plain
from agentv.loading.files.documents import JsonPath
from agentv.loading.models.file_model import SpellingNotes
from agentv.loading.models.reader import Reader, locate
from agentv.templating.environment import fill_variables, has_reference, is_reference, variables_in
from agentv.templating.secrets import REDACTED, SHORTEST_SECRET, looks_secret
from agentv.types.errors import TemplateError
from agentv.types.json_value import JsonValue
from agentv.types.problems import Severity


def holds_reference(value: JsonValue) -> bool:
    """Return True if a value contains a reference anywhere."""
    if isinstance(value, str):
        return has_reference(value)
    if isinstance(value, Mapping):
        return any(holds_reference(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(holds_reference(inner) for inner in value)


class OpenReader(Reader):
    """A reader of values with unfilled references, which are accepted in place of any value."""

    def is_open(self, at: JsonPath, error_type: str) -> bool:
        """Return True if the value is, or depends on, a reference."""
        value = self.document.at(at)
        if isinstance(value, str):
            return has_reference(value)
        return error_type == "value_error" and holds_reference(value)


class Filled(Struct, frozen=True):
    """A value with its references filled: as it is used, and as it may be shown (`public`).

    `single_references` has the paths of values that are one reference, which may become numbers or booleans.
    """

    value: JsonValue
    public: JsonValue
    single_references: frozenset[JsonPath]
    secrets: frozenset[str]


class _Filler(Struct):
    """Fills the references of one target. Unset variables are recorded as problems, with the target that needs them."""

    reader: Reader
    env: Mapping[str, str]
    target: str
    unset: Severity
    single_references: set[JsonPath] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)

    def fill(self, value: JsonValue, at: JsonPath, name: str) -> tuple[JsonValue, JsonValue]:
        """Return a value as used and as shown; `name` is its key."""
        if isinstance(value, Mapping):
            filled = {key: self.fill(inner, (*at, key), key) for key, inner in value.items()}
            return {k: used for k, (used, _) in filled.items()}, {k: public for k, (_, public) in filled.items()}
        if isinstance(value, list | tuple):
            items = [self.fill(inner, (*at, index), name) for index, inner in enumerate(value)]
            return [used for used, _ in items], [public for _, public in items]
        if isinstance(value, str):
            return self._text(value, at, name)
        return value, value

    def _text(self, text: str, at: JsonPath, name: str) -> tuple[str, str]:
        used, public = self._replaced(text, at, name) if has_reference(text) else (text, text)
        if looks_secret(name) and used:
            self._add_secret(used)
            public = REDACTED
        return used, public

    def _replaced(self, text: str, at: JsonPath, name: str) -> tuple[str, str]:
        try:
            variables = variables_in(text)
        except TemplateError as error:
            self.reader.error(at, str(error))
            self.reader.suppress(at)
            return text, text
        for variable in variables:
            if variable not in self.env:
                needs = f"target {self.target!r} needs it for {name!r}"
                message = f"the variable {variable} is not set, and {needs}"
                self.reader.error(at, message, allowed=_HOW_TO_SET, severity=self.unset)
            elif looks_secret(variable):
                self._add_secret(self.env[variable])
        if not all(variable in self.env for variable in variables):
            self.reader.suppress(at)
            return text, text
        if is_reference(text):
            self.single_references.add(at)
        redacted = {variable: REDACTED if looks_secret(variable) else self.env[variable] for variable in variables}
        return fill_variables(text, self.env), fill_variables(text, redacted)

    def _add_secret(self, value: str) -> None:
        if len(value) >= SHORTEST_SECRET:
            self.secrets.add(value)


_HOW_TO_SET = "set it in the environment or in a .env file"


def fill(
    reader: Reader, at: JsonPath, value: JsonValue, env: Mapping[str, str], target: str, *, unset: Severity = "error"
) -> Filled:
    """Fill the references of the target at `at`. Record malformed references, and unset variables as `unset`."""
    filler = _Filler(reader, env, target, unset)
    used, public = filler.fill(value, at, "")
    single_references = frozenset(path[len(at) :] for path in filler.single_references)
    return Filled(used, public, single_references, frozenset(filler.secrets))


def validated(
    validate: Callable[[JsonValue], object],
    raw: JsonValue,
    single_references: frozenset[JsonPath],
    notes: SpellingNotes,
) -> object:
    """Validate a value; if one written as a single reference must be a number or boolean, convert it and retry."""
    try:
        return validate(raw)
    except ValidationError as error:
        wrong = {
            locate(entry["loc"], raw, notes)
            for entry in error.errors(include_url=False, include_input=False, include_context=False)
            if entry["type"] in ("int_type", "float_type", "bool_type")
        }
        if not wrong & single_references:
            raise
    notes.unknown.clear()
    return validate(_retyped(raw, wrong & single_references, ()))


def _retyped(value: JsonValue, paths: frozenset[JsonPath] | set[JsonPath], at: JsonPath) -> JsonValue:
    if isinstance(value, Mapping):
        return {key: _retyped(inner, paths, (*at, key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_retyped(inner, paths, (*at, index)) for index, inner in enumerate(value)]
    return _plain(value) if at in paths and isinstance(value, str) else value


def _plain(text: str) -> JsonValue:
    """Return the number or boolean that a string contains; any other string unchanged."""
    try:
        value = resolve_plain(text.strip())
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
