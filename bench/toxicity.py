"""`toxicity` with ten thousand terms on a long answer: with none of them, with some, and with accents."""

from collections.abc import Iterator
from functools import partial

from agentv import EvaluationInput
from bench.evaluators import context_of, make_evaluator
from bench.measuring import Effort, seconds_per_call
from bench.rows import AtMost, Row, row_of
from bench.words import make_text, make_words

CALLS = 100
TERMS = 10_000
CHARACTERS = 34_000
FOUND = 10


def measure(effort: Effort) -> Iterator[Row]:
    """Yield a row for a clean answer, for one that holds some of the terms, and for one that is not ASCII."""
    words = make_words(TERMS + 1000, seed=4)
    terms, clean_words = words[:TERMS], words[TERMS:]
    evaluator = make_evaluator("toxicity", {"toxic_terms": list(terms)})
    clean = make_text(clean_words, CHARACTERS, seed=5)
    toxic = " ".join((*terms[:FOUND], clean))[:CHARACTERS]
    accented = clean.replace("e", "é")
    for text, sort in ((clean, "none found"), (toxic, f"{FOUND} found"), (accented, "accents, none found")):
        context = context_of(EvaluationInput(text))
        (own,) = seconds_per_call(partial(evaluator.evaluate, context), calls=CALLS, effort=effort)
        yield row_of(f"{TERMS:,} terms on 34 kB, {sort}", own, target=AtMost(2e-3))
