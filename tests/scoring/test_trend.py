"""Series of runs: points, gaps, and representatives of several runs."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.stored import NOON
from tests.support.trending import SUITE, TARGET, passing, row

from agentv.scoring.comparison.trend import TrendRun, TrendSeries, find_series, parse_metric
from agentv.scoring.counting.run_sums import RunSums
from agentv.scoring.counting.summary import Summary
from agentv.types.errors import ConfigError

MEAN = ("mean", None, None)
PLACE = (SUITE, TARGET)


def sums(*scores: float | None, **changes: Any) -> RunSums:
    summary = Summary(by=(), has_shared_cases=False)
    for number, each in enumerate(scores):
        summary.add(row(f"case-{number}", each, **changes))
    return RunSums.of(summary)


def run(day: int, *scores: float | None, **about: Any) -> TrendRun:
    found = TrendRun(
        run_id=f"run-{day}",
        created_at=NOON + timedelta(days=day),
        state="finished",
        suites={SUITE: "aa"},
        targets=(TARGET,),
        sums={PLACE: sums(*scores)} if scores else {},
    )
    return replace(found, **about)


def series(*runs: TrendRun, **options: Any) -> TrendSeries:
    (found,) = find_series(runs, MEAN, **{"last": 30, **options})
    return found


def values(found: TrendSeries) -> list[float | None]:
    return [None if point.measured is None else point.measured.value for point in found.points]


def test_a_run_that_did_not_choose_the_suite_is_no_point() -> None:
    other = run(2, suites={"other.yaml": "bb"})
    unchosen = run(3)
    assert values(series(run(1, 1.0), other, unchosen, run(4, 0.0))) == [1.0, 0.0]


def test_a_run_whose_rows_cannot_be_read_is_a_gap_that_says_so() -> None:
    broken = run(2, state="unreadable", problem="results.jsonl:7: not JSON")
    found = series(run(1, 1.0), broken)
    assert values(found) == [1.0, None]
    assert found.points[1].gap == "results.jsonl:7: not JSON"
    assert found.last is found.points[0]


def test_rows_that_were_all_skipped_are_a_gap() -> None:
    skipped = RunSums.of(Summary(by=()))
    found = series(run(1, 1.0), run(2, sums={PLACE: replace(skipped, counts={"skipped": 3})}))
    assert found.points[1].gap == "no result was judged: 3 of 3 skipped"


def test_a_whole_stands_for_its_parts() -> None:
    parts = [run(day, 1.0, shard=f"{day}/2") for day in (1, 2)]
    whole = run(3, 1.0, 0.0, parents=("run-1", "run-2"))
    assert values(series(*parts, whole)) == [0.5]
    assert values(series(*parts)) == [1.0, 1.0]


def test_parts_and_runs_that_were_stopped_are_no_change() -> None:
    good = [run(day, *passing(38)) for day in range(1, 8)]
    for about in ({"shard": "1/2"}, {"state": "stopped"}, {"state": "running"}):
        assert series(*good, *(run(day, *passing(2), **about) for day in (8, 9))).changes == ()
    assert [each.at for each in series(*good, *(run(day, *passing(2)) for day in (8, 9))).changes] == [7]


def test_runs_of_some_cases_are_held_against_runs_of_the_same_cases_alone() -> None:
    whole = [run(day, *passing(20)) for day in range(1, 6)]
    easy = [run(day, *passing(12, of=12), selection="--tag easy") for day in range(6, 12)]
    found = series(*whole, *easy)
    assert found.changes == ()
    assert [point.difference for point in found.points] == [None, *[0.0] * 4, None, *[0.0] * 5]
    mixed = series(*whole[:3], *easy[:2], *whole[3:], *(run(day, *passing(2)) for day in (12, 13)))
    assert [mixed.points[each.at].run.run_id for each in mixed.changes] == ["run-12"]
    dropped = [run(day, *passing(1, of=12), selection="--tag easy") for day in (14, 15)]
    both = series(*whole, *easy, *(run(day, *passing(2)) for day in (12, 13)), *dropped)
    assert [both.points[each.at].run.run_id for each in both.changes] == ["run-12", "run-14"]


def test_changes_are_placed_beside_gaps_and_parts() -> None:
    good = [run(day, *passing(38)) for day in range(1, 6)]
    found = series(*good, run(6, None, None), run(7, 1.0, shard="1/2"), run(8, *passing(2)), run(9, *passing(1)))
    assert [found.points[each.at].run.run_id for each in found.changes] == ["run-8"]


def test_by_commit_the_newest_measured_run_stands_for_all() -> None:
    runs = [
        run(1, 1.0, commit="aa"),
        run(2, 0.0, commit="aa"),
        run(3, None, commit="aa"),
        run(4, 1.0, commit="aa", is_dirty=True),
        run(5, 0.5, commit="bb"),
        run(6, 0.25),
        run(7, 0.75),
        run(8, 1.0, commit="bb", selection="--case a"),
    ]
    found = series(*runs, by_commit=True)
    assert values(found) == [0.0, 1.0, 0.5, 0.25, 0.75, 1.0]
    assert [point.runs for point in found.points] == [3, 1, 1, 1, 1, 1]


def test_an_edited_suite_is_marked_once_across_a_run_without_digest() -> None:
    suites: list[str | None] = ["aa", "aa", None, "bb", "bb"]
    found = series(*(run(day, 1.0, suites={SUITE: digest}) for day, digest in enumerate(suites)))
    assert [point.is_suite_changed for point in found.points] == [False, False, False, True, False]
    assert [point.difference for point in found.points] == [None, 0.0, 0.0, None, 0.0]


def test_only_the_last_are_shown_and_the_first_of_them_has_no_difference() -> None:
    found = series(*(run(day, day / 10) for day in range(1, 6)), last=2)
    assert values(found) == [0.4, 0.5]
    assert [point.difference for point in found.points] == [None, pytest.approx(0.1)]


@pytest.mark.parametrize(
    ("metric", "value", "has_interval"),
    [
        ("mean", 0.5, True),
        ("pass_rate", 0.5, True),
        ("cost_usd", 0.0075, False),
        ("p95(duration_s)", 1.5, False),
        ("p50(duration_ms)", 1500, False),
        ("evaluator(tone).mean", 1.0, True),
        ("evaluator(contains).pass_rate", 0.0, True),
    ],
)
def test_each_metric_is_that_of_a_report(metric: str, value: float, has_interval: bool) -> None:
    measured = sums(1.0, 0.0, None).measure(parse_metric(metric))
    assert measured is not None
    assert measured.value == pytest.approx(value)
    assert (measured.interval is not None) == has_interval


def test_what_was_not_measured_is_a_gap_and_says_why() -> None:
    unpriced = run(1, sums={PLACE: sums(1.0, usage_by=None)})
    for metric, why in (("cost_usd", "a price is unknown"), ("evaluator(none).mean", "not measured")):
        (found,) = find_series([unpriced], parse_metric(metric), last=5)
        assert found.points[0].gap == why


def test_a_run_without_a_judged_row_has_no_cost_either() -> None:
    (found,) = find_series([run(1, None, None)], parse_metric("cost_usd"), last=5)
    assert found.points[0].gap == "no result was judged: 2 of 2 errors"


@pytest.mark.parametrize("metric", ["median", "mean >= 1", "evaluator(x)", "p95", "tag(a).mean", ""])
def test_what_is_no_metric_is_refused(metric: str) -> None:
    with pytest.raises(ConfigError, match=r"write one of mean, pass_rate, cost_usd, p50\(duration_s\)"):
        parse_metric(metric)


def test_the_series_are_in_the_order_of_their_names() -> None:
    for names in (("large", "small"), ("small", "large")):
        both = run(1, sums={(SUITE, name): sums(1.0) for name in names})
        found = find_series([both], MEAN, last=5)
        assert [series.target for series in found] == ["large", "small"]
