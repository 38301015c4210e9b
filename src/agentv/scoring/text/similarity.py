"""How alike two texts are, from 0 (nothing in common) to 1 (equal), by several measures."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import mul
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from rapidfuzz.distance import JaroWinkler, LCSseq, Levenshtein
from rapidfuzz.fuzz import token_set_ratio

from agentv.scoring.text.words import words_of
from agentv.types.provider import Vector

MAX_CELLS = 4e10
"""Up to which product of two lengths a measure is tried that compares everything with everything (about a second)."""


class Measure(Struct, frozen=True):
    """A measure of similarity: what is made of each text, once, and how two of those are compared (0..1).

    `compare` gets the candidate first and is only asked about texts that differ and are not empty. `is_bounded` says
    that its time does not grow with the product of both lengths.
    """

    compare: Callable[[Any, Any], float]  # what `prepare` makes is the measure's own affair
    prepare: Callable[[str], Any] = str
    is_bounded: bool = False


class Prepared(NamedTuple):
    """A text as a measure compares it."""

    text: str
    made: Any  # what the measure's `prepare` makes


def prepared(measure: Measure, text: str) -> Prepared:
    """Return what is compared of a text."""
    return Prepared(text, measure.prepare(text))


def similarity(measure: Measure, candidate: Prepared, reference: Prepared) -> float:
    """Return how alike two texts are, 0..1: equal texts 1.0, two empty ones too, an empty one and another 0.0.

    Raises ValueError for two texts so long that comparing them would take more than about a second.
    """
    if candidate.text == reference.text:
        return 1.0
    if not candidate.text or not reference.text:
        return 0.0
    if not measure.is_bounded and len(candidate.made) * len(reference.made) > MAX_CELLS:
        raise ValueError(f"texts of {len(candidate.text):,} and {len(reference.text):,} characters are too long for it")
    value = measure.compare(candidate.made, reference.made)
    return value if 0.0 <= value <= 1.0 else min(1.0, max(0.0, value))


def _bigrams(text: str) -> Counter[tuple[str, str]]:
    """Count each pair of neighbouring characters. In bytes or as whole numbers this is not faster by a fifth."""
    return Counter(pairwise(text))


def _dice(candidate: Counter[tuple[str, str]], reference: Counter[tuple[str, str]]) -> float:
    """Return twice the common pairs over all pairs (Dice 1945, Sørensen 1948), repeated pairs as often as they are."""
    in_both = candidate.keys() & reference.keys()
    common = sum(map(min, map(candidate.__getitem__, in_both), map(reference.__getitem__, in_both)))
    pairs = candidate.total() + reference.total()
    return 2 * common / pairs if pairs else 0.0  # two texts of one character have no pairs, and are not equal here


def _rouge_l(candidate: tuple[str, ...], reference: tuple[str, ...]) -> float:
    """Return the F1 of the longest common subsequence of words (Lin 2004, with as much weight on both sides)."""
    words = len(candidate) + len(reference)
    return 2 * LCSseq.similarity(candidate, reference) / words if words else 0.0


MEASURES: Mapping[str, Measure] = {
    "sorensen_dice": Measure(_dice, _bigrams, is_bounded=True),
    "jaro_winkler": Measure(JaroWinkler.normalized_similarity),
    "levenshtein": Measure(Levenshtein.normalized_similarity),
    "token_set": Measure(lambda candidate, reference: token_set_ratio(candidate, reference) / 100),
    "rouge_l": Measure(_rouge_l, words_of),
}
"""The measures that need no extra, by name."""


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


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, -1..1.

    Raises ValueError for vectors of different lengths and for one that is zero, which points nowhere.

    >>> cosine([1.0, 0.0], [1.0, 1.0])
    0.7071067811865475
    """
    if len(first) != len(second):
        raise ValueError(f"one vector has {len(first)} numbers, the other {len(second)}")
    lengths = math.hypot(*first), math.hypot(*second)
    if not all(lengths):
        raise ValueError("a vector of zeros points nowhere")
    product = math.fsum(map(mul, first, second)) / lengths[0] / lengths[1]
    return min(1.0, max(-1.0, product))


def vectors_problem(vectors: Sequence[Vector], *, texts: int) -> str | None:
    """Return what is wrong with the vectors of so many texts, as a phrase; None when nothing is."""
    if len(vectors) != texts:
        return f"{len(vectors)} vectors for {texts} texts"
    if len({len(vector) for vector in vectors}) > 1:
        return "vectors of different lengths"
    if any(not vector for vector in vectors):
        return "a vector without numbers"
    # Numbers of 32 bits cannot overflow a sum of 64: it is finite exactly when all of them are.
    if not all(math.isfinite(sum(vector)) for vector in vectors):
        return "a number in a vector that is not finite"
    return None
