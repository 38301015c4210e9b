"""JSONPath (RFC 9535): where an answer stands in a reply. Paths are read when a target is loaded."""

from collections.abc import Mapping
from typing import cast

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathSyntaxError
from msgspec import Struct

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json

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
