"""Trends as people read them: on a terminal, without Unicode, in a pull request, on a page."""

from datetime import timedelta
from html import unescape

import pytest
from msgspec.structs import replace
from tests.support.stored import NOON
from tests.support.trending import SUITE, TARGET

from agentv.reports.document.blocks import Document
from agentv.reports.document.html import documents_html
from agentv.reports.document.markdown import documents_markdown
from agentv.reports.document.text import TextRenderer
from agentv.reports.text.signs import ASCII, in_colour
from agentv.reports.text.width import display_width
from agentv.reports.trend import TrendWords, age_text, trend_document
from agentv.scoring.comparison.trend import TrendRun, TrendSeries, find_series
from agentv.scoring.counting.run_sums import RunSums
from agentv.scoring.statistics.moments import ClusterMoments

WORDS = TrendWords("pass_rate", ("pass_rate", None, None), NOON + timedelta(days=15, hours=3))


def document_of(series: TrendSeries, *, with_runs: bool = True) -> Document:
    return trend_document(series, WORDS, with_runs=with_runs)


def sums(passed: int, rows: int = 40, *, errors: int = 0) -> RunSums:
    moments = ClusterMoments.of_passes(rows, passed)
    counts = {"pass": passed, "fail": rows - passed} | ({"error": errors} if errors else {})
    return RunSums(counts, moments, moments, None)


def run(day: int, passed: int | None) -> TrendRun:
    found = TrendRun(
        run_id=f"20260131T12{day:02}00.000-{day:06x}",
        created_at=NOON + timedelta(days=day),
        state="finished",
        commit=f"{day * 7919:08x}cafe",
        suites={SUITE: "aa"},
        targets=(TARGET,),
    )
    nothing = RunSums({"error": 40}, ClusterMoments.of_passes(0, 0), ClusterMoments.of_passes(0, 0), None)
    return replace(found, sums={(SUITE, TARGET): nothing if passed is None else sums(passed)})


def series(*runs: TrendRun) -> TrendSeries:
    (found,) = find_series(runs, WORDS.metric, last=100)
    return found


STORY = series(
    *(run(day, passed) for day, passed in enumerate([35, 36, 34, 36, 35, None, 36, 24, 25, 23, 24])),
    replace(run(11, 25), suites={SUITE: "bb"}, tags=("release-1",), is_dirty=True),
    replace(run(12, 24), suites={SUITE: "bb"}, state="stopped"),
    replace(run(13, 0), suites={SUITE: "bb"}, state="running", sums={}),
    replace(run(14, 20), suites={SUITE: "bb"}, name="nightly", parents=("a", "b")),
)

TEXT = """\
evals/refunds.yaml, agent-v2: pass_rate
        ██▇██·█▃▃▂▃▃▃·▁
               ^   |
runs    15 runs, 2 gaps, 50 % to 90 %
last    50 % of 40 (95 % CI: 35.2 to 64.8 %), -10.0 pp since the previous run
        20260131T121400.000-00000e, nightly, 1 day ago, commit 0001b112, merged
        from 2 runs
change  88.3 % -> 60 % at 20260131T120700.000-000007, commit 0000d889, 7 runs
        ago (p <0.0001)
edited  before 20260131T121100.000-00000b; values are not comparable with
        earlier runs
gap     20260131T120500.000-000005: no result was judged: 40 of 40 errors
gap     20260131T121300.000-00000d: being written, no result yet
"""

