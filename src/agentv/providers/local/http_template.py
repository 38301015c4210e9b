"""Templates with `{{ question }}` for the URL and body of an `http` target, and paths into its response. Pure.

A template is parsed before it is filled, so that no value can become part of the syntax around it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, cast
from urllib.parse import quote, quote_plus, urlsplit

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathSyntaxError
from msgspec import Struct

from agentv.providers.apis.dialogue import build_prompt
from agentv.templating.variables import fill, variable_names
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages import ChatMessage
from agentv.types.messages_json import compact_json
from agentv.types.provider import ProviderError, ProviderRequest

REQUEST_VARIABLES = (
    "question",
    "chat_prompt",
    "system_prompt",
    "guidelines",
    "guideline_files",
    "input_files",
    "eval_case_id",
    "attempt",
    "trial",
    "metadata",
)
"""The variables of templates, besides `metadata.PATH`: fields of ProviderRequest."""

JSON, FORM, TEXT = "application/json", "application/x-www-form-urlencoded", "text/plain"

ValueOf: TypeAlias = Callable[[str], JsonValue]
_STRING_OR_VARIABLE = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{\s*([A-Za-z_][^\s{}]*)\s*\}\}', re.DOTALL)
_ONLY_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][^\s{}]*)\s*\}\}")


class Placeholder(Struct, frozen=True):
    """A variable that stands for a whole JSON value; one inside a string remains part of that string."""

    name: str


_Tree: TypeAlias = "Placeholder | str | int | float | list[_Tree] | dict[str, _Tree] | None"


class BodyTemplate(Struct, frozen=True):
    """A parsed body. `names` are the variables it uses."""

    media_type: str
    tree: _Tree
    names: frozenset[str]

    def fill(self, value_of: ValueOf) -> bytes:
        """Return the body filled with values."""
        if self.media_type == JSON:
            return compact_json(_filled(self.tree, value_of)).encode(errors="replace")
        escape = quote_plus if self.media_type == FORM else str
        return fill(cast(str, self.tree), lambda name: escape(_as_text(value_of(name)))).encode(errors="replace")


class UrlTemplate(Struct, frozen=True):
    """A parsed URL; values are percent-encoded, so that none changes its structure."""

    text: str
    names: frozenset[str]

    def fill(self, value_of: ValueOf) -> str:
        """Return the URL filled with values. Raises ProviderError for `.` and `..`, which encoding does not change."""

        def encoded(name: str) -> str:
            value = _as_text(value_of(name))
            if value in (".", ".."):
                message = f"{{{{ {name} }}}} is {value!r} in this case, which would change the path of the url"
                raise ProviderError(Failure("bad_request", message))
            return quote(value, safe="", errors="replace")

        return fill(self.text, encoded)


def parse_url(text: str) -> UrlTemplate:
    """Parse the `url` of a target. Raises ValueError with a sentence that starts with `url`."""
    if not text.startswith(("http://", "https://")):
        raise ValueError("url must start with http:// or https://")
    names = _checked_names("url", variable_names(text))
    if "{{" in urlsplit(text).netloc:
        raise ValueError("url may have variables in its path and query, not in its host")
    return UrlTemplate(text, names)


def parse_body(body: JsonValue, content_type: str, *, setting: str = "body") -> BodyTemplate:
    """Parse the `body` of a target: an object, a list or a string. Sent as JSON, a string must be JSON once filled.

    Raises ValueError if the body is invalid or has an unknown variable, or if values cannot be inserted safely into
    `content_type`. The message starts with `body`; only that of an unknown variable in JSON starts with `setting`.
    """
    media_type = content_type.split(";", maxsplit=1)[0].strip().lower()
    if media_type.endswith("+json"):
        media_type = JSON
    if media_type not in (JSON, FORM, TEXT):
        raise ValueError(f"body cannot be sent as {media_type}; allowed: {JSON}, {FORM}, {TEXT}")
    if media_type != JSON:
        if not isinstance(body, str):
            raise ValueError(f"body must be a string when it is sent as {media_type}")
        return BodyTemplate(media_type, body, _checked_names("body", variable_names(body)))
    tree = _parse_json(body) if isinstance(body, str) else _parse_yaml(body)
    return BodyTemplate(JSON, tree, _checked_names(setting, tuple(_names_in(tree))))


def _parse_json(text: str) -> _Tree:
    """Parse JSON in which `{{ name }}` may replace a value or, inside a string, a part of the text."""
    placeholders: dict[str, Placeholder] = {}

    def marker_for(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        # The marker with its quotes is as long as the variable, so that positions in messages are right.
        marker = f"\ue000{len(placeholders)}".ljust(len(match[0]) - 2)
        placeholders[marker] = Placeholder(match[1])
        return f'"{marker}"'

    try:
        value = json.loads(_STRING_OR_VARIABLE.sub(marker_for, text))
    except json.JSONDecodeError as error:
        raise ValueError(f"body is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("body is nested too deeply") from None
    return _map_texts(value, lambda text: placeholders.get(text, text))


def _parse_yaml(body: JsonValue) -> _Tree:
    """Parse a body written as YAML: a string that is only `{{ name }}` is replaced by the value."""

    def parse_text(text: str) -> Placeholder | str:
        variable = _ONLY_VARIABLE.fullmatch(text)
        return Placeholder(variable[1]) if variable else text

    return _map_texts(cast(_Tree, body), parse_text)


def _map_texts(tree: _Tree, change: Callable[[str], Placeholder | str]) -> _Tree:
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: _map_texts(value, change) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_map_texts(item, change) for item in tree]
    return tree


def _filled(tree: _Tree, value_of: ValueOf) -> JsonValue:
    match tree:
        case Placeholder(name):
            return value_of(name)
        case str():
            return fill(tree, lambda name: _as_text(value_of(name)))
        case dict():
            return {key: _filled(value, value_of) for key, value in tree.items()}
        case list():
            return [_filled(item, value_of) for item in tree]
        case _:
            return tree


def _names_in(tree: _Tree) -> Iterator[str]:
    match tree:
        case Placeholder(name):
            yield name
        case str():
            yield from variable_names(tree)
        case dict():
            for value in tree.values():
                yield from _names_in(value)
        case list():
            for item in tree:
                yield from _names_in(item)
        case _:
            pass


def _checked_names(setting: str, names: tuple[str, ...]) -> frozenset[str]:
    unknown = [name for name in names if name not in REQUEST_VARIABLES and not name.startswith("metadata.")]
    if unknown:
        listed = ", ".join((*REQUEST_VARIABLES, "metadata.PATH"))
        raise ValueError(f"{setting} has the unknown variable {{{{ {unknown[0]} }}}}; known: {listed}")
    return frozenset(names)


def _as_text(value: JsonValue) -> str:
    """Return a value inside a text; null becomes an empty text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)


