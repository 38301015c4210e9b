"""Values of attributes whose names differ from program to program: the first that is there, as its type."""

from collections.abc import Mapping

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.usage import Usage, known_usage


def first(value: JsonObject, *names: str) -> JsonValue:
    """Return the first value under these names that says something; None if none does."""
    for name in names:
        if (found := value.get(name)) not in (None, "", []):
            return found
    return None


def text_at(value: JsonObject, *names: str) -> str | None:
    """Return the first value under these names as a text; None unless it is a text or a whole number."""
    found = first(value, *names)
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else None


_NOTHING: tuple[JsonValue, ...] = (None, "", "null", "[]", "{}", [], {})


def unread(attributes: JsonObject, read: Mapping[str, object], form: str, *, begin: str = "") -> str | None:
    """Return which attribute says something of which nothing was read; None if there is none.

    `read` has what was read of each attribute, and `form` names what each should be, such as `a JSON object`. If other
    programs may use the names, too, only texts that begin with `begin` count.
    """
    for name, found in read.items():
        value = attributes.get(name)
        if not found and value not in _NOTHING and (not begin or (isinstance(value, str) and value.startswith(begin))):
            advice = "if it was cut, raise OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
            return f"$.attributes.{name} is not {form}; {advice}"
    return None


def token_usage(
    input_tokens: JsonValue, output_tokens: JsonValue, cached: JsonValue, reasoning: JsonValue
) -> Usage | None:
    """Return token counts, which some programs write as text; None if neither input nor output is known."""
    given, made = whole_number(input_tokens), whole_number(output_tokens)
    if given is None and made is None:
        return None
    tokens = given or 0, made or 0
    usage = Usage(
        *tokens, cached_input=whole_number(cached) or 0, reasoning=whole_number(reasoning) or 0, total=sum(tokens)
    )
    return known_usage(usage)


_MOST_DIGITS = 16


def whole_number(value: JsonValue) -> int | None:
    """Return a whole number of at least 0; None for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value % 1 == 0
    return int(value) if is_whole and isinstance(value, int | float) else None
