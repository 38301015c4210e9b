import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.text.word_differences import MAX_CHARS, word_differences
from agentv.scoring.text.words import tokens_of

TEXTS = st.text(alphabet="ab你 \n.é\u0301👩\u200d", max_size=60)


def marked(before: str, after: str) -> str:
    """Return both texts as one, with the words of only one of them in brackets."""
    pieces = word_differences(before, after)
    assert pieces is not None
    return "".join(each.after if each.is_same else f"[{each.before}|{each.after}]" for each in pieces)


@given(TEXTS, TEXTS)
def test_the_pieces_are_both_texts(before: str, after: str) -> None:
    pieces = word_differences(before, after)
    assert pieces is not None
    assert "".join(each.before for each in pieces) == before
    assert "".join(each.after for each in pieces) == after


@given(TEXTS, TEXTS)
def test_same_words_may_differ_in_white_space_only(before: str, after: str) -> None:
    for piece in word_differences(before, after) or ():
        assert "".join(piece.before.split()) == "".join(piece.after.split()) or not piece.is_same


@given(TEXTS)
def test_tokens_are_the_text(text: str) -> None:
    assert "".join(tokens_of(text)) == text


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("It is 4.", "It is 4.", "It is 4."),
        ("It is 4.", "It is 5.", "It is [4|5]."),
        ("one two three", "one three", "one [two |]three"),
        ("", "new", "[|new]"),
        ("old", "", "[old|]"),
        ("a  b\nc", "a b c", "a b c"),
        ("cafe", "cafe\u0301", "[cafe|cafe\u0301]"),
        ("我喜欢大苹果手机", "我喜欢小苹果手机", "我喜欢[大|小]苹果手机"),
    ],
)
def test_words_of_only_one_text_are_found(before: str, after: str, expected: str) -> None:
    assert marked(before, after) == expected


def test_a_word_in_common_by_chance_is_a_part_of_the_difference() -> None:
    assert marked("We refund a late order", "They never paid a customer back") == (
        "[We refund a late order|They never paid a customer back]"
    )


def test_a_displayed_character_is_not_split() -> None:
    assert marked("ok 👩\u200d👧", "ok 👩\u200d👦") == "ok [👩\u200d👧|👩\u200d👦]"


def test_texts_that_are_too_long_are_not_compared() -> None:
    assert word_differences("a" * (MAX_CHARS + 1), "b") is None
    assert word_differences("b", "a " * MAX_CHARS) is None
    assert word_differences("好" * MAX_CHARS, "坏" * MAX_CHARS) is None


def test_equal_texts_of_any_length_have_no_difference() -> None:
    text = "a " * MAX_CHARS
    assert word_differences(text, text) is not None
