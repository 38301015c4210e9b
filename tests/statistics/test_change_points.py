"""Detection of changes of level: the rate of false alarms on constant series, and its power."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.support.nightly import sample

from agentv.scoring.comparison.trend import (
    SIGNIFICANCE,
    ChangePoint,
    Observation,
    clearest_split,
    find_changes,
    fisher_test,
)
from agentv.scoring.statistics.moments import ClusterMoments

Draw = Callable[[np.random.Generator, int], ClusterMoments]
"""Draws a run with the given number of cases."""


def rate(chance: float) -> Draw:
    def draw(rng: np.random.Generator, cases: int) -> ClusterMoments:
        passed = int(rng.binomial(cases, chance))
        return ClusterMoments.of_passes(cases, passed)

    return draw


def score(draw_scores: Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]) -> Draw:
    def draw(rng: np.random.Generator, cases: int) -> ClusterMoments:
        scores = draw_scores(rng, cases)
        return ClusterMoments.of_rows(cases, float(scores.sum()), float((scores**2).sum()), float((scores**3).sum()))

    return draw


def three_trials(rng: np.random.Generator, cases: int) -> ClusterMoments:
    """Draw a run whose cases are easy or hard, each with three trials."""
    passed = rng.binomial(3, rng.beta(0.8, 0.4, cases))
    return ClusterMoments.of_clusters((3, float(each)) for each in passed)


def from_day_to_day(rng: np.random.Generator, cases: int) -> ClusterMoments:
    """Draw a run of an agent whose quality varies from day to day."""
    passed = int(rng.binomial(cases, rng.beta(14, 6)))
    return ClusterMoments.of_passes(cases, passed)


DRAWS: dict[str, Draw] = {
    "half pass": rate(0.5),
    "most pass": rate(0.9),
    "nearly all pass": rate(0.99),
    "skewed scores": score(lambda rng, cases: rng.beta(0.3, 3, cases)),
    "few scores below 1": score(lambda rng, cases: np.where(rng.random(cases) < 0.95, 1, rng.random(cases))),
    "three trials": three_trials,
    "from day to day": from_day_to_day,
}
SIZES: dict[str, Sequence[int]] = {
    "5 runs": [40] * 5,
    "12 runs that grow": [10, 10, 20, 20, 40, 40, 80, 80, 160, 160, 320, 320],
    "30 runs, some large": [20, 20, 200] * 10,
}


def alarm_rate(
    p_of: Callable[[Sequence[Observation]], float], draw: Draw, sizes: Sequence[int], *, series: int, seed: int = 0
) -> float:
    """Return the share of synthetic constant series in which a change is detected."""
    rng = np.random.default_rng(seed)
    made = ([Observation.of_moments(draw(rng, size)) for size in sizes] for _ in range(series))
    return sum(p_of(each) <= SIGNIFICANCE for each in made) / series


def by_clearest_split(series: Sequence[Observation]) -> float:
    return clearest_split(series)[1]


def by_best_of_all_splits(series: Sequence[Observation]) -> float:
    """Apply the naive rule: a test of two means at every split, taking the best one."""
    return min(_two_means(series[:at], series[at:]) for at in range(1, len(series)))


def _two_means(first: Sequence[Observation], second: Sequence[Observation]) -> float:
    (mean, error), (other, other_error) = (
        (
            sum(each.weight * each.value for each in part) / sum(each.weight for each in part),
            sum(each.weight * (each.variance or 0) for each in part) / sum(each.weight for each in part) ** 2,
        )
        for part in (first, second)
    )
    return math.erfc(abs(mean - other) / math.sqrt(2 * max(error + other_error, 1e-12)))


SERIES = sample([(draw, sizes) for draw in DRAWS for sizes in SIZES], 3, of_each=lambda each: each[1])


@pytest.mark.parametrize(("draw", "sizes"), SERIES)
def test_a_constant_series_has_a_change_in_at_most_5_of_100(draw: str, sizes: str) -> None:
    alarms = alarm_rate(by_clearest_split, DRAWS[draw], SIZES[sizes], series=600)
    assert alarms <= SIGNIFICANCE


@pytest.mark.parametrize("draw", ["half pass", "nearly all pass", "from day to day"])
def test_believing_the_best_of_all_splits_fails_that_test(draw: str) -> None:
    assert alarm_rate(by_best_of_all_splits, DRAWS[draw], SIZES["30 runs, some large"], series=200) > 0.2


POWER = {
    # runs of 100 cases with a pass rate of 80 %, the first changed run, its pass rate: detected in how many of 100
    (5, 3, 0.5): 80,
    (5, 4, 0.4): 82,
    (10, 5, 0.66): 82,
    (10, 9, 0.57): 82,
    (20, 10, 0.72): 79,
    (20, 19, 0.61): 79,
}
"""The table of docs/explanation/numbers.md."""


@pytest.mark.parametrize(("change", "seen"), POWER.items())
def test_a_change_is_seen_as_often_as_the_docs_say(change: tuple[int, int, float], seen: int) -> None:
    runs, at, after = change
    rng = np.random.default_rng(1)
    series = (
        [Observation.of_moments(rate(0.8 if number < at else after)(rng, 100)) for number in range(runs)]
        for _ in range(1000)
    )
    assert sum(by_clearest_split(each) <= SIGNIFICANCE for each in series) / 10 == pytest.approx(seen, abs=3)


def test_the_docs_have_these_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "numbers.md").read_text("utf-8")
    for (runs, at, after), seen in POWER.items():
        which = "the last" if runs - at == 1 else f"the last {runs - at}"
        assert f"| {runs} | {which} | {after:.0%} | {seen} % |".replace("%", " %").replace("  ", " ") in page


@given(
    st.tuples(st.integers(1, 300), st.integers(1, 300)).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.integers(0, sizes[0]), st.integers(0, sizes[1]))
    )
)
def test_the_exact_test_is_twice_the_tail_that_scipy_has(drawn: tuple[tuple[int, int], int, int]) -> None:
    (first, second), marked, other = drawn
    among = stats.hypergeom(first + second, marked + other, first)
    tail = min(float(among.cdf(marked)), float(among.sf(marked - 1)))
    assert fisher_test(first, marked, second, other) == pytest.approx(min(1.0, 2 * tail), rel=1e-8, abs=1e-12)


def series_of(*values: float, cases: int = 100) -> list[Observation]:
    return [Observation(value, cases, value * (1 - value)) for value in values]


def test_two_changes_are_found_in_order_with_the_levels_between_them() -> None:
    found = find_changes(series_of(*[0.9] * 8, *[0.6] * 8, *[0.9] * 8))
    assert [(each.at, round(each.before, 9), round(each.after, 9)) for each in found] == [(8, 0.9, 0.6), (16, 0.6, 0.9)]
    assert all(each.p < 0.001 for each in found)


def test_the_last_run_alone_may_be_a_change() -> None:
    found = find_changes(series_of(*[0.8, 0.82, 0.79, 0.81] * 3, 0.5))
    assert [each.at for each in found] == [12]


@pytest.mark.parametrize("runs", [0, 1, 2, 4])
def test_nothing_is_found_in_fewer_than_five_runs(runs: int) -> None:
    values = [1.0] * (runs // 2) + [0.0] * (runs - runs // 2)
    assert find_changes(series_of(*values)) == ()


def test_five_runs_that_are_all_alike_and_then_are_not_are_enough() -> None:
    assert [each.at for each in find_changes(series_of(1, 1, 1, 1, 0))] == [4]


def test_one_case_that_fails_in_the_last_of_many_perfect_runs_is_no_change() -> None:
    assert find_changes(series_of(*[1.0] * 20, 0.99)) == ()
    assert find_changes(series_of(*[1.0] * 20, 0.98)) == ()


def test_a_large_run_has_more_power_than_a_small_one() -> None:
    small = [Observation(0.8, 20, 0.16)] * 6
    assert find_changes([*small, Observation(0.5, 4, 0.25)]) == ()
    assert len(find_changes([*small, Observation(0.5, 400, 0.25)])) == 1


def test_runs_of_unknown_variance_use_the_variation_between_runs() -> None:
    steady = [Observation(math.log(each)) for each in (1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 2.0, 2.1, 1.9, 2.05)]
    assert [each.at for each in find_changes(steady)] == [6]
    wild = [Observation(math.log(each)) for each in (1.0, 3, 0.5, 2, 0.7, 1.5, 2.0, 0.6, 2.5, 1)]
    assert find_changes(wild) == ()


@given(st.lists(st.floats(0, 1), min_size=5, max_size=30), st.integers(2, 500))
def test_whatever_the_series_the_changes_lie_within_it(values: list[float], cases: int) -> None:
    found: tuple[ChangePoint, ...] = find_changes(series_of(*values, cases=cases))
    assert [each.at for each in found] == sorted({each.at for each in found})
    assert all(0 < each.at < len(values) and 0 <= each.p <= SIGNIFICANCE for each in found)