PLAIN = (
    TEXT.replace("██▇██·█▃▃▂▃▃▃·▁", "##%##_#--:---_.")
    + """
run                            commit         value         95 % CI    change
20260131T120000.000-000000   00000000  87.5 % of 40  73.9 to 94.5 %         -
20260131T120100.000-000001   00001eef    90 % of 40    76.9 to 96 %   +2.5 pp
20260131T120200.000-000002   00003dde    85 % of 40  70.9 to 92.9 %   -5.0 pp
20260131T120300.000-000003   00005ccd    90 % of 40    76.9 to 96 %   +5.0 pp
20260131T120400.000-000004   00007bbc  87.5 % of 40  73.9 to 94.5 %   -2.5 pp
20260131T120500.000-000005   00009aab             -               -         -
20260131T120600.000-000006   0000b99a    90 % of 40    76.9 to 96 %   +2.5 pp
20260131T120700.000-000007   0000d889    60 % of 40  44.6 to 73.7 %  -30.0 pp
20260131T120800.000-000008   0000f778  62.5 % of 40    47 to 75.8 %   +2.5 pp
20260131T120900.000-000009   00011667  57.5 % of 40  42.2 to 71.5 %   -5.0 pp
20260131T121000.000-00000a   00013556    60 % of 40  44.6 to 73.7 %   +2.5 pp
20260131T121100.000-00000b  00015445*  62.5 % of 40    47 to 75.8 %         -
20260131T121200.000-00000c   00017334    60 % of 40  44.6 to 73.7 %   -2.5 pp
20260131T121300.000-00000d   00019223             -               -         -
20260131T121400.000-00000e   0001b112    50 % of 40  35.2 to 64.8 %  -10.0 pp
20260131T120500.000-000005: no result was judged: 40 of 40 errors
20260131T121100.000-00000b: [release-1], suite edited
20260131T121200.000-00000c: stopped before its end
20260131T121300.000-00000d: being written, no result yet
20260131T121400.000-00000e: merged from 2 runs
"""
)


def test_a_trend_shows_its_last_value_changes_and_gaps() -> None:
    assert TextRenderer().render([document_of(STORY, with_runs=False)]) == TEXT


def test_without_unicode_every_sign_is_ascii() -> None:
    shown = TextRenderer(signs=ASCII).render([document_of(STORY)])
    assert shown.isascii()
    assert shown == PLAIN


@pytest.mark.parametrize("width", [80, 60, 40])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = series(*(run(day % 60, 30 + day % 7) for day in range(100)))
    for shown in (STORY, long):
        lines = TextRenderer(width).render([document_of(shown)]).splitlines()
        assert max(map(display_width, lines)) <= width


def test_nothing_is_coloured_but_on_a_terminal() -> None:
    assert "\x1b" not in TextRenderer().render([document_of(STORY)])
    assert "\x1b[1m" in TextRenderer(paint=in_colour).render([document_of(STORY)])


def test_names_and_reasons_of_strangers_are_harmless_everywhere() -> None:
    evil = "\x1b]0;owned\x07 <script>alert(1)</script> `@team` \u202e"
    hostile = replace(run(1, 20), name=evil, tags=(evil,))
    broken = replace(run(2, 20), sums={}, state="unreadable", problem=evil)
    found = replace(series(hostile, broken), suite=evil, target=evil)
    text = TextRenderer().render([document_of(found)])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>" not in documents_html([document_of(found)])
    spans = documents_markdown([document_of(found)]).splitlines()
    assert all("``" in line for line in spans if "@team" in line)


def test_a_page_and_markdown_tell_the_same_as_the_terminal() -> None:
    text = TextRenderer(None).render([document_of(STORY)])
    for sentence in (WORDS.last(STORY), WORDS.change(STORY, STORY.changes[0]), WORDS.about(STORY.points[-1])):
        assert sentence in text
        assert sentence in unescape(documents_markdown([document_of(STORY)]))
        assert sentence in unescape(documents_html([document_of(STORY)]))


def test_a_series_without_a_measured_run_says_so() -> None:
    assert "no run has a value" in TextRenderer().render([document_of(series(run(1, None)))])


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (7_199, "1 h ago"),
        (86_400, "1 day ago"),
        (200_000, "2 days ago"),
        (86_400 * 60, "2026-01-31"),
    ],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: int, age: str) -> None:
    assert age_text(NOON, NOON + timedelta(seconds=seconds)) == age
