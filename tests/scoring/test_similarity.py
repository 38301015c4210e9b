from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.text.similarity import MAX_CELLS, MEASURES, prepared, similarity

words = st.text(alphabet="abcé 你", max_size=30)
names = pytest.mark.parametrize("name", MEASURES)


def alike(name: str, candidate: str, reference: str) -> float:
    measure = MEASURES[name]
    return similarity(measure, prepared(measure, candidate), prepared(measure, reference))


@names
@given(candidate=words, reference=words)
def test_similarity_is_between_0_and_1_in_both_directions(name: str, candidate: str, reference: str) -> None:
    there, back = alike(name, candidate, reference), alike(name, reference, candidate)
    assert 0.0 <= there <= 1.0
    assert there == pytest.approx(back)


@names
@given(text=st.text(max_size=30))
def test_a_text_is_like_itself(name: str, text: str) -> None:
    assert alike(name, text, text) == 1.0


@names
@given(text=st.text(min_size=1, max_size=30))
def test_an_empty_text_is_like_no_other(name: str, text: str) -> None:
    assert alike(name, "", text) == alike(name, text, "") == 0.0


@given(st.text(alphabet="ab", min_size=2, max_size=30), st.text(alphabet="ab", min_size=2, max_size=30))
def test_dice_counts_repeated_pairs_as_often_as_they_are(one: str, other: str) -> None:
    pairs = [Counter(text[at : at + 2] for at in range(len(text) - 1)) for text in (one, other)]
    common = (pairs[0] & pairs[1]).total()
    assert alike("sorensen_dice", one, other) == pytest.approx(2 * common / (len(one) + len(other) - 2))


@pytest.mark.parametrize(
    ("name", "one", "other", "expected"),
    [
        ("sorensen_dice", "night", "nacht", 0.25),
        ("sorensen_dice", "a", "b", 0.0),
        ("sorensen_dice", "a", "ab", 0.0),
        ("sorensen_dice", "aaaa", "aa", 0.5),
        ("levenshtein", "kitten", "sitting", 1 - 3 / 7),
        ("levenshtein", "a", "b", 0.0),
        ("levenshtein", "👍🏽", "👍", 0.5),
        ("jaro_winkler", "martha", "marhta", 0.9611111),
        ("jaro_winkler", "dixon", "dicksonx", 0.8133333),
        ("token_set", "new york mets", "mets york new city", 1.0),
        ("rouge_l", "the cat sat", "the cat slept", 2 / 3),
        ("rouge_l", "?", "!", 0.0),
    ],
)
def test_published_examples(name: str, one: str, other: str, expected: float) -> None:
    assert alike(name, one, other) == pytest.approx(expected)


@names
def test_anagrams_are_not_equal(name: str) -> None:
    assert alike(name, "listen", "silent") < 1.0


def test_texts_that_would_take_minutes_are_refused() -> None:
    long, other = "ab" * 150_000, "ba" * 150_000
    with pytest.raises(ValueError, match="300,000 characters are too long"):
        alike("levenshtein", long, other)
    assert alike("sorensen_dice", long, other) > 0.99
    assert len(long) * len(other) > MAX_CELLS
