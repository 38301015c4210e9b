"""Search for JSON objects in free text, with bounded work, and for verdicts that a judge copied from the judged texts.

A copy is recognised even if its quotes, its escapes or the order of its keys differ from those in the judged text.
"""

import html
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct

from agentv.types.json_value import JsonObject, JsonValue

MAX_OBJECT_CHARS = 100_000
"""find_objects and whole_object do not read an object longer than this, in characters."""

MAX_FAILED_TRIES = 2_000
"""find_objects stops after this many `{` at which no object can be read, which bounds its time."""

MAX_DEPTH = 64
"""find_objects and whole_object do not read an object nested deeper than this.

Serializing it could exceed the recursion limit.
"""

_MAX_TOKEN_CHARS = 32
"""A decoding error this close to the end of a window may come from a number or word that was cut off."""

_OPENING = re.compile(r'\{\s*["}]')

# The limits of `last_object`: characters searched, and attempts to read an object.
LAST_OBJECT_CHARS = 1_000_000
LAST_OBJECT_TRIES = 5_000


class FoundObjects(Struct, frozen=True):
    """The outermost readable objects of a text, in order. `complete` is False if the search stopped early.

    `skipped_long` is True if there may be an object that was too long to be read.
    """

    objects: tuple[JsonObject, ...]
    complete: bool = True
    skipped_long: bool = False


class _UnreadableError(ValueError):
    """An object with a duplicate key, whose value is ambiguous, or one nested too deep."""


def _reject_duplicates(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        raise _UnreadableError
    return entry


# Every number is read as a float, so that 1 and 1.0 have the same canonical JSON, and a huge number is infinite
# instead of an error.
_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicates, parse_int=float)
_PLAIN_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicates)


def find_objects(text: str) -> FoundObjects:
    """Return the readable objects of a text, in order; nested ones are part of their parents.

    An object is unreadable if it has a duplicate key, is nested too deep, or has over 100,000 characters. Objects
    inside an unreadable one may still be found. All numbers are floats.
    """
    found: list[JsonObject] = []
    position, failures, skipped_long = 0, 0, False
    while (opening := _OPENING.search(text, position)) is not None:
        start = opening.start()
        # The decoder counts the lines before an error: on the whole text, that would make the search quadratic.
        window = text[start : start + MAX_OBJECT_CHARS]
        try:
            value, length = _read_object(window)
        except (ValueError, RecursionError) as error:
            failures += 1
            skipped_long = skipped_long or (len(text) - start > len(window) and _is_cut_off(error, window))
            if failures >= MAX_FAILED_TRIES:
                return FoundObjects(tuple(found), complete=False, skipped_long=skipped_long)
            position = start + 1
        else:
            found.append(value)
            position = start + length
    return FoundObjects(tuple(found), skipped_long=skipped_long)


