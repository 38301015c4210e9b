"""The tests of `agentv compare` on thousands of synthetic runs: false positive rates and power."""

import math
import random
from collections.abc import Callable, Sequence

import pytest

from agentv.scoring.statistics.differences import PairedDifferences
from agentv.scoring.statistics.mcnemar import mcnemar_test, score_power
from agentv.scoring.statistics.paired import paired_procedure
from agentv.scoring.statistics.power import cases_needed, detectable_difference
from agentv.scoring.statistics.sign_flips import permutation_test

LEVEL = 0.05
MOST_FALSE_ALARMS = 0.055

Draw = Callable[[random.Random, float], float]
Trials = list[list[float]]


def passes(rng: random.Random, chance: float) -> float:
    return float(rng.random() < chance)


def skewed(rng: random.Random, chance: float) -> float:
    """Draw a score that is often 1, in tenths, as rubrics give them."""
    return 1.0 if rng.random() < chance else round(rng.betavariate(2, 5), 1)


def continuous(rng: random.Random, chance: float) -> float:
    return rng.betavariate(4 * chance + 0.1, 4 * (1 - chance) + 0.1)


def make_trials(rng: random.Random, draw: Draw, *, cases: int, trials: int, scatter: float) -> Trials:
    """Return differences of two equally good runs: by case, by trial.

    Cases are easy or hard. With `scatter` each run is better at some of them and worse at as many others by the same
    amount: cases are the sampling unit, and over all cases the runs are equal.
    """
    made = []
    for _ in range(cases):
        chance = rng.betavariate(1.2, 0.8)
        lean = rng.choice((-scatter, scatter))
        first, second = (min(max(chance + way * lean, 0.0), 1.0) for way in (1, -1))
        made.append([draw(rng, second) - draw(rng, first) for _ in range(trials)])
    return made


def case_means(trials: Trials) -> list[float]:
    return [math.fsum(each) / len(each) for each in trials]


def alarm_rate(p_of: Callable[[Trials], float], draw: Draw, *, cases: int, trials: int, runs: int) -> float:
    rng = random.Random(f"{draw.__name__} {cases} {trials}")
    scatter = 0.3 if trials > 1 else 0.0
    made = (make_trials(rng, draw, cases=cases, trials=trials, scatter=scatter) for _ in range(runs))
    return sum(p_of(each) <= LEVEL for each in made) / runs


def by_case(trials: Trials) -> float:
    return permutation_test(case_means(trials), random.Random(0)).p


def by_row(trials: Trials) -> float:
    """Apply the naive test, which treats every repeat as a case of its own."""
    return permutation_test([each for case in trials for each in case], random.Random(0)).p


def by_mcnemar(trials: Trials) -> float:
    changes = [case[0] for case in trials]
    return mcnemar_test(changes.count(1), changes.count(-1))


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    ("draw", "cases", "runs"),
    [
        (passes, 8, 6000),
        pytest.param(passes, 120, 4000, marks=NIGHTLY),
        (skewed, 8, 6000),
        pytest.param(skewed, 30, 6000, marks=NIGHTLY),
        pytest.param(skewed, 120, 2500, marks=NIGHTLY),
        (continuous, 12, 4000),
        pytest.param(continuous, 60, 800, marks=NIGHTLY),
    ],
)
def test_equal_runs_are_called_different_in_one_of_twenty_at_most(draw: Draw, cases: int, runs: int) -> None:
    assert alarm_rate(by_case, draw, cases=cases, trials=1, runs=runs) <= MOST_FALSE_ALARMS


@pytest.mark.parametrize("draw", [passes, skewed])
@pytest.mark.parametrize(("cases", "runs"), [(12, 6000), pytest.param(40, 6000, marks=NIGHTLY)])
def test_and_with_trials_that_are_alike_within_a_case(draw: Draw, cases: int, runs: int) -> None:
    assert alarm_rate(by_case, draw, cases=cases, trials=5, runs=runs) <= MOST_FALSE_ALARMS


