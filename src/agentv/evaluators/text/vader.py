"""VADER's sentiment of a text (extra `text`), in a time that grows with the text and not with its square.

Hutto and Gilbert, "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text", ICWSM 2014.
The package goes through all words again for every word with a sentiment: 100 kB take ten seconds. The three methods
that do so are replaced here by equal ones that look at the few words that count.
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
"""How far VADER's idioms and negations reach from the word in question."""


@cache
def make_analyzer() -> "Analyzer":
    """Return the analyzer of this process; its lexicon (7,500 words, 0.4 MB) is read once, in about 5 ms."""
    return Analyzer()


class Analyzer(SentimentIntensityAnalyzer):  # type: ignore[misc]  # the package has no types
    """VADER with the same results, sooner."""

    def compound(self, text: str) -> float:
        """Return the sentiment of a text from -1 to 1; 0 for a text without a word that has one."""
        return float(self.polarity_scores(text)["compound"])

    @staticmethod
    def _special_idioms_check(valence: float, words_and_emoticons: Sequence[str], i: int) -> float:
        """Look for idioms around a word in the words they may consist of."""
        near, at = _near(words_and_emoticons, i)
        found: float = SentimentIntensityAnalyzer._special_idioms_check(valence, near, at)  # noqa: SLF001 - our base
        return found

    @staticmethod
    def _negation_check(valence: float, words_and_emoticons: Sequence[str], start_i: int, i: int) -> float:
        """Look for negations before a word in the words where they may stand."""
        near, at = _near(words_and_emoticons, i)
        found: float = SentimentIntensityAnalyzer._negation_check(valence, near, start_i, at)  # noqa: SLF001 - our base
        return found

    @staticmethod
    def _but_check(words_and_emoticons: Sequence[str], sentiments: list[float]) -> list[float]:
        """Halve what stands before the first "but", and give what stands behind it half as much again.

        For each word VADER changes the first one that has the same sentiment, which may be another word; so do we.
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
    """Where each value stands in a list, the first place at once."""

    def __init__(self, values: Sequence[float]) -> None:
        self._heaps: dict[float, list[int]] = {}
        for place, value in enumerate(values):
            self._heaps.setdefault(value, []).append(place)
        for heap in self._heaps.values():
            heapify(heap)

    def first(self, value: float) -> int:
        """Return the first place of a value that is there."""
        return self._heaps[value][0]

    def move(self, first: int, value: float, changed: float) -> None:
        """Note that the first place of a value holds another value now."""
        if changed != value:
            heappop(self._heaps[value])
            heappush(self._heaps.setdefault(changed, []), first)
