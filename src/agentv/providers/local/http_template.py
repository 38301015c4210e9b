"""`{{ question }}` in the URL and body of an `http` target. Pure: a template and values in, what is sent out.

Every template is filled once and by its structure: no value, whatever it holds, becomes part of the syntax around it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, cast
from urllib.parse import quote, quote_plus, urlsplit

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathSyntaxError
from msgspec import Struct

from agentv.templating.variables import fill, variable_names
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json

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
"""Every name that a template may use, beside `metadata.PATH`: the keys of a ProviderRequest."""

JSON, FORM, TEXT = "application/json", "application/x-www-form-urlencoded", "text/plain"

ValueOf: TypeAlias = Callable[[str], JsonValue]
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{\s*([A-Za-z_][^\s{}]*)\s*\}\}', re.DOTALL)
_ALONE = re.compile(r"\{\{\s*([A-Za-z_][^\s{}]*)\s*\}\}")


class Slot(Struct, frozen=True):
    """A variable that stands for a whole JSON value, not for a part of a text."""

    name: str


_Tree: TypeAlias = "Slot | str | int | float | list[_Tree] | dict[str, _Tree] | None"


class BodyTemplate(Struct, frozen=True):
    """A body that was read. `names` are the variables it uses."""

    media_type: str
    tree: _Tree
    names: frozenset[str]

    def fill(self, value_of: ValueOf) -> bytes:
        """Return the body with its values."""
        if self.media_type == JSON:
            return compact_json(_filled(self.tree, value_of)).encode(errors="replace")
        escape = quote_plus if self.media_type == FORM else str
        return fill(cast(str, self.tree), lambda name: escape(_as_text(value_of(name)))).encode(errors="replace")


class UrlTemplate(Struct, frozen=True):
    """An address that was read; values are percent-encoded, so that none leads to another place."""

    text: str
    names: frozenset[str]

    def fill(self, value_of: ValueOf) -> str:
        """Return the address with its values. Raises ProviderError for `..`, which would lead elsewhere as it is."""

        def encoded(name: str) -> str:
            value = _as_text(value_of(name))
            if value in (".", ".."):
                message = f"{{{{ {name} }}}} is {value!r} in this case, which would make another address of the url"
                raise ProviderError(Failure("bad_request", message))
            return quote(value, safe="", errors="replace")

        return fill(self.text, encoded)


def parse_url(text: str) -> UrlTemplate:
    """Read the `url` of a target. Raises ValueError, a sentence that starts with `url`."""
    if not text.startswith(("http://", "https://")):
        raise ValueError("url must start with http:// or https://")
    names = _known("url", variable_names(text))
    if "{{" in urlsplit(text).netloc:
        raise ValueError("url: a variable may stand in the path and the query, not in the host")
    return UrlTemplate(text, names)


def parse_body(body: JsonValue, content_type: str) -> BodyTemplate:
    """Read the `body` of a target: an object, a list, or a text that is JSON once its variables are values.

    Raises ValueError, a sentence that starts with `body`, when it cannot be read, or what `content_type` names is none
    of the three that values can be put into safely.
    """
    media_type = content_type.split(";", maxsplit=1)[0].strip().lower()
    if media_type.endswith("+json"):
        media_type = JSON
    if media_type not in (JSON, FORM, TEXT):
        raise ValueError(f"body cannot be filled as {media_type}; allowed: {JSON}, {FORM}, {TEXT}")
    if media_type != JSON:
        if not isinstance(body, str):
            raise ValueError(f"body must be a text when it is sent as {media_type}")
        return BodyTemplate(media_type, body, _known("body", variable_names(body)))
    tree = _parse_json(body) if isinstance(body, str) else _parse(body)
    return BodyTemplate(JSON, tree, _known("body", tuple(_names_in(tree))))


def _parse_json(text: str) -> _Tree:
    """Read JSON in which `{{ name }}` may stand for a value; inside a string it stands for a part of the text."""
    slots: dict[str, Slot] = {}

    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        marker = f"\ue000{len(slots)}".ljust(len(match[0]) - 2)  # as long, so that positions in messages are right
        slots[marker] = Slot(match[1])
        return f'"{marker}"'

    try:
        value = json.loads(_PIECES.sub(put, text))
    except json.JSONDecodeError as error:
        raise ValueError(f"body is no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("body is nested too deeply") from None
    return _map_texts(value, lambda leaf: slots.get(leaf, leaf))


def _parse(body: JsonValue) -> _Tree:
    """Read a body written as YAML: a text that is only `{{ name }}` stands for the value."""

    def read(leaf: str) -> Slot | str:
        alone = _ALONE.fullmatch(leaf)
        return Slot(alone[1]) if alone else leaf

    return _map_texts(cast(_Tree, body), read)


def _map_texts(tree: _Tree, read: Callable[[str], Slot | str]) -> _Tree:
    if isinstance(tree, str):
        return read(tree)
    if isinstance(tree, Mapping):
        return {key: _map_texts(value, read) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_map_texts(item, read) for item in tree]
    return tree


def _filled(tree: _Tree, value_of: ValueOf) -> JsonValue:
    match tree:
        case Slot(name):
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
        case Slot(name):
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


def _known(called: str, names: tuple[str, ...]) -> frozenset[str]:
    unknown = [name for name in names if name not in REQUEST_VARIABLES and not name.startswith("metadata.")]
    if unknown:
        listed = ", ".join((*REQUEST_VARIABLES, "metadata.PATH"))
        raise ValueError(f"{called} has the unknown variable {{{{ {unknown[0]} }}}}; known: {listed}")
    return frozenset(names)


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else "" if value is None else compact_json(value)


_ENVIRONMENT = JSONPathEnvironment(strict=True)
_EXCERPT = 500


class AnswerPath(Struct, frozen=True):
    """A path that was read. `called` is the setting that it stands in."""

    called: str
    text: str
    path: JSONPath

    def find(self, reply: JsonValue) -> list[JsonValue]:
        """Return all that the path leads to, at least one. Raises ProviderError when that is nothing."""
        try:
            found = self.path.findall(reply) if isinstance(reply, Mapping | list) else []
        except (JSONPathError, RecursionError) as error:
            raise ProviderError(
                Failure("unexpected_shape", f"the reply is nested too deeply for {self.text}")
            ) from error
        if not found:
            message = f"{self.called}: {self.text} leads nowhere in the reply: {compact_json(reply)[:_EXCERPT]}"
            raise ProviderError(Failure("unexpected_shape", message))
        return cast(list[JsonValue], found)  # parts of what is JSON


def parse_path(text: str, *, called: str) -> AnswerPath:
    """Read a path. Raises ValueError that starts with `called` and names the character where it goes wrong."""
    try:
        path = _ENVIRONMENT.compile(text)
    except RecursionError:
        raise ValueError(f"{called} is nested too deeply") from None
    except JSONPathError as error:
        raise ValueError(
            f"{called} is no JSONPath: {_what_is_wrong(error, text)}; allowed: $.answer, $.a[0]['b c'], …"
        ) from None
    if not isinstance(path, JSONPath):
        raise ValueError(f"{called} is several paths; allowed: one")  # noqa: TRY004 - the text is wrong, not its type
    return AnswerPath(called, text, path)


def _what_is_wrong(error: JSONPathError, text: str) -> str:
    at = error.token.index if error.token is not None else -1
    if not text.startswith("$"):
        return "it must begin with $"
    if at < 0 or at >= len(text):
        return "it ends too early"
    # The library's own words for a wrong syntax name its tokens; its other messages are sentences.
    said = "" if isinstance(error, JSONPathSyntaxError) else f": {error.args[0]}"
    return f"it goes wrong at character {at + 1}, {text[at : at + 20]!r}{said}"
