"""Evidence: the verdicts that stand in the judged texts, which are never the judge's own.

A judge may quote an answer, and tidy it on the way: quotes repaired, escapes removed, keys reordered.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.scoring.judge_replies.json_objects import (
    canonical,
    children,
    find_objects,
    finite_number,
    nested_objects,
    nested_texts,
)
from agentv.types.json_value import JsonObject, JsonValue

EVIDENCE_DEPTH = 3
"""The number of levels to which JSON inside JSON strings is decoded."""

VERDICT_KEYS = ("score", "checks", "criteria", "better")
"""Keys of objects that could pass for a verdict."""

DECIDING_KEYS = ("score", "satisfied", "better")
"""Keys whose values make a verdict good or bad."""

ENTRY_KEYS = ("checks", "criteria")
"""Keys of the lists in which a verdict has one entry for each requirement or criterion."""

_REACH = 60
"""The number of characters after a deciding key within which its value is looked for."""

_NUMBER = re.compile(r"(?<!\w)([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?)\s*(%?)")
_WORD = re.compile(r"[^\W\d_]+(?:[ /_-][^\W\d_]+)*")
_CODE_POINT = re.compile(r"\\+u([0-9a-f]{4})", re.IGNORECASE)
_QUOTES = str.maketrans(
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02\u2018\u2019\u201a\u201b`'", '"')
)


class Evidence(Struct, frozen=True):
    """The objects in the judged texts that could pass for a verdict, as canonical JSON.

    `complete` is False when some texts were too complex to be searched to their end.
    """

    objects: frozenset[str] = frozenset()
    complete: bool = True

    def holds(self, found: JsonObject) -> bool:
        """Return True if the judged texts contain an equal object."""
        return canonical(found) in self.objects


class Statements(Struct, frozen=True):
    """The values that closely follow a deciding key in the judged texts, whether or not they form JSON there."""

    values: frozenset[tuple[str, str | float]]

    def holds(self, found: JsonObject) -> bool:
        """Return True if the judged texts state every deciding value of an object, in whatever notation."""
        deciding = _deciding_values(found)
        return bool(deciding) and all(
            any((key, form) in self.values for form in _forms(value)) for key, value in deciding
        )


def collect_evidence(texts: Iterable[str], *, keys: Sequence[str] = VERDICT_KEYS) -> Evidence:
    """Return the objects with one of the keys, also nested ones and those inside JSON strings."""
    complete = True
    objects: set[str] = set()
    for text in texts:
        for found, whole in _objects_within(text, EVIDENCE_DEPTH, keys):
            complete = complete and whole
            if found is not None:
                objects.add(found)
    return Evidence(frozenset(objects), complete)


def collect_statements(texts: Iterable[str]) -> Statements:
    """Return the values of deciding keys that the texts state, each in one notation."""
    return Statements(frozenset(each for text in texts for each in _statements(text)))


def _objects_within(text: str, depth: int, keys: Sequence[str]) -> Iterator[tuple[str | None, bool]]:
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
    """Return a text as it is, without escapes before quotes, and with every quote repaired."""
    unescaped = text.replace('\\"', '"')
    repaired = unescaped.translate(_QUOTES)
    return dict.fromkeys((text, unescaped, repaired))


def _statements(text: str) -> Iterator[tuple[str, str | float]]:
    """Yield each deciding key of a text with every value that follows it closely."""
    plain = _plain(text)
    for key in DECIDING_KEYS:
        for match in re.finditer(key, plain):
            after = plain[match.end() : match.end() + _REACH].partition("}")[0].partition(key)[0]
            for number, percent in _NUMBER.findall(after):
                yield key, float(number) / (100 if percent else 1)
            for word in _WORD.findall(after):
                yield from ((key, each) for each in (word, *re.split(r"[ /_-]", word)))


def _plain(text: str) -> str:
    """Return a text in lower case without escapes, entities, invisible characters and unusual forms of letters."""
    decoded = _CODE_POINT.sub(lambda match: chr(int(match[1], 16)), html.unescape(text))
    folded = unicodedata.normalize("NFKC", decoded).casefold()
    return "".join(each for each in folded if unicodedata.category(each) != "Cf")


def _deciding_values(found: JsonObject) -> list[tuple[str, JsonValue]]:
    """Return the deciding values of a verdict itself or of its entries, not those of objects that it encloses."""
    lists = [found[key] for key in ENTRY_KEYS if isinstance(found.get(key), list)]
    entries = [entry for each in lists for entry in children(each) if isinstance(entry, Mapping)] or [found]
    return [(key, entry[key]) for entry in entries for key in DECIDING_KEYS if entry.get(key) is not None]


def _forms(value: JsonValue) -> Iterator[str | float]:
    """Yield the notations of a deciding value: 1 may stand as 1.0, true, yes or pass."""
    number = finite_number(value)
    if isinstance(value, bool):
        yield "true" if value else "false"
        number = float(value)
    if number is not None:
        yield number
        yield from {0.0: ("false",), 1.0: ("true",)}.get(number, ())
    elif isinstance(value, str):
        yield value.strip().casefold()
