"""The normalized form for comparing texts: one Unicode form, one case, one blank between words."""

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


class TextForm(Struct, frozen=True, kw_only=True):
    """A form of texts for comparison, in which some differences are ignored.

    `unicode` NFC combines a letter and a combining accent into one character; NFKC also replaces wide letters and
    ligatures by plain letters. Without `case_sensitive`, case is ignored (`Straße` equals `STRASSE`). With
    `normalize_whitespace`, a run of white space is one blank and none is left at the ends.
    """

    unicode: UnicodeForm = "NFC"
    case_sensitive: bool = False
    normalize_whitespace: bool = True

    def of(self, text: str) -> str:
        r"""Return a text in this form.

        >>> TextForm().of("  Cafe\u0301\n  NOIR")
        'café noir'
        """
        if not text.isascii():
            made = self._of_letters(text)
            return " ".join(made.split()) if self.normalize_whitespace else made
        plain = text if self.case_sensitive else text.lower()  # ASCII is the same in every Unicode form
        return _well_spaced(plain) if self.normalize_whitespace else plain

    def _of_letters(self, text: str) -> str:
        made = text if self.unicode == "none" else normalized(self.unicode, text)
        if self.case_sensitive:
            return made
        folded = made.casefold()
        # Case folding may decompose a letter: the capital I with a dot becomes i and a combining dot.
        return folded if self.unicode == "none" else normalized(self.unicode, folded)


def _well_spaced(plain: str) -> str:
    """Return an ASCII text with one blank between words.

    Most texts have that already, and checking is faster than splitting.
    """
    if any(map(plain.__contains__, _OTHER_BLANKS)):
        plain = plain.translate(_BLANKS)
    if "  " in plain or plain.startswith(" ") or plain.endswith(" "):
        return " ".join(plain.split())
    return plain


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
