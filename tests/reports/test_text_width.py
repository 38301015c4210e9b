"""Widths on a terminal, and cutting and breaking to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from agentv.reports.text.signs import ASCII, without_colour
from agentv.reports.text.width import clip, clip_middle, clip_names, display_width, graphemes, pad, wrap, wrap_lines
from agentv.reports.text.width import table as aligned

texts = st.text(st.sampled_from("ab é日語👩\u200d👧🇩🇪❤️\u0301 "), max_size=12)


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("日本語", 6),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩‍👩‍👧", 2),
        ("🇩🇪", 2),
        ("❤️", 2),
    ],
)
def test_width(text: str, width: int) -> None:
    assert display_width(text) == width
    assert "".join(graphemes(text)) == text


@given(
    st.text(
        st.sampled_from("azÄßñЖλ,.!1日本語家族가힣ァｱ\uff21\uff08\uff09…")
        | st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
    )
)
def test_width_agrees_with_the_one_that_draws(text: str) -> None:
    assert display_width(text) == cell_len(text)


@given(texts, st.integers(1, 20))
def test_a_clipped_text_fits_and_keeps_its_beginning(text: str, width: int) -> None:
    cut = clip(text, width)
    assert display_width(cut) <= width
    assert cut == text or text.startswith(cut.removesuffix("…"))


@given(texts, st.integers(1, 20))
def test_a_text_clipped_in_its_middle_fits_and_keeps_both_ends(text: str, width: int) -> None:
    cut = clip_middle(text, width)
    start, _, end = cut.partition("…")
    assert display_width(cut) <= width
    assert cut == text or (text.startswith(start) and text.endswith(end))


@given(st.lists(st.text("ab-", max_size=30), max_size=5), st.integers(4, 20))
def test_clipped_names_are_as_different_as_the_names(names: list[str], width: int) -> None:
    assert len(set(clip_names(names, width))) == len(set(names))


def test_names_are_cut_in_the_middle_only_if_their_starts_are_equal() -> None:
    assert clip_names(["agent-one-large", "other-one-large"], 8) == ["agent-o…", "other-o…"]
    assert clip_names(["agent-one-large", "agent-one-small"], 8) == ["ag…large", "ag…small"]
    same_ends = ["the-agent-a-small-model", "the-agent-b-small-model"]
    assert clip_names(same_ends, 8) == same_ends


@given(texts, st.integers(2, 20))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(display_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(text.split())


def test_padding_counts_cells() -> None:
    assert pad("日本", 6) + "|" == "日本  |"
    assert pad("日本", 6, right=True) == "  日本"


def test_lines_keep_their_breaks_and_indents() -> None:
    assert wrap_lines("def f():\n    return one and two and three\n\nend", 16) == [
        "def f():",
        "    return one",
        "    and two and",
        "    three",
        "",
        "end",
    ]


def test_without_a_width_only_tabs_change() -> None:
    assert wrap_lines("a\tb " * 30, None) == [("a\tb " * 30).expandtabs(4)]


def test_a_long_word_is_split_after_a_sign_if_that_fills_half_a_line() -> None:
    assert wrap("polite-and-with-empathy", 12) == ["polite-and-", "with-empathy"]
    assert wrap("evals/refunds/europe.yaml", 16) == ["evals/refunds/", "europe.yaml"]
    assert wrap("a-internationalisation", 10) == ["a-internat", "ionalisati", "on"]


def test_a_cut_name_in_a_table_has_one_mark() -> None:
    rows = [["target", "mean"], ["agent-with-a-long-name", "0.50"]]
    assert aligned(rows, 16, without_colour)[1] == "agent-wit…  0.50"
    assert aligned(rows, 16, without_colour, mark=ASCII.ellipsis)[1] == "agent-w...  0.50"
    assert ASCII.escape_unsupported("cut…") == "cut..."
