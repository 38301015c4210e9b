"""Similarity of two texts, from 0 (nothing in common) to 1 (equal), by several measures."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import Struct
from rapidfuzz.distance import JaroWinkler, LCSseq, Levenshtein
from rapidfuzz.fuzz import token_set_ratio

from agentv.scoring.text.words import words_of

MAX_CELLS = 4e10
"""The maximum product of two lengths for measures that take quadratic time: about a second."""


class Measure(Struct, frozen=True):
    """A measure of similarity."""

    compare: Callable[[Any, Any], float]  # the type of the prepared text differs by measure
    """Returns the similarity (0..1) of two converted texts, the candidate first.

    The texts differ and are not empty.
    """
    prepare: Callable[[str], Any] = str
    """Converts each text once."""
    is_linear: bool = False
    """True if the time does not grow with the product of both lengths."""


class Prepared(NamedTuple):
    """A text prepared for a measure."""

    text: str
    converted: Any  # the result of the measure's `prepare`


def prepared(measure: Measure, text: str) -> Prepared:
    """Return a text prepared for a measure."""
    return Prepared(text, measure.prepare(text))


def similarity(measure: Measure, candidate: Prepared, reference: Prepared) -> float:
    """Return the similarity of two texts, 0..1: 1.0 if both are equal or empty, 0.0 if only one is empty.

    Raises ValueError for two texts so long that comparing them would take more than about a second.
    """
    if candidate.text == reference.text:
        return 1.0
    if not candidate.text or not reference.text:
        return 0.0
    if not measure.is_linear and len(candidate.converted) * len(reference.converted) > MAX_CELLS:
        raise ValueError(f"texts of {len(candidate.text):,} and {len(reference.text):,} characters are too long for it")
    value = measure.compare(candidate.converted, reference.converted)
    return value if 0.0 <= value <= 1.0 else min(1.0, max(0.0, value))


def _bigrams(text: str) -> Counter[tuple[str, str]]:
    """Return the number of each pair of neighbouring characters."""
    return Counter(pairwise(text))


def _dice(candidate: Counter[tuple[str, str]], reference: Counter[tuple[str, str]]) -> float:
    """Return twice the common pairs divided by all pairs (Dice 1945, Sørensen 1948), counted with repetitions."""
    in_both = candidate.keys() & reference.keys()
    common = sum(map(min, map(candidate.__getitem__, in_both), map(reference.__getitem__, in_both)))
    pairs = candidate.total() + reference.total()
    return 2 * common / pairs if pairs else 0.0  # texts of one character have no pairs; equal texts never get here


def _rouge_l(candidate: tuple[str, ...], reference: tuple[str, ...]) -> float:
    """Return the F1 of the longest common subsequence of words (Lin 2004), with equal weight of both texts."""
    words = len(candidate) + len(reference)
    return 2 * LCSseq.similarity(candidate, reference) / words if words else 0.0


MEASURES: Mapping[str, Measure] = {
    "sorensen_dice": Measure(_dice, _bigrams, is_linear=True),
    "jaro_winkler": Measure(JaroWinkler.normalized_similarity),
    "levenshtein": Measure(Levenshtein.normalized_similarity),
    "token_set": Measure(lambda candidate, reference: token_set_ratio(candidate, reference) / 100),
    "rouge_l": Measure(_rouge_l, words_of),
}
"""The measures without optional dependencies, by name."""
