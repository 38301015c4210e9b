"""References `${{ VAR }}` in targets: filled from the environment when a target is used, not when a file is read."""

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic_core import ValidationError

from agentv.loading.files.composer import resolve_plain
from agentv.loading.files.documents import JsonPath
from agentv.loading.models.file_model import SpellingNotes
from agentv.loading.models.reader import Reader, locate
from agentv.templating.environment import REFERENCE, fill_variables, has_reference, is_reference, variables_in
from agentv.templating.secrets import (
    REDACTED,
    SHORTEST_SECRET,
    SecretRedactor,
    has_secret_prefix,
    is_secret,
    is_secret_header,
    looks_secret,
    secret_values,
    secrets_in_header,
    secrets_in_urls,
)
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


class ReferenceReader(Reader):
    """A reader that accepts an unfilled reference in place of any value."""

    def is_unfilled(self, at: JsonPath, error_type: str) -> bool:
        """Return True if the value is, or contains, an unfilled reference that the error may come from."""
        value = self.document.at(at)
        if isinstance(value, str):
            return has_reference(value)
        return error_type == "value_error" and holds_reference(value)


class Filled(Struct, frozen=True):
    """A value with its references filled."""

    value: JsonValue
    """The value as it is used. Messages must not print the `variable_values` in it."""
    public: JsonValue
    """The value as it may be shown."""
    single_references: frozenset[JsonPath]
    """The paths of values that consist of one reference: a filled value there may become a number or boolean."""
    secrets: frozenset[str]
    variable_values: frozenset[str] = frozenset()


class _Filler(Struct):
    """Fills the references of one target."""

    reader: Reader
    env: Mapping[str, str]
    target: str
    unset_severity: Severity
    """The severity of the problem that a variable is not set."""
    public_env: Collection[str] = ()
    single_references: set[JsonPath] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    variable_values: set[str] = field(default_factory=set)

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
        """Return a text as used and as shown: secrets in it are collected, and redacted in the second."""
        used, public = self._replaced(text, at, name) if has_reference(text) else (text, text)
        if has_reference(text) and used == text:  # a variable is not set: there is no value yet
            return used, REDACTED if looks_secret(name) else public
        if _is_public(at, text, self.public_env):
            return used, public
        in_header = len(at) > 1 and at[-2] in _HEADER_KEYS and is_secret_header(name) and is_secret(used)
        if in_header or (looks_secret(name) and used):
            self.secrets.update(part for part in secrets_in_header(used) if is_secret(part))
            public = REDACTED
        elif has_secret_prefix(used):
            self.secrets.add(used)
            public = REDACTED
        if "://" in used:
            in_urls = set(secrets_in_urls(used))
            self.secrets |= in_urls
            for secret in sorted(in_urls, key=len, reverse=True):
                public = public.replace(secret, f"{REDACTED}@" if secret.endswith("@") else REDACTED)
        return used, public

    def _replaced(self, text: str, at: JsonPath, name: str) -> tuple[str, str]:
        """Return a text with its references filled, as used and as shown; unchanged if a variable is not set."""
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
                self.reader.error(at, message, allowed=_HOW_TO_SET, severity=self.unset_severity)
            else:
                self.variable_values.add(self.env[variable])
                self.secrets |= secret_values({variable: self.env[variable]}, public=self.public_env)
        if not all(variable in self.env for variable in variables):
            self.reader.suppress(at)
            return text, text
        if is_reference(text):
            self.single_references.add(at)
        redacted = {variable: REDACTED if self._is_secret(variable) else self.env[variable] for variable in variables}
        return fill_variables(text, self.env), fill_variables(text, redacted)

    def _is_secret(self, variable: str) -> bool:
        value = self.env[variable]
        return variable not in self.public_env and (looks_secret(variable) or has_secret_prefix(value))


_HEADER_KEYS = ("headers", "extra_headers", "extraHeaders")
_DATA_KEYS = frozenset({"response", "tool_responses", "tools", "output_messages", "toolResponses", "outputMessages"})
"""Settings that hold data: the keys inside of them name cases or tools, and do not mark a value as secret."""


def _is_public(at: JsonPath, text: str, public_env: Collection[str]) -> bool:
    """Return True if a text is data written in the file, or is filled from public variables alone."""
    if has_reference(text):
        return all(name in public_env for name in REFERENCE.findall(text))
    return any(key in _DATA_KEYS for key in at[:-1])


_HOW_TO_SET = "set it in the environment or in a .env file"


def fill(
    reader: Reader,
    at: JsonPath,
    value: JsonValue,
    env: Mapping[str, str],
    target: str,
    *,
    unset_severity: Severity = "error",
    public_env: Collection[str] = (),
) -> Filled:
    """Fill the references of the target at `at`. Record malformed references and unset variables."""
    filler = _Filler(reader, env, target=target, unset_severity=unset_severity, public_env=public_env)
    used, public = filler.fill(value, at, "")
    single_references = frozenset(path[len(at) :] for path in filler.single_references)
    return Filled(
        used,
        public,
        single_references,
        secrets=frozenset(filler.secrets),
        variable_values=frozenset(text for text in filler.variable_values if len(text) >= SHORTEST_SECRET),
    )


def redact_problems(reader: Reader, first: int, filled: Filled) -> None:
    """Redact the values of variables in the problems from the index `first` on, so that no message shows them."""
    redactor = SecretRedactor({*filled.secrets, *filled.variable_values})
    for index, problem in enumerate(reader.problems[first:], first):
        allowed = problem.allowed and redactor.redact(problem.allowed)
        reader.problems[index] = replace(problem, message=redactor.redact(problem.message), allowed=allowed)


def read_converting(
    read: Callable[[object, SpellingNotes], object],
    raw: JsonValue,
    single_references: frozenset[JsonPath],
    notes: SpellingNotes,
) -> object:
    """Read a value. If the value of a single reference must be a number or boolean, convert it and read it again."""
    try:
        return read(raw, notes)
    except ValidationError as error:
        wrong = {
            locate(entry["loc"], raw, notes)
            for entry in error.errors(include_url=False, include_input=False, include_context=False)
            if entry["type"] in ("int_type", "float_type", "bool_type")
        }
        if not wrong & single_references:
            raise
    notes.unknown.clear()
    return read(_retyped(raw, wrong & single_references, ()), notes)


def _retyped(value: JsonValue, paths: frozenset[JsonPath] | set[JsonPath], at: JsonPath) -> JsonValue:
    """Return a copy of the value at `at`. Strings at `paths` that contain a number or boolean are converted to it."""
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
