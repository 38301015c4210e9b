"""VADER's sentiment of a text (needs the extra `text`), in nearly linear time.

Hutto and Gilbert, "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text", ICWSM 2014.
The package scans all words again for every word with a sentiment, which takes seconds for a long text. The three
methods that do so are replaced here by equivalent ones that look only at the few words that matter.
"""

from collections.abc import Sequence
from functools import cache
from heapq import heapify, heappop, heappush

from agentv.types.errors import MissingExtraError

try:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtraError("sentiment", "text") from error

_WORDS_BEFORE = 3
_WORDS_AFTER = 2
"""The reach of VADER's idioms and negations around a word, in words."""


@cache
def make_analyzer() -> "Analyzer":
    """Return the analyzer of this process; its lexicon (7,500 words, 0.4 MB) is read once."""
    return Analyzer()


class Analyzer(SentimentIntensityAnalyzer):  # type: ignore[misc]  # the package has no types
    """VADER with the same results, in nearly linear time."""

    def compound(self, text: str) -> float:
        """Return the sentiment of a text from -1 to 1; 0 for a text without a word in the lexicon."""
        return float(self.polarity_scores(text)["compound"])

    @staticmethod
    def _special_idioms_check(valence: float, words_and_emoticons: Sequence[str], i: int) -> float:
        """Search for idioms in the words around a word."""
        near, at = _near(words_and_emoticons, i)
        found: float = SentimentIntensityAnalyzer._special_idioms_check(valence, near, at)  # noqa: SLF001 - a method of the base class
        return found

    @staticmethod
    def _negation_check(valence: float, words_and_emoticons: Sequence[str], start_i: int, i: int) -> float:
        """Search for negations in the words before a word."""
        near, at = _near(words_and_emoticons, i)
        found: float = SentimentIntensityAnalyzer._negation_check(valence, near, start_i, at)  # noqa: SLF001 - a method of the base class
        return found

    @staticmethod
    def _but_check(words_and_emoticons: Sequence[str], sentiments: list[float]) -> list[float]:
        """Halve the sentiments before the first "but", and multiply those after it by 1.5.

        For each word VADER changes the first word with the same sentiment, which may be another one. So does this
        method, as its results must be the same.
        """
        lowered = [word.lower() for word in words_and_emoticons]
        if "but" not in lowered:
            return sentiments
        but = lowered.index("but")
        places = _Places(sentiments)
        for position in range(len(sentiments)):
            first = places.first(sentiments[position])
            if first != but:
                changed = sentiments[first] * (0.5 if first < but else 1.5)
                places.move(first, sentiments[first], changed)
                sentiments[first] = changed
        return sentiments


def _near(words: Sequence[str], index: int) -> tuple[Sequence[str], int]:
    """Return the words around one of them, and its index among them."""
    start = max(0, index - _WORDS_BEFORE)
    return words[start : index + _WORDS_AFTER + 1], index - start


class _Places:
    """An index of the values in a list, with quick access to the first place of each."""

    def __init__(self, values: Sequence[float]) -> None:
        self._heaps: dict[float, list[int]] = {}
        for place, value in enumerate(values):
            self._heaps.setdefault(value, []).append(place)
        for heap in self._heaps.values():
            heapify(heap)

    def first(self, value: float) -> int:
        """Return the first place of a value in the list."""
        return self._heaps[value][0]

    def move(self, first: int, value: float, changed: float) -> None:
        """Record that the first place of `value` now has the value `changed`."""
        if changed != value:
            heappop(self._heaps[value])
            heappush(self._heaps.setdefault(changed, []), first)
