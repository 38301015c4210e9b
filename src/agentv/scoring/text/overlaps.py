"""Where one sequence ends as another begins, found in one pass over both."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def overlap(earlier: Sequence[Item], later: Sequence[Item]) -> int:
    """Return how many items the end of `earlier` and the beginning of `later` have in common, at most.

    Items need to know only whether they are equal. Knuth, Morris and Pratt 1977, SIAM Journal on Computing 6(2).

    >>> overlap("abcab", "abd"), overlap("abc", "abc"), overlap("abc", "x")
    (2, 3, 0)
    """
    beginning = later[: len(earlier)]
    borders = _borders(beginning)
    matched = 0
    for item in earlier[len(earlier) - len(beginning) :]:
        matched = _longer(beginning, borders, matched, item)
    return matched


def _borders(items: Sequence[Item]) -> list[int]:
    """Return for each place how many of the first items stand again right before it, not counting the place itself."""
    borders = [0] * len(items)
    for place in range(1, len(items)):
        borders[place] = _longer(items, borders, borders[place - 1], items[place])
    return borders


def _longer(items: Sequence[Item], borders: Sequence[int], matched: int, item: Item) -> int:
    """Return how many of the first items are matched once `item` follows `matched` of them."""
    while matched and (matched == len(items) or items[matched] != item):
        matched = borders[matched - 1]
    return matched + 1 if matched < len(items) and items[matched] == item else 0
