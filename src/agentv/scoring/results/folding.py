"""Folding of texts, so that disguised words are found, with their original positions; and votes on opinions."""

import re
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal, TypeAlias

import regex
from msgspec import Struct

from agentv.scoring.results.aggregation import weighted_mean
from agentv.scoring.text.forms import normalized
from agentv.types.evaluation import verdict_of
from agentv.types.json_value import JsonObject

# Zero-width characters, soft hyphens, variation selectors, direction marks, fillers.
_INVISIBLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ACCENTS = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}])\p{Mn}+")
_REMOVED_BLANKS = re.compile(r"^\s+|(?<=\s)\s+")
# ASCII without a combining mark after it; Korean letters that compose into syllables; any other grapheme.
_PIECE = regex.compile(r"[\x00-\x7f]+(?!\p{M})|[\u1100-\u11ff\u3131-\u318e\uffa0-\uffdc]+|\X")


class Folding(Struct, frozen=True, kw_only=True):
    """Options of folding a text.

    Wide, circled and similar letters become plain (NFKC), invisible characters are removed, and a run of white space
    becomes one blank.
    """

    case_sensitive: bool = False
    """False if letters become lower case."""
    accents: bool = False
    """True if the accents of Latin, Greek and Cyrillic letters are removed as well."""

    def of(self, text: str) -> str:
        r"""Return the folded text.

        >>> Folding().of("\uff26oo\u200b  \nBAR")
        'foo bar'
        """
        return " ".join(self._letters(text).split())

    def _letters(self, text: str) -> str:
        """Return the folded text, with its white space unchanged."""
        if text.isascii():
            return text if self.case_sensitive else text.lower()
        # A lone surrogate is not a character and cannot be encoded for a search on bytes.
        made = normalized("NFKC", _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text)))
        if not self.case_sensitive:
            made = normalized("NFKC", made.casefold())
        if self.accents:
            made = normalized("NFC", _ACCENTS.sub(r"\1", normalized("NFD", made)))
        return made

    def places(self, text: str) -> "Places":
        """Return the positions in `text` of the folded text's characters."""
        letters = self._letters(text)
        folded, shifts, shift = [0], [0], 0
        for blanks in _REMOVED_BLANKS.finditer(letters):
            folded.append(blanks.start() - shift)
            shift += len(blanks[0])
            shifts.append(shift)
        starts, origins = ([], []) if self._keeps_places(text, letters) else self._characters(text)
        return Places(tuple(folded), tuple(shifts), tuple(starts), tuple(origins))

    def _keeps_places(self, text: str, letters: str) -> bool:
        """Return True if, apart from white space, each character is folded to exactly one character."""
        if text.isascii():
            return True
        if self.accents or len(text) != len(letters):
            return False
        return normalized("NFKC", text) == text and _INVISIBLE.search(text) is None

    def _characters(self, text: str) -> tuple[list[int], list[int]]:
        """Return the start of each visible character in the folded text and in the original."""
        visible = _visible_places(text)
        starts: list[int] = []
        origins: list[int] = []
        folded = 0
        for piece in _PIECE.finditer(_INVISIBLE.sub("", text)):
            length = len(self._letters(piece[0]))
            one_by_one = piece[0].isascii()
            starts.extend(range(folded, folded + length) if one_by_one else (folded,))
            origins.extend(visible[piece.start() : piece.end()] if one_by_one else (visible[piece.start()],))
            folded += length
        return [*starts, folded], [*origins, len(text)]


class Places(Struct, frozen=True):
    """The positions of a folded text's characters in the original, in code points."""

    folded: tuple[int, ...]
    """The positions in the folded text from which the `shifts` apply."""
    shifts: tuple[int, ...]
    """From `folded[i]` on, `shifts[i]` white-space characters have been removed."""
    starts: tuple[int, ...]
    """The start of each folded character, before white space is removed; empty if only white space was removed."""
    origins: tuple[int, ...]
    """The start of each of these characters in the original; empty if only white space was removed."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the start and end in the original of the non-empty `folded[start:end]`."""
        return self._original(start)[0], self._original(end - 1)[1]

    def _original(self, place: int) -> tuple[int, int]:
        letter = place + self.shifts[bisect_right(self.folded, place) - 1]
        if not self.starts:
            return letter, letter + 1
        index = min(bisect_right(self.starts, letter), len(self.starts) - 1) - 1
        return self.origins[index], self.origins[index + 1]


def _visible_places(text: str) -> Sequence[int]:
    """Return the positions of the visible characters."""
    places: list[int] = []
    position = 0
    for invisible in _INVISIBLE.finditer(text):
        places.extend(range(position, invisible.start()))
        position = invisible.end()
    places.extend(range(position, len(text)))
    return places


Vote: TypeAlias = Literal["mean", "median", "majority", "min"]


def combine(values: Sequence[float], vote: Vote) -> float:
    """Return the combined value of opinions, 0..1. `majority` is 1.0 if more than half pass, else 0.0."""
    match vote:
        case "mean":
            return weighted_mean((1.0, value) for value in values)
        case "median":
            return float(statistics.median(values))
        case "min":
            return min(values)
        case "majority":
            passing = sum(verdict_of(value) == "pass" for value in values)
            return 1.0 if 2 * passing > len(values) else 0.0


def spread(values: Sequence[float]) -> JsonObject:
    """Return the spread of several opinions: values, minimum, maximum, and standard deviation (divided by n)."""
    return {"values": list(values), "min": min(values), "max": max(values), "stdev": statistics.pstdev(values)}
