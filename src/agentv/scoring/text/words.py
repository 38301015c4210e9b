"""Word boundaries in every script: whole-word matching and the words of a text.

A word is a run of letters, digits, underscores and their combining marks. Scripts without blanks between words
(Chinese, Japanese, Thai, Lao, Khmer, Burmese) are an exception: finding words there takes a dictionary, so every
position between two of their characters counts as a boundary, and each of their characters as a word.
"""

import re
from functools import lru_cache

import regex

_UNSPACED = r"[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
# A mark belongs to the character before it, and a joiner joins the characters around it: a match never ends inside
# a displayed character.
_WITHIN_CHARACTER = r"(?<=\S)[\p{M}\u200d]|(?<=\u200d)\S"
_EDGE = rf"(?:(?<!\w)|(?!\w)|(?<={_UNSPACED})|(?={_UNSPACED}))(?!{_WITHIN_CHARACTER})"

_edge = regex.compile(_EDGE)
_word = regex.compile(rf"{_UNSPACED}\p{{M}}*|(?:(?!{_UNSPACED})\w)+")
_ascii_word = re.compile(r"\w+", re.ASCII)  # equivalent for ASCII text, and faster

_MAX_CHECKED = 8
"""The number of positions checked one by one before a pattern is compiled.

Compiling costs about as much as checking these positions (bench/).
"""


def is_edge(text: str, position: int) -> bool:
    """Return True if a word can begin or end between `text[position - 1]` and `text[position]`.

    >>> [is_edge("cafés", place) for place in (0, 4, 5)]
    [True, False, True]
    """
    return _edge.match(text, position) is not None


@lru_cache(maxsize=4096)
def is_edge_between(before: str, after: str) -> bool:
    """Return True if a word can begin or end between two characters; "" stands for the start or end of the text."""
    return is_edge(before + after, len(before))


def has_words(text: str, words: str) -> bool:
    """Return True if a text contains the given words literally, and not as a part of longer words.

    An end of `words` that is not a letter or digit needs no boundary: `C++` is found in `C++11`.

    >>> has_words("use node.js here", "node.js"), has_words("two cafés", "café"), has_words("我喜欢苹果", "苹果")
    (True, False, True)
    """
    position = text.find(words)
    for _ in range(_MAX_CHECKED):
        if position < 0:
            return False
        if is_edge(text, position) and is_edge(text, position + len(words)):
            return True
        position = text.find(words, position + 1)
    return position >= 0 and _whole_words(words).search(text, position) is not None


@lru_cache(maxsize=512)
def _whole_words(words: str) -> "regex.Pattern[str]":
    return regex.compile(_EDGE + regex.escape(words, literal_spaces=True) + _EDGE)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, without the characters between them.

    >>> words_of("It's 42, 你好!")
    ('It', 's', '42', '你', '好')
    """
    return tuple((_ascii_word if text.isascii() else _word).findall(text))


_token = regex.compile(rf"(?:{_UNSPACED}\p{{M}}*|(?:(?!{_UNSPACED})\w)+|(?!\s)\X)\s*|^\s+")


def tokens_of(text: str) -> list[str]:
    """Return the words and the other characters of a text in order, each with the white space after it.

    Together they are the text. White space at its start is a token of its own.

    >>> tokens_of("It is 42, 你好!")
    ['It ', 'is ', '42', ', ', '你', '好', '!']
    """
    return _token.findall(text)