_ENVIRONMENT = JSONPathEnvironment(strict=True)
_MAX_EXCERPT = 500


class AnswerPath(Struct, frozen=True):
    """A parsed JSONPath. `setting` is the name of the setting that contains it."""

    setting: str
    text: str
    path: JSONPath

    def search(self, response: JsonValue) -> list[JsonValue]:
        """Return all values at the path. Raises ProviderError for JSON that is nested too deeply."""
        try:
            found = self.path.findall(response) if isinstance(response, Mapping | list) else []
        except (JSONPathError, RecursionError) as error:
            raise ProviderError(
                Failure("unexpected_shape", f"the response is nested too deeply for {self.text}")
            ) from error
        return cast(list[JsonValue], found)  # parts of a JSON value

    def find(self, response: JsonValue) -> list[JsonValue]:
        """Return all values at the path, at least one. Raises ProviderError if there are none."""
        found = self.search(response)
        if not found:
            message = (
                f"{self.setting}: {self.text} matches nothing in the response: {compact_json(response)[:_MAX_EXCERPT]}"
            )
            raise ProviderError(Failure("unexpected_shape", message))
        return found


def parse_path(text: str, *, setting: str) -> AnswerPath:
    """Parse a JSONPath. Raises ValueError that starts with `setting` and names the position of the error."""
    try:
        path = _ENVIRONMENT.compile(text)
    except RecursionError:
        raise ValueError(f"{setting} is nested too deeply") from None
    except JSONPathError as error:
        raise ValueError(
            f"{setting} is not a valid JSONPath: {_syntax_problem(error, text)}; allowed: $.answer, $.a[0]['b c'], …"
        ) from None
    if not isinstance(path, JSONPath):
        raise ValueError(f"{setting} holds several paths; allowed: one")  # noqa: TRY004 - the text is wrong, not its type
    return AnswerPath(setting, text, path)


def _syntax_problem(error: JSONPathError, text: str) -> str:
    at = error.token.index if error.token is not None else -1
    if not text.startswith("$"):
        return "it must begin with $"
    if at < 0 or at >= len(text):
        return "it is incomplete"
    # The library's syntax messages name its internal tokens; its other messages are sentences.
    reason = "" if isinstance(error, JSONPathSyntaxError) else f": {error.args[0]}"
    return f"error at character {at + 1}, {text[at : at + 20]!r}{reason}"


def value_of(request: ProviderRequest, name: str) -> JsonValue:
    """Return the value of a variable. Raises ProviderError if the case does not have it."""
    if name == "chat_prompt":
        prompt = build_prompt(request)
        system = [ChatMessage("system", prompt.system)] if prompt.system else []
        return [{"role": turn.role, "content": turn.content} for turn in (*system, *prompt.turns)]
    root, *keys = name.split(".")
    value: JsonValue = getattr(request, root)
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise ProviderError(Failure("bad_request", f"the request needs {name}, which is missing from this case"))
        value = value[key]
    return value
