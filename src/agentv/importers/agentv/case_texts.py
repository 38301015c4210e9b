"""Texts of AgentV 4 files filled while they are read: `${{ VAR }}` anywhere, and the `vars` of a case."""

import re
from collections.abc import Mapping

from agentv.loading.files.composer import resolve_plain
from agentv.loading.files.documents import Document, JsonPath, Key, Spot
from agentv.loading.models.reader import Reader
from agentv.templating.environment import REFERENCE, has_reference
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")


def with_environment(reader: Reader, env: Mapping[str, str]) -> Reader:
    """Return a reader of the same document with each `${{ VAR }}` filled; unset variables are empty, with a warning.

    A text that is one reference may become a number or a boolean.
    """
    filler = _EnvironmentFiller(reader, env)
    document = reader.document
    value = filler.filled(document.value, ())
    return Reader(Document(document.path, value, document.start, {**document.marks, **filler.marks}), reader.problems)


class _EnvironmentFiller:
    """Fills the references in one document; `marks` are the positions of the new objects and lists."""

    def __init__(self, reader: Reader, env: Mapping[str, str]) -> None:
        self.reader, self.env = reader, env
        self.marks: dict[int, Mapping[Key, Spot]] = {}

    def filled(self, value: JsonValue, at: JsonPath) -> JsonValue:
        """Return a value with its references filled; containers keep their positions."""
        if isinstance(value, str):
            return self._text(value, at) if has_reference(value) else value
        container: dict[str, JsonValue] | list[JsonValue]
        if isinstance(value, Mapping):
            container = {key: self.filled(item, (*at, key)) for key, item in value.items()}
        elif isinstance(value, list | tuple):
            container = [self.filled(item, (*at, index)) for index, item in enumerate(value)]
        else:
            return value
        self.marks[id(container)] = self.reader.document.marks.get(id(value), {})
        return container

    def _text(self, text: str, at: JsonPath) -> JsonValue:
        for name in REFERENCE.findall(text):
            if name not in self.env:
                advice = "set it in the environment or in a .env file"
                self.reader.warn(at, f"the variable {name} is not set, and is read as an empty text", allowed=advice)
        filled = REFERENCE.sub(lambda match: self.env.get(match[1], ""), text)
        if REFERENCE.fullmatch(text.strip()) is None:
            return filled
        try:
            value = resolve_plain(filled)
        except ValueError:
            return filled
        return value if isinstance(value, bool | int | float) else filled


def with_variables(value: JsonValue, variables: JsonObject) -> JsonValue:
    """Return a value with each `{{ a.b }}` of the variables filled in its texts; unknown names stay as they are.

    A string that is a single variable gets the variable's type.
    """
    if isinstance(value, str):
        single = _VARIABLE.fullmatch(value.strip())
        if single is not None:
            found = _value_of(variables, single[1])
            return value if found is _UNKNOWN else found
        return _VARIABLE.sub(lambda match: _text_of(_value_of(variables, match[1]), match[0]), value)
    if isinstance(value, Mapping):
        return {key: with_variables(item, variables) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_variables(item, variables) for item in value]
    return value


_UNKNOWN = object()


def _value_of(variables: JsonObject, path: str) -> JsonValue:
    found: JsonValue = variables
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return _UNKNOWN  # type: ignore[return-value] # compared by identity
        found = found[name]
    return found


def _text_of(value: JsonValue, written: str) -> str:
    if value is _UNKNOWN:
        return written
    return value if isinstance(value, str) else compact_json(value)
