"""Where a text stands in another one as whole words: at its start, at its end or anywhere."""

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

Location: TypeAlias = Literal["start", "end", "any"]

_STARTS_AS_NUMBER = re.compile(r"[-+.]?\d")
# A part of a longer number: 5 in 2.5, 1,5, 10:5, 1/5, -5 and .5; 2 in 2.5.
_BEFORE_IN_NUMBER = re.compile(r"\d[.,:/]\Z|(?<![^\W_])[-+.\u2012\u2013\u2212]\Z")
_AFTER_IN_NUMBER = re.compile(r"[.,:/]\d")


def finder_of(expected: str, location: Location, *, ignores_space: bool = False) -> Callable[[str], bool]:
    """Return a function that returns True for a text with `expected` at a location, as whole words and whole numbers.

    With `ignores_space`, one blank may stand or be missing between any two characters of `expected`, unless both are
    digits.

    >>> [finder_of("4", "end")(text) for text in ("It is 4", "It is 14", "It is 0.4")]
    [True, False, False]
    """
    from agentv.scoring.text.words import is_edge  # noqa: PLC0415 - imports `regex`, which is slow

    expected = expected.strip()
    body = _spaced(expected) if ignores_space else re.escape(expected)
    pattern = re.compile(rf"{body}\s*\Z" if location == "end" else body)
    is_number = _STARTS_AS_NUMBER.match(expected) is not None
    ends_as_number = expected[-1:].isdecimal()

    def is_whole(match: re.Match[str]) -> bool:
        text, start = match.string, match.start()
        end = start + len(match[0].rstrip())
        if not (is_edge(text, start) and is_edge(text, end)):
            return False
        if is_number and _BEFORE_IN_NUMBER.search(text[max(start - 2, 0) : start]):
            return False
        return not (ends_as_number and _AFTER_IN_NUMBER.match(text, end))

    def is_found(text: str) -> bool:
        text = text.strip()
        found = pattern.match(text) if location == "start" else pattern.search(text)
        while found is not None:
            if is_whole(found):
                return True
            found = None if location == "start" else pattern.search(text, found.start() + 1)
        return False

    return is_found


def _spaced(expected: str) -> str:
    """Return a pattern of a text with optional blanks, in which blanks between digits are kept."""
    letters = [*expected]
    pieces = [re.escape(letter) for letter in letters]
    for index in range(1, len(letters)):
        if not (letters[index - 1].isdecimal() and letters[index].isdecimal()):
            pieces[index] = rf"\ ?{pieces[index]}"
    return "".join(pieces)
