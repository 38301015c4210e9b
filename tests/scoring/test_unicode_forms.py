import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.results.folding import Folding
from agentv.scoring.text.forms import NormalForm, TextForm, normalized

MARKS = "\u0316\u0301\u0334"


@given(st.sampled_from(["NFC", "NFD", "NFKC"]), st.text() | st.text(alphabet="aé\u0301\u0316\uff9e\u30ab", max_size=25))
def test_it_is_the_normal_form_of_unicode(form: NormalForm, text: str) -> None:
    assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("marks", [MARKS, "\u0301\uff9e"])
def test_a_tower_of_marks_is_read_at_once(marks: str) -> None:
    started = time.process_time()
    tower = "a" + marks * 30_000
    assert TextForm(unicode="NFKC").of(tower)
    Folding(accents=True).places(tower)
    assert time.process_time() - started < 3


def test_thirty_marks_are_put_in_order_together() -> None:
    assert normalized("NFC", "a" + MARKS * 10) == unicodedata.normalize("NFC", "a" + MARKS * 10)
    assert normalized("NFC", "a" + MARKS * 11 + "b") == normalized("NFC", "a" + MARKS * 10) + "\u0334\u0316\u0301b"
