# ruff: noqa: RUF001 - letters that look like others are tested here

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentv.scoring.results.folding import Folding

FOLDINGS = [Folding(), Folding(case_sensitive=True), Folding(accents=True)]
folds = pytest.mark.parametrize("folding", FOLDINGS)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ＷＩＤＥ", "wide"),
        ("𝔣𝔯𝔞𝔨𝔱𝔲𝔯 ⓒⓘⓡⓒⓛⓔ ﬁn", "fraktur circle fin"),
        ("z\u200be\u00adr\u2060o\ufeff", "zero"),
        ("a \n\t b\u00a0c", "a b c"),
        ("Straße", "strasse"),
        ("cafe\u0301", "café"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_what_disguises_a_word_is_taken_away(text: str, folded: str) -> None:
    assert Folding().of(text) == folded


def test_accents_go_on_request_and_only_where_they_are_accents() -> None:
    assert Folding(accents=True).of("Café naïve ёлка") == "cafe naive елка"
    assert Folding().of("Café") == "café"
    assert Folding(accents=True).of("กี") == "กี"


def test_case_stays_on_request() -> None:
    assert Folding(case_sensitive=True).of("ＷIDE") == "WIDE"


@folds
@given(text=st.text())
def test_a_folded_text_is_folded(folding: Folding, text: str) -> None:
    once = folding.of(text)
    assert folding.of(once) == once


@folds
@given(text=st.text(), word=st.text(alphabet="xyz", min_size=1, max_size=5), more=st.text())
@example(text="e\u200b", word="x", more="\u0301")
@example(text="ㄱㅏ ß İ ﬁ …  \n", word="x", more="")
@example(text="ß\u200bé", word="x", more="")
def test_a_word_is_found_again_in_the_original(folding: Folding, text: str, word: str, more: str) -> None:
    original = f"{text} {word}! {more}"
    folded = folding.of(original)
    before = len(folding.of(text))
    start = folded.index(word, before)
    span = folding.places(original).span(start, start + len(word))
    assert span == (len(text) + 1, len(text) + 1 + len(word))


@folds
@given(text=st.text())
def test_every_place_lies_in_the_original(folding: Folding, text: str) -> None:
    folded, places = folding.of(text), folding.places(text)
    spans = [places.span(at, at + 1) for at in range(len(folded))]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert spans == sorted(spans)


def test_the_place_of_a_disguised_word_covers_its_disguise() -> None:
    text = "well,  ｄ\u200bａrn it"
    start, end = Folding().places(text).span(6, 10)
    assert text[start:end] == "ｄ\u200bａrn"
    assert unicodedata.normalize("NFKC", text[start:end]) == "d\u200barn"
