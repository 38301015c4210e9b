"""The overlap of the end of one sequence and the beginning of another, found in one pass."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def overlap(earlier: Sequence[Item], later: Sequence[Item]) -> int:
    """Return the length of the longest end of `earlier` that is also the beginning of `later`.

    Items need not be hashable. Knuth, Morris and Pratt 1977, SIAM Journal on Computing 6(2).

    >>> overlap("abcab", "abd"), overlap("abc", "abc"), overlap("abc", "x")
    (2, 3, 0)
    """
    beginning = later[: len(earlier)]
    borders = _borders(beginning)
    matched = 0
    for item in earlier[len(earlier) - len(beginning) :]:
        matched = _extended(beginning, borders, matched, item)
    return matched


def _borders(items: Sequence[Item]) -> list[int]:
    """Return for each index the length of the longest shorter prefix that also ends there."""
    borders = [0] * len(items)
    for index in range(1, len(items)):
        borders[index] = _extended(items, borders, borders[index - 1], items[index])
    return borders


def _extended(items: Sequence[Item], borders: Sequence[int], matched: int, item: Item) -> int:
    """Return the length of the matched prefix of `items` when `item` follows a matched prefix of length `matched`."""
    while matched and (matched == len(items) or items[matched] != item):
        matched = borders[matched - 1]
    return matched + 1 if matched < len(items) and items[matched] == item else 0
