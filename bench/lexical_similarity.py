"""`lexical_similarity` compared with a bare loop over the library that it uses."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

from rapidfuzz.distance import JaroWinkler, Levenshtein

from agentv import EvaluationInput
from bench.evaluators import context_of, make_evaluator
from bench.measuring import Effort, Work, seconds_per_call
from bench.rows import AtMostTimes, Row, row_of
from bench.words import make_text, make_words

CALLS = 4000
PAIRS = 100
"""More than the evaluator caches, so that each reference is new to it."""

BARE: dict[str, Callable[[str, str], float]] = {
    "levenshtein": Levenshtein.normalized_similarity,
    "jaro_winkler": JaroWinkler.normalized_similarity,
}


def measure(effort: Effort) -> Iterator[Row]:
    """Yield a row for each algorithm; Sørensen-Dice has no counterpart in rapidfuzz."""
    words = make_words(200, seed=3)
    texts = [make_text(words, 1000, seed=number) for number in range(2 * PAIRS)]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    contexts = [context_of(EvaluationInput(answer, ground_truth=truth)) for answer, truth in pairs]
    for algorithm in (*BARE, "sorensen_dice"):
        work = f"{algorithm}, 1 kB and 1 kB"
        evaluator = make_evaluator("lexical_similarity", {"algorithm": algorithm})
        ours = _in_turn(evaluator.evaluate, [(context,) for context in contexts])
        if algorithm in BARE:
            own, bare = seconds_per_call(ours, _in_turn(BARE[algorithm], pairs), calls=CALLS, effort=effort)
            yield row_of(work, own, beside="bare rapidfuzz", theirs=bare, target=AtMostTimes(1.5))
        else:
            (own,) = seconds_per_call(ours, calls=CALLS, effort=effort)
            yield row_of(work, own)


def _in_turn(function: Callable[..., object], arguments: Sequence[tuple[object, ...]]) -> Work:
    """Return a function whose calls pass each of the arguments in turn, repeatedly."""
    turns = cycle(arguments)
    return lambda: function(*next(turns))
