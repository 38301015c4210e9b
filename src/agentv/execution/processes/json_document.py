"""A whole JSON document split into its records, each with the line it begins on: exports that are not JSON Lines."""

import json
import re
from collections.abc import Iterator

from agentv.types.json_value import JsonValue

PAGES = ("data", "runs")
"""The keys under which APIs return a page of records."""

_JSON = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = re.compile(r'"(?:[^"\\]|\\.)*"')


def is_json_file(name: str) -> bool:
    """Return True for a file that holds one document by its name; `.jsonl` and any other name mean lines."""
    return name.removesuffix(".gz").endswith(".json")


def split_document(text: str) -> Iterator[tuple[int, str]]:
    """Yield each record of a list, of the list under `data` or `runs`, or of objects one after another, with its line.

    An object without such a list is a record itself. Raises ValueError (JSONDecodeError) for text that is not JSON.
    """
    at, line, last = _next(text, 0), 1, 0
    while at < len(text):
        for start, end in _records(text, at):
            line += text.count("\n", last, start)
            last = start
            yield line, text[start:end]
        at = _next(text, _JSON.raw_decode(text, at)[1])


def _records(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the records in the value at `at`."""
    value, end = _JSON.raw_decode(text, at)
    listed = _list_place(text, at, value)
    if listed is None:
        yield at, end
        return
    at = _next(text, listed + 1)
    while text[at] != "]":
        _, end = _JSON.raw_decode(text, at)
        yield at, end
        at = _next(text, end)
        at = _next(text, at + 1) if text[at] == "," else at


def _list_place(text: str, at: int, value: JsonValue) -> int | None:
    """Return the place of the list of records in a value, None if it has none."""
    if isinstance(value, list):
        return at
    key = next((key for key in PAGES if isinstance(value, dict) and isinstance(value.get(key), list)), None)
    if key is None or not all(isinstance(item, dict) for item in value[key]):  # type: ignore[index,call-overload,union-attr] # an object, or there were no key
        return None
    at = _next(text, at + 1)
    while True:
        name = _KEY.match(text, at)
        at = _next(text, _next(text, name.end() if name else at) + 1)
        if name is not None and json.loads(name[0]) == key:
            return at
        at = _next(text, _next(text, _JSON.raw_decode(text, at)[1]) + 1)


def _next(text: str, at: int) -> int:
    """Return the index of the next character that is not white space."""
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
