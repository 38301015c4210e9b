from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.text.forms import TextForm

KEPT = TextForm(unicode="none", case_sensitive=True, normalize_whitespace=False)


@given(st.text())
def test_a_text_in_form_is_in_form(text: str) -> None:
    for form in (TextForm(), TextForm(unicode="NFKC"), TextForm(case_sensitive=True)):
        assert form.of(form.of(text)) == form.of(text)


@given(st.text())
def test_white_space_is_that_of_python(text: str) -> None:
    form = TextForm(unicode="none", case_sensitive=True)
    assert form.of(text) == " ".join(text.split())


@given(st.text(alphabet="a✓ \n\u2003", max_size=8), st.text(alphabet="b ", max_size=8))
def test_white_space_is_normalized_alike_in_long_and_short_texts(one: str, other: str) -> None:
    form = TextForm(unicode="none", case_sensitive=True)
    for text in (f"{'word ✓' * 11_000}{one}", one.join([other] * 20_000), f"{'✓' * 65_535}{one}{other}"):
        assert form.of(text) == " ".join(text.split())


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_case_and_white_space_of_ascii_are_those_of_python(text: str) -> None:
    assert TextForm().of(text) == " ".join(text.lower().split())
    assert TextForm(normalize_whitespace=False).of(text) == text.lower()


@given(st.text())
def test_what_is_switched_off_changes_nothing(text: str) -> None:
    assert KEPT.of(text) == text


def test_an_accent_is_the_same_however_it_is_written() -> None:
    assert TextForm().of("cafe\u0301") == TextForm().of("café")
    assert TextForm(unicode="none").of("cafe\u0301") != TextForm(unicode="none").of("café")


def test_compatible_letters_are_the_same_under_nfkc_alone() -> None:
    assert TextForm(unicode="NFKC").of("ﬁｎｅ") == "fine"
    assert TextForm().of("ﬁｎｅ") != "fine"


def test_case_is_folded_beyond_english() -> None:
    assert TextForm().of("STRASSE") == TextForm().of("Straße")
    assert TextForm().of("İ") == TextForm().of("i\u0307")