def _is_cut_off(error: Exception, window: str) -> bool:
    """Return True if an object could not be read because it may go on after the window."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or error.pos >= len(window) - _MAX_TOKEN_CHARS


def whole_object(text: str) -> JsonObject | None:
    """Return the object of which a text consists, apart from white space around it; None for any other text.

    The object must be readable in the sense of find_objects.
    """
    stripped = text.strip()
    if not stripped.startswith("{") or len(stripped) > MAX_OBJECT_CHARS:
        return None
    try:
        value, length = _read_object(stripped)
    except (ValueError, RecursionError):
        return None
    return value if length == len(stripped) else None


def last_object(text: str) -> JsonObject | None:
    """Return the last complete object of a text, such as a program's output; None without one.

    The last million characters are searched, with at most 5,000 attempts. Integers stay integers. An object with a
    duplicate key is not read; MAX_OBJECT_CHARS and MAX_DEPTH do not apply.
    """
    tail = text[-LAST_OBJECT_CHARS:]
    tries = LAST_OBJECT_TRIES
    end = tail.rfind("}")
    while end >= 0 and tries > 0:
        start = tail.rfind("{", 0, end)
        while start >= 0 and tries > 0:
            tries -= 1
            found = _object_between(tail, start, end + 1)
            if found is not None:
                return found
            start = tail.rfind("{", 0, start)
        end = tail.rfind("}", 0, end)
    return None


def _object_between(text: str, start: int, end: int) -> JsonObject | None:
    """Return the object that is exactly `text[start:end]`, or None."""
    try:
        value, decoded_end = _PLAIN_DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return cast(JsonObject, value) if decoded_end == end else None


def _read_object(window: str) -> tuple[JsonObject, int]:
    """Return the object at the start of a window, and its length. Raises ValueError or RecursionError without one."""
    value, length = _DECODER.raw_decode(window)
    openings = window.count("{", 0, length) + window.count("[", 0, length)
    if openings >= MAX_DEPTH and _is_too_deep(value):
        raise _UnreadableError
    return cast(JsonObject, value), length


def _is_too_deep(value: JsonValue) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return False
    return True


def children(value: JsonValue) -> Iterable[JsonValue]:
    """Return the values inside an object or a list, as the decoder reads them; nothing for any other value."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def nested_objects(value: JsonValue) -> Iterator[JsonObject]:
    """Yield every object inside a JSON value, itself included, parents before children, in order."""
    waiting: list[JsonValue] = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            yield current
        inner = [child for child in children(current) if isinstance(child, (dict, list))]
        waiting.extend(reversed(inner))


def nested_texts(value: JsonValue) -> Iterator[str]:
    """Yield every string inside a JSON value, except keys."""
    waiting: list[JsonValue] = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            yield current
        waiting.extend(children(current))


def canonical(value: JsonValue) -> str:
    """Return JSON that is the same for equal values, whatever the order of their keys, but differs for 1 and 1.0."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def finite_number(value: JsonValue) -> float | None:
    """Return a JSON number as a float; None for everything else: booleans, texts, NaN, infinity, too large integers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer with more than 308 digits
        return None
    return number if math.isfinite(number) else None


_WRITTEN_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?", re.ASCII)


def written_number(value: JsonValue) -> float | None:
    """Return a JSON number, or the number of which a text consists, as in "0.9"; None for everything else."""
    if isinstance(value, str) and _WRITTEN_NUMBER.fullmatch(value.strip()):
        return finite_number(float(value))
    return finite_number(value)


EVIDENCE_DEPTH = 3
"""The number of levels to which JSON inside JSON strings is decoded."""

VERDICT_KEYS = ("score", "checks", "criteria", "better")
"""An object with any of these keys looks like a verdict."""

DECIDING_KEYS = ("score", "satisfied", "better")
"""The keys of a verdict whose values say how good an answer is."""

ENTRY_KEYS = ("checks", "criteria")
"""Keys of the lists in which a verdict has one entry for each requirement or criterion."""

_STATEMENT_CHARS = 60
"""The number of characters after a deciding key within which its value is looked for."""