@pytest.mark.parametrize(("cases", "runs"), [(8, 6000), (30, 6000), pytest.param(300, 1500, marks=NIGHTLY)])
def test_mcnemar_keeps_the_level_too(cases: int, runs: int) -> None:
    assert alarm_rate(by_mcnemar, passes, cases=cases, trials=1, runs=runs) <= MOST_FALSE_ALARMS


@pytest.mark.parametrize("draw", [passes, skewed])
def test_the_naive_test_that_takes_each_trial_for_a_case_does_not(draw: Draw) -> None:
    """Control: the tests above would detect a method that fails here."""
    assert alarm_rate(by_row, draw, cases=30, trials=5, runs=600) > 2 * MOST_FALSE_ALARMS


def in_hundredths(rng: random.Random, mean: float, deviation: float) -> float:
    return round(rng.gauss(mean, deviation), 2)


def seen_rate(mean: float, deviation: float, cases: int, runs: int = 1500) -> float:
    rng = random.Random(f"{mean} {cases}")
    samples = ([in_hundredths(rng, mean, deviation) for _ in range(cases)] for _ in range(runs))
    return sum(permutation_test(each, random.Random(0)).p <= LEVEL for each in samples) / runs


@pytest.mark.parametrize("cases", [6, 8, 20, 60])
def test_the_minimum_detectable_difference_has_80_percent_power(cases: int) -> None:
    least = detectable_difference(PairedDifferences(cases, 0.0, 0.3, step=0.01))
    assert least is not None
    assert seen_rate(least, 0.3, cases) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("difference", [0.1, 0.2])
def test_the_number_of_cases_that_are_needed_is_enough_and_not_too_many(difference: float) -> None:
    needed = cases_needed(PairedDifferences(9, difference, 0.3, step=0.01))
    assert needed is not None
    assert seen_rate(difference, 0.3, needed, runs=1000) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("cases", "lost", "gained"), [(50, 0.05, 0.25), (100, 0.05, 0.2), (200, 0.1, 0.2)])
def test_power_is_as_stated_for_pass_and_fail_too(cases: int, lost: float, gained: float) -> None:
    stated = score_power(cases, gained - lost, gained + lost)
    rng = random.Random(cases)
    weights = [lost, gained, 1 - lost - gained]
    samples = (rng.choices([-1.0, 1.0, 0.0], weights, k=cases) for _ in range(3000))
    seen = sum(mcnemar_test(each.count(1), each.count(-1)) <= LEVEL for each in samples) / 3000
    assert seen == pytest.approx(stated, abs=0.03)


def coverage(differences: Callable[[random.Random], Sequence[float]], truth: float, runs: int) -> float:
    rng = random.Random(11)
    held = 0
    for _ in range(runs):
        found = paired_procedure([[each] for each in differences(rng)], random.Random(0)).interval()
        assert found is not None
        held += found.low <= truth <= found.high
    return held / runs


@pytest.mark.parametrize("cases", [20, 100])
@pytest.mark.parametrize("lost", [0.1, 0.3])
def test_intervals_of_differences_hold_the_truth(cases: int, lost: float) -> None:
    """Cases that passed fail with a given probability, and half as many improve."""

    def draw(rng: random.Random) -> list[float]:
        return rng.choices([-1.0, 1.0, 0.0], [lost, lost / 2, 1 - 1.5 * lost], k=cases)

    assert 0.93 <= coverage(draw, -lost / 2, runs=1500) <= 0.99


@pytest.mark.parametrize("cases", [12, pytest.param(50, marks=NIGHTLY)])
def test_intervals_of_trials_hold_the_truth(cases: int) -> None:
    """Of cases that pass 95 % of three trials, one in ten becomes a coin flip."""

    def draw(rng: random.Random) -> list[float]:
        chances = (0.5 if rng.random() < 0.1 else 0.95 for _ in range(cases))
        return [(share(rng, chance) - share(rng, 0.95)) for chance in chances]

    def share(rng: random.Random, chance: float) -> float:
        return sum(rng.random() < chance for _ in range(3)) / 3

    assert coverage(draw, -0.045, runs=300) >= 0.93
