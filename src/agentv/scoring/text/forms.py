"""The normalized form for comparing texts: one Unicode form, one case, one blank between words."""

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    import regex


NormalForm: TypeAlias = Literal["NFC", "NFD", "NFKC"]


@cache
def _long_mark_run() -> "regex.Pattern[str]":
    import regex  # noqa: PLC0415 - slow to import, and not needed for ASCII

    # Combining marks, including the two sound marks of half-width Katakana. No script puts thirty on one letter
    # (Unicode Standard Annex 15, Stream-Safe Text Format).
    return regex.compile(r"[\p{M}\uff9e\uff9f]{30}(?=[\p{M}\uff9e\uff9f])")


def normalized(form: NormalForm, text: str) -> str:
    r"""Return a text in a normal form; runs of more than thirty combining marks are normalized in pieces of thirty.

    >>> normalized("NFC", "e\u0301")
    'é'
    """
    if text.isascii():
        return text
    ends = [run.end() for run in _long_mark_run().finditer(text)]
    if not ends:
        return unicodedata.normalize(form, text)
    pieces = (text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True))
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)


UnicodeForm: TypeAlias = Literal["NFC", "NFKC", "none"]

_OTHER_BLANKS = tuple(letter for letter in map(chr, range(128)) if letter.isspace() and letter != " ")
_BLANKS = str.maketrans(dict.fromkeys(_OTHER_BLANKS, " "))
_PIECE = 1 << 16
_WORDS_OF_PIECE = re.compile(rf".{{1,{_PIECE}}}\S*", re.DOTALL)
"""A piece of a text that does not end within a word."""


class TextForm(Struct, frozen=True, kw_only=True):
    """A form of texts for comparison, in which some differences are ignored."""

    unicode: UnicodeForm = "NFC"
    """NFC combines a letter and a combining accent into one character.

    NFKC also replaces wide letters and ligatures by plain letters.
    """
    case_sensitive: bool = False
    """If False, case is ignored (`Straße` equals `STRASSE`)."""
    normalize_whitespace: bool = True
    """True if a run of white space becomes one blank, and none is left at the ends."""

    def of(self, text: str) -> str:
        r"""Return a text in this form.

        >>> TextForm().of("  Cafe\u0301\n  NOIR")
        'café noir'
        """
        if not text.isascii():
            made = self._of_letters(text)
            return well_spaced(made) if self.normalize_whitespace else made
        plain = text if self.case_sensitive else text.lower()  # ASCII is the same in every Unicode form
        return well_spaced(plain) if self.normalize_whitespace else plain

    def _of_letters(self, text: str) -> str:
        made = text if self.unicode == "none" else normalized(self.unicode, text)
        if self.case_sensitive:
            return made
        folded = made.casefold()
        # Case folding may decompose a letter: the capital I with a dot becomes i and a combining dot.
        return folded if self.unicode == "none" else normalized(self.unicode, folded)


def well_spaced(text: str) -> str:
    """Return a text with one blank between words and none at the ends.

    Most ASCII texts have that already, and checking is faster than splitting. A long text is split in pieces, because
    its words take many times its memory.
    """
    if text.isascii():
        if any(map(text.__contains__, _OTHER_BLANKS)):
            text = text.translate(_BLANKS)
        if not ("  " in text or text.startswith(" ") or text.endswith(" ")):
            return text
    if len(text) <= _PIECE:
        return " ".join(text.split())
    pieces = (" ".join(piece[0].split()) for piece in _WORDS_OF_PIECE.finditer(text))
    return " ".join(filter(None, pieces))


SWAPS = {"4": "a", "@": "a", "3": "e", "1": "il", "0": "o", "5": "s", "$": "s", "7": "t"}
"""The letters that a digit or sign may replace."""

_SAME_KEY = {letter: letters[0] for letters in ("i1l", "a4@", "e3", "o0", "s5$", "t7") for letter in letters}
_KEYS = {**_SAME_KEY, **{letter.upper(): key for letter, key in _SAME_KEY.items() if letter.isalpha()}}
_TABLE = str.maketrans(_KEYS)
_REPLACEMENTS = tuple((letter, key) for letter, key in _KEYS.items() if letter != key)


def swap_key(text: str) -> str:
    """Return a key of the same length, in which letters and the signs that may replace them are one character.

    Texts that differ only in such signs have the same key, as do a few other texts (`tail` and `tall`).
    """
    if text.isascii():
        return text.translate(_TABLE)
    for letter, key in _REPLACEMENTS:  # faster than `translate` for text beyond ASCII (bench/)
        text = text.replace(letter, key)
    return text


def is_disguised(written: str, term: str) -> bool:
    """Return True if `written`, which is as long as `term`, is the term, literally or with signs in place of letters.

    Digits alone are a number and not a disguised word, unless the term has the same digits.

    >>> is_disguised("5h1t", "shit"), is_disguised("tail", "tall"), is_disguised("455", "ass")
    (True, False, False)
    """
    if written == term:
        return True
    if not all(
        sign == letter or letter.lower() in SWAPS.get(sign, "") for sign, letter in zip(written, term, strict=True)
    ):
        return False
    return any(map(str.isalpha, written)) or not any(map(str.isdigit, written))
