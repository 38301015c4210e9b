import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.text.words import has_words, is_edge_between, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it is C++, and", "C++"),
        ("C++11", "C++"),
        ("with node.js.", "node.js"),
        ("(a|b)", "a|b"),
        ("thirty days.", "thirty days"),
        ("это кот.", "кот"),
        ("我喜欢苹果手机", "苹果"),
        ("使用API调用", "API"),
        ("データベース", "データ"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("a 👍 b", "👍"),
        ("ok👍", "👍"),
        ("don't", "don"),
    ],
)
def test_whole_words_are_found(text: str, words: str) -> None:
    assert has_words(text, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cafés", "café"),
        ("который", "кот"),
        ("hidden", "hid"),
        ("snake_case", "snake"),
        ("x\u0308y x\u0308", "x"),
        ("👩\u200d👧", "👩"),
        ("👩\u200d👧", "👧"),
        ("می\u200cخواهم", "می"),  # noqa: RUF001 - Persian
        ("nodeXjs", "node.js"),
        ("", "a"),
    ],
)
def test_parts_of_words_are_not_found(text: str, words: str) -> None:
    assert not has_words(text, words)


@pytest.mark.parametrize("text", ["aa " * 50 + "a", "ab" * 50 + " ab. ", "кот" * 30 + " кот"])
def test_a_word_is_found_behind_many_that_only_hold_it(text: str) -> None:
    word = text.rsplit(maxsplit=1)[-1].strip(".")
    assert has_words(text, word)
    assert not has_words(text.rstrip(" .") + "s", word)


@given(st.text(alphabet="ab c|.", max_size=40), st.text(alphabet="ab|.", min_size=1, max_size=3))
def test_a_single_look_agrees_with_a_look_at_every_place(text: str, word: str) -> None:
    places = [at for at in range(len(text)) if text.startswith(word, at)]
    edges = [_edge(text, at) and _edge(text, at + len(word)) for at in places]
    assert has_words(text, word) == any(edges)


def _edge(text: str, at: int) -> bool:
    return is_edge_between(text[at - 1 : at] if at else "", text[at : at + 1])


def test_the_words_of_a_text() -> None:
    assert words_of("It's 42, snake_case!") == ("It", "s", "42", "snake_case")
    assert words_of("cafe\u0301 и чай") == ("cafe\u0301", "и", "чай")
    assert words_of("你好, Welt") == ("你", "好", "Welt")
    assert words_of("?! ") == ()


@given(st.text(min_size=1, max_size=20))
def test_a_text_is_whole_in_itself(text: str) -> None:
    assert has_words(text, text)
    assert has_words(f"({text})", text) == has_words(f"x ({text}) y", text)
