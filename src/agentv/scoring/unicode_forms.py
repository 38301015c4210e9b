"""Unicode's normal forms, in a time that grows with the text.

The standard library sorts the marks on one letter by moving each past all before it: 80,000 marks take seconds, during
which nothing else in the process runs.
"""

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import regex

NormalForm: TypeAlias = Literal["NFC", "NFD", "NFKC"]


@cache
def _long_run() -> "regex.Pattern[str]":
    import regex  # noqa: PLC0415 - 20 ms that plain English does not need

    # Marks, and the two sound marks of half-width Katakana, which become marks. No script puts thirty on one letter
    # (Unicode Standard Annex 15, Stream-Safe Text Format).
    return regex.compile(r"[\p{M}\uff9e\uff9f]{30}(?=[\p{M}\uff9e\uff9f])")


def normalized(form: NormalForm, text: str) -> str:
    r"""Return a text in a normal form; of more than thirty marks in a row each thirty are put in order by themselves.

    >>> normalized("NFC", "e\u0301")
    'é'
    """
    if text.isascii():
        return text
    ends = [run.end() for run in _long_run().finditer(text)]
    if not ends:
        return unicodedata.normalize(form, text)
    pieces = (text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True))
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)
