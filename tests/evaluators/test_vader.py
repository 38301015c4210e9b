"""Our VADER gives the package's results, faster."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # type: ignore[import-untyped]

from agentv.evaluators.text.vader import make_analyzer

ORIGINAL = SentimentIntensityAnalyzer()
WORDS = """
but BUT not never very the a kind of no least at bad ass yeah right kiss death hand to mouth so this good GOOD great
terrible slow cooking with gas without doubt 😀 :) love hate uh-uh isn't cut mustard !
"""
words = st.sampled_from([*WORDS.split(), *random.Random(7).sample(sorted(ORIGINAL.lexicon), 40)])


@given(st.lists(words, max_size=25))
def test_every_number_is_that_of_the_package(chosen: list[str]) -> None:
    text = " ".join(chosen)
    assert make_analyzer().polarity_scores(text) == ORIGINAL.polarity_scores(text)


@given(st.text())
def test_the_compound_of_any_text_lies_between_its_bounds(text: str) -> None:
    assert -1.0 <= make_analyzer().compound(text) <= 1.0


@pytest.mark.parametrize("text", ["good " * 20_000, "good bad " * 5_000 + "but " + "great awful " * 5_000])
def test_a_long_text_takes_no_square_of_its_length(text: str) -> None:
    started = time.process_time()
    make_analyzer().compound(text)
    assert time.process_time() - started < 10  # the package alone needs over a minute


def test_the_lexicon_is_read_once() -> None:
    assert make_analyzer() is make_analyzer()