_NUMBER = re.compile(r"(?<!\w)([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?)\s*(%?)")
_WORD = re.compile(r"[^\W\d_]+(?:[ /_-][^\W\d_]+)*")
_CODE_POINT = re.compile(r"\\+u([0-9a-f]{4})", re.IGNORECASE)
_QUOTES = str.maketrans(
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02\u2018\u2019\u201a\u201b`'", '"')
)


class Evidence(Struct, frozen=True):
    """The objects in the judged texts that have one of the searched keys, as canonical JSON.

    `complete` is False if a text was too complex to be searched completely.
    """

    objects: frozenset[str] = frozenset()
    complete: bool = True

    def contains(self, found: JsonObject) -> bool:
        """Return True if the judged texts contain an equal object."""
        return canonical(found) in self.objects


class Statements(Struct, frozen=True):
    """What the judged texts state, as JSON or otherwise: each deciding key with each value that closely follows it."""

    values: frozenset[tuple[str, str | float]]

    def contains(self, found: JsonObject) -> bool:
        """Return True if an object has deciding values, and the judged texts state all of them in any notation."""
        deciding = _deciding_values(found)
        return bool(deciding) and all(
            any((key, notation) in self.values for notation in _notations(value)) for key, value in deciding
        )


def collect_evidence(texts: Iterable[str], *, keys: Sequence[str] = VERDICT_KEYS) -> Evidence:
    """Return the objects in the texts that have any of the keys, including nested ones and JSON inside strings."""
    complete = True
    objects: set[str] = set()
    for text in texts:
        for found, is_complete in _objects_within(text, EVIDENCE_DEPTH, keys):
            complete = complete and is_complete
            if found is not None:
                objects.add(found)
    return Evidence(frozenset(objects), complete)


def collect_statements(texts: Iterable[str]) -> Statements:
    """Return the deciding keys that the texts state, with their values."""
    return Statements(frozenset(each for text in texts for each in _statements(text)))


def _objects_within(text: str, depth: int, keys: Sequence[str]) -> Iterator[tuple[str | None, bool]]:
    """Yield pairs of an object and a flag: (canonical JSON, True) for each object with any of the keys.

    Also yield (None, complete) for each search of a text, and (None, False) for a text too deep inside others to be
    searched.
    """
    if "{" not in text:
        return
    for reading in _readings(text):
        found = find_objects(reading)
        yield None, found.complete
        for outer in found.objects:
            for each in nested_objects(outer):
                if any(key in each for key in keys):
                    yield canonical(each), True
            for inner in nested_texts(outer):
                if depth > 0:
                    yield from _objects_within(inner, depth - 1, keys)
                elif "{" in inner:
                    yield None, False


def _readings(text: str) -> Iterable[str]:
    """Return a text, its copy without escapes before `"`, and a copy in which all other quotes are also `"`.

    Copies that do not differ are returned once.
    """
    unescaped = text.replace('\\"', '"')
    repaired = unescaped.translate(_QUOTES)
    return dict.fromkeys((text, unescaped, repaired))


def _statements(text: str) -> Iterator[tuple[str, str | float]]:
    """Yield each deciding key of a text with every value that follows it closely."""
    plain = _plain(text)
    for key in DECIDING_KEYS:
        for match in re.finditer(key, plain):
            after = plain[match.end() : match.end() + _STATEMENT_CHARS].partition("}")[0].partition(key)[0]
            for number, percent in _NUMBER.findall(after):
                yield key, float(number) / (100 if percent else 1)
            for words in _WORD.findall(after):
                yield from ((key, each) for each in (words, *re.split(r"[ /_-]", words)))


def _plain(text: str) -> str:
    """Return a text in lower case, with code-point escapes and HTML entities decoded, and without invisible characters.

    Unusual forms of letters become the usual ones.
    """
    decoded = _CODE_POINT.sub(lambda match: chr(int(match[1], 16)), html.unescape(text))
    folded = unicodedata.normalize("NFKC", decoded).casefold()
    return "".join(each for each in folded if unicodedata.category(each) != "Cf")


def _deciding_values(found: JsonObject) -> list[tuple[str, JsonValue]]:
    """Return the deciding keys and values of a verdict's entries; those of the verdict itself if it has no entries."""
    lists = [found[key] for key in ENTRY_KEYS if isinstance(found.get(key), list)]
    entries = [entry for each in lists for entry in children(each) if isinstance(entry, Mapping)] or [found]
    return [(key, entry[key]) for entry in entries for key in DECIDING_KEYS if entry.get(key) is not None]


def _notations(value: JsonValue) -> Iterator[str | float]:
    """Yield the notations of a deciding value: 1, 1.0 and true are equal, as are 0 and false; text is in lower case.

    A text also has the numbers in it, as texts such as "0.9" and "4/5" are scores.
    """
    number = float(value) if isinstance(value, bool) else finite_number(value)
    if number is not None:
        yield number
        yield from {0.0: ("false",), 1.0: ("true",)}.get(number, ())
    elif isinstance(value, str):
        yield value.strip().casefold()
        for found, percent in _NUMBER.findall(value.casefold()):
            yield float(found) / (100 if percent else 1)
