"""A comparison on a terminal: narrow, without Unicode, and with text of strangers in it."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.reports.comparisons import compared, document_of, moved, side_of, telling, text_of
from tests.support.rows import make_row

from agentv.reports.compare.words import detectable_text
from agentv.reports.document.text import TextRenderer
from agentv.reports.text.signs import ASCII, UNICODE, in_colour
from agentv.reports.text.width import display_width
from agentv.scoring.comparison.compare import compare_sides
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult

HOSTILE = "\x1b[2J\x07 a\u202eb\r\n ::error::x " + "word " * 80


@given(st.text(max_size=40), st.text(max_size=200), st.integers(80, 120))
def test_no_line_is_wider_than_the_terminal(name: str, reason: str, width: int) -> None:
    shown = text_of(moved(name), telling(reason, HOSTILE, question=reason, answer=HOSTILE), width=width)
    assert max(map(display_width, shown.splitlines())) <= width


def test_without_unicode_every_character_is_ascii() -> None:
    document = document_of(moved("caf\u00e9"), explain=telling("\u2713", answer="\u2713"))
    assert TextRenderer(80, ASCII, in_colour).render([document]).isascii()


def test_what_a_model_said_moves_no_cursor_and_starts_no_line() -> None:
    shown = text_of(moved(), telling(HOSTILE, HOSTILE, question=HOSTILE, answer=HOSTILE), width=None)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not any(line.startswith("::") for line in shown.splitlines())


def test_the_cases_that_changed_stand_before_the_numbers_and_the_chance() -> None:
    before = [make_row("falls"), *(make_row(f"slips-{number}", score=0.5) for number in range(15)), make_row("stays")]
    after = [make_row("falls", score=0.0), *(make_row(f"slips-{n}", score=0.45) for n in range(15)), make_row("stays")]
    explain = telling(after="too short", question="How many?\nNow!", answer="Six.")
    shown = TextRenderer().render([document_of(compared(before, after), explain=explain, max_listed=2)])
    assert (
        shown
        == """\
before  before
after   after
paired  17 cases scored in both

fell: 16, 15 of them by less than 0.1
✗ falls  1.00 -> 0.00  -1.00
  question │ How many? Now!
  before   │ Six.
  after    │ Six.
  reason   │ too short
~ slips-0  0.50 -> 0.45  -0.05
  question │ How many? Now!
  before   │ Six.
  after    │ Six.
  reason   │ too short
and 14 more: --list 16

            before  after  difference            95 % CI        p  cases
mean score    0.56   0.46       -0.10     -0.21 to -0.04  <0.0001     17
pass rate   11.8 %  5.9 %     -5.9 pp  -27.0 to +13.6 pp     0.32     17
tone          0.56   0.46       -0.10     -0.21 to -0.04  <0.0001     17

equally good runs differ this much by chance in less than 0.01 % of comparisons
0 wins, 1 loss, 16 ties at a threshold of 0.1
0 pass more often, 1 less often
minimum detectable difference at 80 % power: 0.17 (17 cases)

16 cases fell, none rose: worse
"""
    )


def test_a_case_with_trials_says_how_many_passed() -> None:
    before = [make_row("c", trial=trial) for trial in range(3)]
    after = [make_row("c", trial=trial, score=float(trial == 0)) for trial in range(3)]
    assert "✗ c  1.00 -> 0.33  -0.67  3 of 3 -> 1 of 3 trials passed\n" in text_of(compared(before, after))


@pytest.mark.parametrize("cases", [1, 30])
def test_the_last_line_is_one_of_three(cases: int) -> None:
    rng = random.Random(1)
    before = [make_row(f"c{number}", score=rng.random()) for number in range(cases)]
    for change in (-0.3, 0.0, 0.3):
        after = [make_row(row.eval_id, score=min(1.0, max(0.0, (row.score or 0) + change))) for row in before]
        last = text_of(compared(before, after)).splitlines()[-1]
        expected = {-0.3: "30 cases fell, none rose: worse", 0.3: "30 cases rose, none fell: better"}.get(change)
        assert last == expected if cases > 1 and expected else ": no significant difference (n needed: " in last


def test_a_case_with_several_targets_is_one_case() -> None:
    rows = [make_row(case, target=target) for case in "abc" for target in ("v1", "v2")]
    shown = text_of(compared(rows, rows)).splitlines()
    assert shown[2] == "paired  3 cases scored in both, 6 pairs of case and target"
    assert shown[5].split()[-1] == "3"


def test_runs_without_a_common_case_say_so() -> None:
    shown = text_of(compared([make_row("a")], [make_row("b")]))
    assert (
        shown
        == """\
before  before
after   after
paired  0 cases scored in both

0 wins, 0 losses, 0 ties at a threshold of 0.1
0 cases: too few to detect any difference; at least 6 are needed

only before: 1
  a
only after: 1
  b

nothing was compared
"""
    )


def prompted(prompt: str) -> JsonObject:
    return {"plan": {"targets": [{"name": "t", "settings": {"system_prompt": prompt}}]}}


def test_what_differs_between_the_runs_is_cut_to_the_terminal() -> None:
    before, after = (side_of("run", [make_row("c")], prompted(word * 60)) for word in ("a", "b "))
    shown = text_of(compare_sides(before, after, rng=random.Random(0)))
    assert f"system_prompt of target t: {'a' * 27}… -> b b b" in shown


def test_long_settings_that_begin_alike_are_shown_where_they_part() -> None:
    texts = ("You are a helpful assistant that answers in one word: Paris", "You are a helpful assistant, and so on")
    before, after = (side_of("run", [make_row("c")], prompted(text)) for text in texts)
    comparison = compare_sides(before, after, rng=random.Random(0))
    shown = text_of(comparison)
    assert "  system_prompt of target t: …ssistant that answers in o… -> …ssistant, and so\n  on\n" in shown
    assert f"system_prompt of target t: {texts[0]} -> {texts[1]}" in text_of(comparison, width=None)


def test_a_difference_as_small_as_any_by_chance_has_no_sentence_on_chance() -> None:
    shown = text_of(moved())
    assert "mean score" in shown
    assert "by chance" not in shown


def test_a_difference_that_is_nothing_as_shown_has_no_sign() -> None:
    before, after = ([replace(make_row("c"), duration_ms=took)] for took in (0.2, 0.1))
    shown = text_of(compared(before, after))
    assert [line.split() for line in shown.splitlines() if line.startswith("mean latency")] == [
        ["mean", "latency", "0", "ms", "0", "ms", "0", "ms", "-", "-", "1"]
    ]


def test_the_matrix_fits_the_terminal_and_is_safe() -> None:
    comparisons = [compared([make_row("a")], [make_row("a", score=0.0)], label=HOSTILE[:30]) for _ in range(2)]
    for signs in (UNICODE, ASCII):
        shown = TextRenderer(80, signs).render([document_of(*comparisons)])
        assert max(map(len, shown.splitlines())) <= 80
        assert "\x1b" not in shown


def test_few_sessions_are_too_few_to_detect_a_difference() -> None:
    def rows(scores: Iterable[float]) -> list[CaseResult]:
        made = (make_row(f"case-{number}", score=score) for number, score in enumerate(scores))
        return [replace(row, session_id=f"session-{number // 3}") for number, row in enumerate(made)]

    shown = detectable_text(compared(rows([0.5] * 9), rows([0.5, 0.6, 0.7, 0.5, 0.5, 0.9, 0.4, 0.5, 0.6])))
    assert shown == "9 cases in 3 sessions: too few to detect any difference; at least 6 sessions are needed"
