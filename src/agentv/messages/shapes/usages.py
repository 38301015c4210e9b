"""Read token counts in the forms of APIs and frameworks, also those in messages."""

import re
from collections.abc import Mapping
from typing import TypeGuard

from msgspec.structs import replace

from agentv.messages.shapes.objects import plain_json
from agentv.types.usage import MAX_TOKENS, NO_COUNT, Usage, read_count, total_usage

_COUNT_NAMES: Mapping[str, tuple[str, ...]] = {
    "input": ("input", "input_tokens", "prompt_tokens", "prompt_token_count"),
    "output": ("output", "output_tokens", "completion_tokens", "candidates_token_count"),
    "cached_input": (
        "cached_input",
        "cached_input_tokens",
        "cache_read_tokens",
        "cache_read_input_tokens",
        "cached_content_token_count",
        "cached_prompt_tokens",
        "cached",
    ),
    "reasoning": ("reasoning", "reasoning_tokens", "thoughts_token_count"),
    "total": ("total", "total_tokens", "total_token_count"),
    "requests": ("requests", "successful_requests"),
}
"""The names of token counts: ours, those of vendors, and those of frameworks; all in snake_case."""

_DETAIL_NAMES: Mapping[str, tuple[str, ...]] = {
    "cached_input": ("cached_tokens", "cache_read", "cache_read_tokens"),
    "reasoning": ("reasoning_tokens", "reasoning"),
}
"""The names of counts inside the `…_details` objects of APIs."""

_INPUT_DETAILS = ("input_tokens_details", "prompt_tokens_details", "input_token_details")
_OUTPUT_DETAILS = ("output_tokens_details", "completion_tokens_details", "output_token_details", "details")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def read_usage(value: object) -> Usage | None:
    """Read token counts in the form of any API, from JSON or an object; the items of a list are summed.

    None if no known name has a whole number of at least 0; counts in details alone are not enough. Beside such a
    number, one that cannot be a count is NO_COUNT.
    """
    if isinstance(value, Usage):
        return value
    if value is None or isinstance(value, str | int | float):
        return None
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return total_usage(map(_of_one_request, value))
    fields = plain_json(value)
    if not isinstance(fields, Mapping):
        return None
    given = _with_snake_keys(fields)
    counts = {name: _first_count(given, names) for name, names in _COUNT_NAMES.items()}
    known = {name: count for name, count in counts.items() if count is not None}
    if not any(count != NO_COUNT or _is_positive(given, _COUNT_NAMES[name]) for name, count in known.items()):
        return None
    for name, places in (("cached_input", _INPUT_DETAILS), ("reasoning", _OUTPUT_DETAILS)):
        detail = _count_in_details(given, places, _DETAIL_NAMES[name])
        if name not in known and detail:
            known[name] = detail
    usage = _with_separate_counts(Usage(**known), given)
    return usage if "total" in known else replace(usage, total=usage.input + usage.output)


def _count_in_details(given: Mapping[str, object], places: tuple[str, ...], names: tuple[str, ...]) -> int | None:
    for place in places:
        details = given.get(place)
        if isinstance(details, Mapping):
            count = _first_count(_with_snake_keys(details), names)
            if count is not None:
                return count
    return None


def _with_snake_keys(fields: Mapping[str, object]) -> Mapping[str, object]:
    return {_CAPITAL.sub("_", str(key)).lower(): item for key, item in fields.items()}


def _first_count(given: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    """Return the first count under these names, else NO_COUNT for a number that cannot be one; None without either.

    A fraction is no number of tokens at all.
    """
    found = [value for value in map(given.get, names) if _is_number(value)]
    counts = [read_count(value) for value in found if not 0 <= value <= MAX_TOKENS or value % 1 == 0]
    return next((count for count in counts if count != NO_COUNT), NO_COUNT) if counts else None


def _with_separate_counts(usage: Usage, given: Mapping[str, object]) -> Usage:
    """Add to `input` and `output` what some APIs count apart: Anthropic the cached input, Google the thoughts."""
    if "input_tokens" in given:
        separate_counts = map(given.get, ("cache_read_input_tokens", "cache_creation_input_tokens"))
        usage = replace(usage, input=usage.input + sum(map(read_count, separate_counts)))
    if "candidates_token_count" in given or "thoughts_token_count" in given:
        usage = replace(usage, output=usage.output + usage.reasoning)
    return usage


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(given: Mapping[str, object], names: tuple[str, ...]) -> bool:
    """Return True if a value under these names is above 0; some servers write -1 for a count that they do not know."""
    return any(_is_number(value) and value > 0 for value in map(given.get, names))


def _of_one_request(value: object) -> Usage | None:
    usage = read_usage(value)
    return usage if usage is None or usage.requests else replace(usage, requests=1)


def usage_of_messages(items: object) -> Usage | None:
    """Return the sum of the token counts in messages, steps or replies; None if there are none.

    An item with counts is one request to a model, unless it has a count of requests.
    """
    if not isinstance(items, list | tuple):
        return None
    return total_usage(map(_usage_of_message, items))


def _usage_of_message(item: object) -> Usage | None:
    places = (item, member(item, "data"), member(item, "kwargs"))
    found = (read_usage(member(place, name)) for place in places for name in _USAGE_KEYS)
    usage = next((each for each in found if each is not None and each.total), None)
    return None if usage is None else replace(usage, requests=usage.requests or 1)


_USAGE_KEYS = ("usage", "usage_metadata", "usageMetadata")


def member(value: object, name: str) -> object:
    """Return the value of a key of a mapping, or of an attribute of any other object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
