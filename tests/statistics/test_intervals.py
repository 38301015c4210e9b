"""Wilson's interval against statsmodels', and properties of all intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from agentv.scoring.statistics.intervals import effective_n, mean_interval, rate_interval, wilson_bounds
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import Interval

Z = stats.norm.ppf(0.975)

scores = st.floats(0, 1).map(lambda score: round(score, 3))
cases_of_scores = st.lists(st.lists(scores, min_size=1, max_size=5), min_size=2, max_size=40)


def of_rows(rows: list[float]) -> ClusterMoments:
    return ClusterMoments.of_rows(len(rows), sum(rows), sum(row**2 for row in rows), sum(row**3 for row in rows))


def of_cases(cases: list[list[float]]) -> ClusterMoments:
    return ClusterMoments.of_clusters((len(case), sum(case)) for case in cases)


def bounds(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("passed", "rows"), [(0, 2), (1, 7), (18, 20), (20, 20), (361, 500), (99_999, 100_000)])
def test_the_interval_of_a_rate_is_statsmodels_wilson_interval(passed: int, rows: int, level: float) -> None:
    found = rate_interval(ClusterMoments.of_passes(rows, passed), level)
    expected = proportion_confint(passed, rows, alpha=1 - level, method="wilson")
    assert bounds(found) == pytest.approx(expected, abs=1e-9)
    assert found == Interval(*bounds(found), method="wilson", level=level)


@pytest.mark.parametrize("rows", range(1, 200))
def test_an_interval_of_all_or_nothing_ends_there_exactly(rows: int) -> None:
    assert wilson_bounds(1.0, rows, 1.959963984540054)[1] == 1.0
    assert wilson_bounds(0.0, rows, 1.959963984540054)[0] == 0.0


def test_repeats_that_always_agree_are_worth_as_much_as_one_of_them() -> None:
    found = rate_interval(of_cases([[1.0] * 5] * 30 + [[0.0] * 5] * 10))
    assert bounds(found) == pytest.approx(proportion_confint(30, 40, method="wilson"), abs=1e-9)
    assert found is not None
    assert found.method == "clustered-wilson"


def test_repeats_of_luck_alone_are_worth_nearly_their_number() -> None:
    low, high = bounds(rate_interval(of_cases([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]] * 20)))
    assert (low, high) == pytest.approx(proportion_confint(60, 120, method="wilson"), abs=4e-4)


def test_repeats_in_part_alike_are_worth_the_rows_over_the_design_effect() -> None:
    cases = [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]] * 80
    effect = float(np.var([sum(case) / len(case) for case in cases])) * 2 / (0.6 * 0.4)
    assert 1 < effect < 2
    expected = wilson_bounds(0.6, 800 / effect, Z)
    assert bounds(rate_interval(of_cases(cases))) == pytest.approx(expected, abs=1e-4)
    assert effective_n(of_cases(cases)) == pytest.approx(800 / effect, rel=0.002)


def test_when_all_repeats_pass_each_case_counts_once() -> None:
    assert bounds(rate_interval(of_cases([[1.0] * 4] * 12))) == pytest.approx(
        proportion_confint(12, 12, method="wilson"), abs=1e-9
    )


def test_when_all_scores_are_equal_the_interval_of_the_mean_is_wilsons() -> None:
    found = mean_interval(of_rows([0.7] * 10))
    assert bounds(found) == pytest.approx(proportion_confint(7, 10, method="wilson"), abs=1e-9)
    assert found is not None
    assert found.method == "wilson"


def test_the_bounds_of_a_mean_solve_the_equation_of_the_page() -> None:
    rows = np.array([0.2, 0.5, 0.9, 1.0, 1.0, 0.75, 0.6])
    mean = rows.mean()
    passes, squares, cubes = 7 * mean * (1 - mean), ((rows - mean) ** 2).sum(), ((rows - mean) ** 3).sum()
    student = (stats.t.ppf(0.975, 7 * 6 / 2) / Z) ** 2
    for bound, doubt in zip(
        bounds(mean_interval(of_rows(rows.tolist()))), (mean**4 / 2, (1 - mean) ** 4 / 2), strict=True
    ):
        variance = mean * (1 - mean) * (squares * student + doubt) / (passes + doubt)
        skew = (cubes + doubt * (1 - 2 * mean)) / (squares + doubt)
        there = variance + skew * (bound - mean) - (bound - mean) ** 2
        assert abs(bound - mean) / (there / 7) ** 0.5 == pytest.approx(Z, rel=1e-9)


@pytest.mark.parametrize(("least", "most"), [(0.0, 0.5), (0.5, 1.0), (0.2, 0.9)])
def test_scores_of_two_values_have_wilsons_interval_between_these(least: float, most: float) -> None:
    found = bounds(mean_interval(of_rows([least] * 200 + [most] * 1800)))
    wilson = proportion_confint(1800, 2000, method="wilson")
    assert found == pytest.approx([least + (most - least) * share for share in wilson], abs=3e-4)


def test_of_many_cases_the_interval_of_a_mean_is_students() -> None:
    rows = np.random.default_rng(1).beta(5, 2, 100_000)
    low, high = stats.t.interval(0.95, len(rows) - 1, np.mean(rows), stats.sem(rows))
    assert bounds(mean_interval(of_rows(rows.tolist()))) == pytest.approx((low, high), abs=(high - low) / 100)


@pytest.mark.parametrize("cases", [5, 20, 40, 200])
def test_one_case_that_differs_a_little_makes_a_mean_hardly_surer(cases: int) -> None:
    all_alike, one_differs = (mean_interval(of_rows([0.0] * (cases - 1) + [last])) for last in (0.0, 0.1))
    assert bounds(one_differs)[1] > 0.8 * bounds(all_alike)[1]


@given(st.lists(st.booleans(), min_size=2, max_size=40))
def test_the_mean_of_scores_of_0_and_1_is_a_rate(passed: list[bool]) -> None:
    moments = of_rows([float(each) for each in passed])
    assert bounds(mean_interval(moments)) == pytest.approx(bounds(rate_interval(moments)), abs=1e-9)


@given(cases_of_scores, st.integers(2, 5))
def test_asking_each_case_again_with_the_same_outcome_changes_nothing(cases: list[list[float]], times: int) -> None:
    firsts = [case[0] for case in cases]
    once, repeated = mean_interval(of_rows(firsts)), mean_interval(of_cases([[score] * times for score in firsts]))
    assert bounds(repeated) == pytest.approx(bounds(once), abs=1e-6)


@pytest.mark.parametrize("cases", [[], [[1.0]], [[1.0, 0.0, 1.0]]])
def test_fewer_than_two_cases_have_no_interval(cases: list[list[float]]) -> None:
    assert (rate_interval(of_cases(cases)), mean_interval(of_cases(cases))) == (None, None)


@given(cases_of_scores)
def test_an_interval_of_a_mean_holds_the_mean_and_stays_between_0_and_1(cases: list[list[float]]) -> None:
    moments = of_cases(cases)
    low, high = bounds(mean_interval(moments))
    assert 0 <= low <= moments.mean + 1e-9
    assert moments.mean - 1e-9 <= high <= 1


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=2, max_size=40))
def test_an_interval_of_a_rate_is_never_narrower_than_without_repeats(cases: list[list[bool]]) -> None:
    moments = of_cases([[float(passed) for passed in case] for case in cases])
    low, high = bounds(rate_interval(moments))
    alone = bounds(rate_interval(ClusterMoments.of_passes(moments.rows, moments.total)))
    assert 0 <= low <= alone[0] + 1e-12
    assert alone[1] - 1e-12 <= high <= 1


@given(cases_of_scores)
def test_what_failed_is_what_passed_seen_from_the_other_side(cases: list[list[float]]) -> None:
    low, high = bounds(mean_interval(of_cases(cases)))
    mirrored = bounds(mean_interval(of_cases([[1 - score for score in case] for case in cases])))
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-6)
