import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.text.forms import SWAPS, is_disguised, swap_key


@pytest.mark.parametrize(
    ("written", "term"),
    [
        ("5h1t", "shit"),
        ("$h17", "shit"),
        ("d4rn", "darn"),
        ("@$$", "ass"),
        ("k1ll", "kill"),
        ("ki11", "kill"),
        ("88", "88"),
    ],
)
def test_signs_stand_for_letters(written: str, term: str) -> None:
    assert is_disguised(written, term)


@pytest.mark.parametrize(
    ("written", "term"),
    [("tail", "tall"), ("455", "ass"), ("$5", "ss"), ("sh!t", "shit"), ("ass", "4ss"), ("i4", "14")],
)
def test_other_texts_are_no_swaps(written: str, term: str) -> None:
    assert not is_disguised(written, term)


@given(st.text(alphabet="aAeilLostxé"), st.data())
def test_a_swapped_text_has_the_key_of_its_term(term: str, data: st.DataObject) -> None:
    signs = {letter: [letter, *(sign for sign in SWAPS if letter.lower() in SWAPS[sign])] for letter in term}
    written = "".join(data.draw(st.sampled_from(signs[letter])) for letter in term)
    assert swap_key(written) == swap_key(term)


@given(st.text())
def test_a_key_is_as_long_as_its_text(text: str) -> None:
    assert len(swap_key(text)) == len(text)
    assert swap_key(text + "é") == swap_key(text) + "é"
