"""A text with what disguises words taken away, and where each of its characters stood before."""

import re
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal, TypeAlias

import regex
from msgspec import Struct

from agentv.scoring.results.aggregation import verdict_of, weighted_mean
from agentv.scoring.text.forms import normalized
from agentv.types.json_value import JsonObject

# Zero-width characters, soft hyphens, variation selectors, direction marks, fillers.
_INVISIBLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ACCENTS = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}])\p{Mn}+")
_REMOVED_BLANKS = re.compile(r"^\s+|(?<=\s)\s+")
# ASCII without marks on it; Korean letters, several of which become one syllable; what people see as one character.
_PIECE = regex.compile(r"[\x00-\x7f]+(?!\p{M})|[\u1100-\u11ff\u3131-\u318e\uffa0-\uffdc]+|\X")


class Folding(Struct, frozen=True, kw_only=True):
    """How a text is folded: wide, circled and other letters become plain ones (NFKC), invisible characters vanish.

    A run of white space becomes one blank. Case goes unless `case_sensitive`; with `accents`, those on Latin, Greek
    and Cyrillic letters go as well.
    """

    case_sensitive: bool = False
    accents: bool = False

    def of(self, text: str) -> str:
        r"""Return the folded text.

        >>> Folding().of("\uff26oo\u200b  \nBAR")
        'foo bar'
        """
        return " ".join(self._letters(text).split())

    def _letters(self, text: str) -> str:
        """Return the text folded but for its white space."""
        if text.isascii():
            return text if self.case_sensitive else text.lower()
        # A lone surrogate is no character, and nothing that searches bytes can take it.
        made = normalized("NFKC", _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text)))
        if not self.case_sensitive:
            made = normalized("NFKC", made.casefold())
        if self.accents:
            made = normalized("NFC", _ACCENTS.sub(r"\1", normalized("NFD", made)))
        return made

    def places(self, text: str) -> "Places":
        """Return where the characters of the folded text stand in `text`."""
        letters = self._letters(text)
        folded, shifts, shift = [0], [0], 0
        for blanks in _REMOVED_BLANKS.finditer(letters):
            folded.append(blanks.start() - shift)
            shift += len(blanks[0])
            shifts.append(shift)
        starts, origins = ([], []) if self._keeps_places(text, letters) else self._characters(text)
        return Places(tuple(folded), tuple(shifts), tuple(starts), tuple(origins))

    def _keeps_places(self, text: str, letters: str) -> bool:
        """Whether each character stays one and none vanishes, white space aside."""
        if text.isascii():
            return True
        if self.accents or len(text) != len(letters):
            return False
        return normalized("NFKC", text) == text and _INVISIBLE.search(text) is None

    def _characters(self, text: str) -> tuple[list[int], list[int]]:
        """Return where each visible character begins, once folded and in the text."""
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
    """Where the characters of a folded text stand in the original, in code points.

    From `folded[i]` on, `shifts[i]` characters of white space are gone. `starts` and `origins` say where each
    character begins, folded and in the original; both are empty when nothing but white space is gone.
    """

    folded: tuple[int, ...]
    shifts: tuple[int, ...]
    starts: tuple[int, ...]
    origins: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where `folded[start:end]`, which is not empty, begins and ends in the original."""
        return self._original(start)[0], self._original(end - 1)[1]

    def _original(self, place: int) -> tuple[int, int]:
        letter = place + self.shifts[bisect_right(self.folded, place) - 1]
        if not self.starts:
            return letter, letter + 1
        index = min(bisect_right(self.starts, letter), len(self.starts) - 1) - 1
        return self.origins[index], self.origins[index + 1]


def _visible_places(text: str) -> Sequence[int]:
    """Return where the characters stand that can be seen."""
    places: list[int] = []
    at = 0
    for invisible in _INVISIBLE.finditer(text):
        places.extend(range(at, invisible.start()))
        at = invisible.end()
    places.extend(range(at, len(text)))
    return places


Vote: TypeAlias = Literal["mean", "median", "majority", "min"]


def combine(values: Sequence[float], vote: Vote) -> float:
    """Return the opinions' common value on 0..1. `majority`: 1.0 when more than half say `pass`, else 0.0."""
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
    """Return how far several opinions are apart: each of them, their range, and their standard deviation (n)."""
    return {"values": list(values), "min": min(values), "max": max(values), "stdev": statistics.pstdev(values)}
