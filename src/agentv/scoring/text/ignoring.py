"""Forms of a text without its punctuation, its marks of Markdown or its white space, in which texts are compared."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Literal, TypeAlias

from agentv.scoring.text.forms import TextForm, well_spaced

Ignored: TypeAlias = Literal["case", "punctuation", "markdown", "space"]
Form: TypeAlias = Callable[[str], str]

_MEANINGFUL = "#%&@*/\\_\u2030\u2031"
"""Punctuation by Unicode that changes what a text means: `C#` and `50%` keep theirs."""
_HYPHENS = "-\u2010\u2011\u2012\u2013\u2212"
_WITHIN_WORDS = f".'\u2018\u2019{_HYPHENS}"
"""Punctuation that leaves one word when it is dropped: `U.S.A.` becomes `USA`, but `yes,no` becomes `yes no`."""
_ZERO_WIDTH = re.compile("[\u200b\u2060\ufeff]")
_BLANKS_BESIDE_OTHERS = re.compile(r"\s++(?!\d)|(?<!\d)\s++")


def forms_of(ignored: Iterable[Ignored], *, case_sensitive: bool) -> tuple[Form, ...]:
    """Return the forms in which two texts are compared: they match if they do so in one of them.

    The first leaves nothing out. With `markdown` there is one with and one without its marks, so that texts that match
    as they are written still do.
    """
    parts = frozenset(ignored)
    letters = TextForm(case_sensitive=case_sensitive and "case" not in parts, normalize_whitespace=False).of
    forms: list[Form] = [letters]
    without: Form = letters
    if parts & {"punctuation", "space"}:
        drop = partial(without_signs, punctuation="punctuation" in parts, space="space" in parts)
        without = lambda text: drop(letters(text))  # noqa: E731 - shorter than a function
        forms.append(without)
    if "markdown" in parts:
        forms.append(lambda text: without(without_markdown(text)))
    return tuple(forms)


@cache
def _signs() -> "re.Pattern[str]":
    """Return the pattern of a run of punctuation and white space; a single blank is none, as most runs are one.

    It is made when needed, which takes milliseconds.
    """
    listed = (sign for sign in map(chr, range(1 << 16)) if unicodedata.category(sign)[0] == "P")
    signs = re.escape("".join(sign for sign in listed if sign not in _MEANINGFUL)) + "`\u00b4\u2212"
    return re.compile(rf"[{signs}][{signs}\s]*|\s(?:\s|(?=[{signs}]))[{signs}\s]*|[^\S ]")


def without_signs(text: str, *, punctuation: bool, space: bool) -> str:
    """Return a text without its punctuation, its white space or both; without `space`, one blank is left of a run.

    What may be a part of a number stays: signs between digits, a point or hyphen before one, one blank between two.
    A hyphen is dropped between letters only (`e-mail`, but not in `A-`).

    >>> without_signs("(Yes), it's 3.14.", punctuation=True, space=False)
    'Yes its 3.14'
    >>> without_signs("10 km, 20 30", punctuation=False, space=True)
    '10km,20 30'
    """
    if not text.isascii():
        text = _ZERO_WIDTH.sub("", text)
    if punctuation:
        text = _signs().sub(_remains_of, text.strip())
    if space:
        # What is left is white space between two digits, of which only the first is left.
        text = re.sub(r"\s", " ", _BLANKS_BESIDE_OTHERS.sub("", text.strip()))
    return text


def _neighbours(run: re.Match[str]) -> tuple[str, str]:
    """Return the characters before and after a match; "" at the ends of the text."""
    return run.string[max(run.start() - 1, 0) : run.start()], run.string[run.end() : run.end() + 1]


def _remains_of(run: re.Match[str]) -> str:
    """Return what is left of a run of punctuation and white space between two other characters."""
    left, right = _neighbours(run)
    written = "".join(run[0].split())
    if left.isdecimal() and right.isdecimal():
        return "".join("-" if sign in _HYPHENS else sign for sign in written) or " "
    kept = "" if _is_letter(left) and _is_letter(right) else "".join("-" for sign in written if sign in _HYPHENS)
    if right.isdecimal() and written.endswith("."):
        kept += "."
    if not (left and right):
        return kept
    has_blank = len(written) < len(run[0])
    parts_words = _is_in_word(left) and _is_in_word(right) and not set(written) <= set(_WITHIN_WORDS)
    return f" {kept}" if has_blank or (parts_words and not kept) else kept


def _is_letter(character: str) -> bool:
    return character.isalpha() or (character != "" and unicodedata.category(character)[0] == "M")


def _is_in_word(character: str) -> bool:
    return character.isalnum() or _is_letter(character)


_LINE_MARKS = re.compile(r"^[ \t]*(?:(?:#{1,6}|[-*+]|>(?![ \t]*\d))[ \t]+)+", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+#-]*[ \t]*$\n?", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:[ \t]+\"[^\"\n]*\")?\)")
_PAIRED = re.compile(r"\*{1,3}|_{1,3}|`+")
_ESCAPED = re.compile(r"\\([*_`~#\[\]()>.!+-])")


def without_markdown(text: str) -> str:
    r"""Return a text without the marks of Markdown: emphasis, code, headings, bullets, quotes, links.

    Numbers of lists stay, as they may be the answer, and so do signs that mark nothing: `2*3`, `snake_case`, `> 5`.

    >>> without_markdown("# Answer\n**Paris**, see [here](https://example.org)")
    'Answer\nParis, see here'
    """
    text = _FENCE.sub("", text)
    text = _LINE_MARKS.sub("", text)
    text = _LINK.sub(r"\1", text)
    return _ESCAPED.sub(r"\1", _without_pairs(text))


def _without_pairs(text: str) -> str:
    """Drop the marks that stand in pairs around a text."""
    open_marks: dict[str, re.Match[str]] = {}
    dropped: list[re.Match[str]] = []
    for mark in _PAIRED.finditer(text):
        left, right = _neighbours(mark)
        is_code = mark[0][0] == "`"
        if mark[0] in open_marks and (is_code or not left.isspace()) and not _joins(right):
            dropped += [open_marks.pop(mark[0]), mark]
        elif right and (is_code or not right.isspace()) and not _joins(left) and left != "\\":
            open_marks[mark[0]] = mark
    if not dropped:
        return text
    dropped.sort(key=re.Match.start)
    starts = [0, *(mark.end() for mark in dropped)]
    ends = [*(mark.start() for mark in dropped), len(text)]
    return "".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _joins(character: str) -> bool:
    """Return True for a letter or digit that a mark next to it would be a part of: `2*3`, `snake_case`.

    Scripts without blanks between words have no such letters.
    """
    return character.isalnum() and character.isascii()


def one_spaced(form: Form) -> Form:
    """Return a form in which a run of white space is also one blank."""
    return lambda text: well_spaced(form(text))
