"""Coverage of intervals on synthetic runs with a known truth. `python -m tests.statistics.coverage` prints
the tables of docs/explanation/numbers.md.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agentv.scoring.counting.case_sums import pass_hat
from agentv.scoring.counting.tallies import repeated_percentile_shares
from agentv.scoring.statistics.intervals import mean_interval, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import Interval

RUNS = 2000
CASES = (20, 50, 200, 2000)
PROMISED = (0.93, 0.97)
LEAST = 0.85
_AT_ONCE = 2_000_000

Values = NDArray[np.float64]
Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], Values]
ToInterval = Callable[[ClusterMoments], Interval | None]
ToShares = Callable[[float, ClusterMoments], tuple[float, float] | None]


@dataclass(frozen=True)
class Population:
    """A distribution of scores. `mean` is the truth; `to_interval` is the interval under test."""

    name: str
    mean: float
    draw: Draw
    to_interval: ToInterval = mean_interval


@dataclass(frozen=True)
class Design:
    """The number of trials per case, and the correlation `alike` of the scores of one case."""

    trials: int = 1
    alike: float = 0.0

    def __str__(self) -> str:
        return "once" if self.trials == 1 else f"{self.trials} times, correlation {self.alike:g}"


def of_rate(rate: float) -> Population:
    return Population(
        f"{100 * rate:g} %", rate, lambda rng, shape: (rng.random(shape) < rate).astype(float), rate_interval
    )


def _either(share: float, one: Draw, other: Draw) -> Draw:
    return lambda rng, shape: np.where(rng.random(shape) < share, one(rng, shape), other(rng, shape))


def _beta(a: float, b: float) -> Draw:
    return lambda rng, shape: rng.beta(a, b, shape)


def _always(score: float) -> Draw:
    return lambda _rng, shape: np.full(shape, score)


RATES = tuple(of_rate(rate) for rate in (0.1, 0.3, 0.5, 0.7, 0.9))
SCORES = (
    Population("high, Beta(5, 1)", 5 / 6, _beta(5, 1)),
    Population("low with a long tail, Beta(0.3, 3)", 1 / 11, _beta(0.3, 3)),
    Population("nearly all or nothing, Beta(0.5, 0.1)", 5 / 6, _beta(0.5, 0.1)),
    Population("between 0.5 and 1, mostly near 0.5", 0.5 + 0.5 / 7, lambda rng, shape: 0.5 + rng.beta(1, 6, shape) / 2),
    Population("70 % are 1, the others anything", 0.85, _either(0.7, _always(1.0), _beta(1, 1))),
    Population("90 % are 1, the others anything", 0.95, _either(0.9, _always(1.0), _beta(1, 1))),
    Population(
        "80 % are 1, 10 % 0.5, 10 % 0", 0.85, _either(0.8, _always(1.0), _either(0.5, _always(0.5), _always(0)))
    ),
    Population("10 % are 0, the others near 0.9", 0.9 * 20 / 22, _either(0.1, _always(0.0), _beta(20, 2))),
)
OUTSIDE = (
    *(of_rate(rate) for rate in (0.02, 0.05, 0.1, 0.5)),
    SCORES[0],
    Population("low, Beta(1, 19)", 0.05, _beta(1, 19)),
    SCORES[5],
    SCORES[7],
    Population("5 % are 0, the others near 0.9", 0.95 * 20 / 22, _either(0.05, _always(0.0), _beta(20, 2))),
)
OUTSIDE_CASES = (5, 10, 20, 40, 80)
PERCENTILES = ((0.5, "median"), (0.95, "95th percentile"))
RATE_DESIGNS = (Design(), Design(3, 0.2), Design(3, 0.8), Design(5, 0.5))
SCORE_DESIGNS = (Design(), Design(3, 0.5))
OUTSIDE_DESIGNS = (Design(), Design(5, 0.5))


def drawn(population: Population, design: Design, cases: int, rng: np.random.Generator, runs: int) -> Values:
    """Return scores by run, case and trial. A trial repeats its case's own score, or draws a new one."""
    own = population.draw(rng, (runs, cases, 1))
    if design.trials == 1:
        return own
    shape = (runs, cases, design.trials)
    return np.where(rng.random(shape) < math.sqrt(design.alike), own, population.draw(rng, shape))


def moments(values: Values, *, is_clustered: bool = True) -> Iterator[ClusterMoments]:
    """Yield the moments of each run; not clustered, each row counts as a case."""
    runs, _, trials = values.shape
    sums, size = (values.sum(axis=2), trials) if is_clustered else (values.reshape(runs, -1), 1)
    clusters = sums.shape[1]
    for total, squares, cubes in zip(*((sums**power).sum(axis=1) for power in (1, 2, 3)), strict=True):
        mixed = (cubes, size * squares, size**2 * total, size**3 * clusters)
        yield ClusterMoments(clusters, clusters * size, total, squares, size * total, size**2 * clusters, mixed)


def coverage(
    population: Population, design: Design, cases: int, *, runs: int = RUNS, is_clustered: bool = True
) -> float:
    """Return the share of synthetic runs whose interval holds the truth. Seeded by the cell."""
    rng = np.random.default_rng([cases, design.trials, round(100 * design.alike), *population.name.encode()])
    held, left = 0, runs
    while left:
        now = min(left, max(_AT_ONCE // (cases * design.trials), 1))
        left -= now
        for each in moments(drawn(population, design, cases, rng, now), is_clustered=is_clustered):
            interval = population.to_interval(each)
            held += interval is not None and interval.low <= population.mean <= interval.high
    return held / runs


@dataclass(frozen=True)
class Luck:
    """Cases with a pass probability of their own, Beta(a, b), and `trials` trials each."""

    a: float
    b: float
    trials: int = 5

    def all_of(self, k: int) -> float:
        """Return the probability that k trials of a case all pass."""
        return math.prod((self.a + each) / (self.a + self.b + each) for each in range(k))

    def values(self, k: int, cases: int, runs: int) -> Values:
        """Return pass^k as estimated for each case of each run."""
        rng = np.random.default_rng([k, cases, round(10 * self.a), round(10 * self.b)])
        passed = rng.binomial(self.trials, rng.beta(self.a, self.b, (runs, cases)))
        estimates = [pass_hat(k, count, self.trials) for count in range(self.trials + 1)]
        return np.array(estimates, dtype=float)[passed]


LUCK = (Luck(2, 1), Luck(0.5, 0.5), Luck(1, 2))
RARE_LUCK = (Luck(1, 4), Luck(1, 8))


def coverage_of_all_of(k: int, luck: Luck, cases: int, *, runs: int = RUNS) -> float:
    """Return the share of synthetic runs whose interval of pass^k holds the truth."""
    intervals = (mean_interval(each) for each in moments(luck.values(k, cases, runs)[:, :, None]))
    return sum(each is not None and each.low <= luck.all_of(k) <= each.high for each in intervals) / runs


def coverage_of_percentile(
    share: float, design: Design, cases: int, *, to_shares: ToShares = repeated_percentile_shares, runs: int = RUNS
) -> float | None:
    """Return the share of synthetic runs whose interval of a percentile holds the truth.

    None where there is no interval.
    """
    rng = np.random.default_rng([cases, design.trials, round(100 * design.alike), round(100 * share)])
    own, lucky = math.sqrt(design.alike), math.sqrt(1 - design.alike)
    truth, held, left = NormalDist().inv_cdf(share), 0, runs
    while left:
        now = min(left, max(_AT_ONCE // (cases * design.trials), 1))
        left -= now
        shape = (now, cases, design.trials)
        values = own * rng.standard_normal((now, cases, 1)) + lucky * rng.standard_normal(shape)
        ordered = np.sort(values.reshape(now, -1), axis=1)
        found = np.quantile(ordered, share, axis=1)[:, None, None]
        for run, below in zip(ordered, moments((values <= found).astype(float)), strict=True):
            bounds = to_shares(share, below)
            if bounds is None:
                return None
            low, high = np.interp([each * (len(run) + 1) - 1 for each in bounds], np.arange(len(run)), run)
            held += bool(low <= truth <= high)
    return held / runs


def shown(share: float | None) -> str:
    """Return a coverage as in the tables: in percent, with a star outside the guaranteed range."""
    if share is None:
        return "none"
    return f"{100 * share:.1f}{'' if PROMISED[0] <= share <= PROMISED[1] else '*'}"


def table(
    populations: Sequence[Population], designs: Sequence[Design], *, of: str, columns: Sequence[int] = CASES
) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {of} | each case run | {' | '.join(f'{cases:,} cases' for cases in columns)} |"
    yield "| --- | --- |" + " ---: |" * len(columns)
    for design in designs:
        for population in populations:
            cells = " | ".join(shown(coverage(population, design, cases)) for cases in columns)
            yield f"| {population.name} | {design} | {cells} |"


def table_of_others() -> Iterator[str]:
    """Yield the lines of the table of pass^k and percentiles."""
    yield f"| number | {' | '.join(f'{cases:,} cases' for cases in CASES)} |"
    yield "| --- |" + " ---: |" * len(CASES)
    for luck in LUCK:
        cells = " | ".join(shown(coverage_of_all_of(3, luck, cases)) for cases in CASES)
        yield f"| pass^3 of 5 trials, a mean of {luck.all_of(3):.2f} | {cells} |"
    for share, name in PERCENTILES:
        for design in RATE_DESIGNS:
            cells = " | ".join(shown(coverage_of_percentile(share, design, cases)) for cases in CASES)
            yield f"| {name} of durations, each case run {design} | {cells} |"


def table_of_the_outside() -> Iterator[str]:
    """Yield the lines of the table without a guarantee: fewer cases, and means near an end of the scale."""
    yield from table(OUTSIDE, OUTSIDE_DESIGNS, of="rate or scores", columns=OUTSIDE_CASES)
    for luck in RARE_LUCK:
        cells = " | ".join(shown(coverage_of_all_of(3, luck, cases)) for cases in OUTSIDE_CASES)
        yield f"| pass^3, a mean of {luck.all_of(3):.2f} | {luck.trials} times | {cells} |"


def tables() -> Iterator[str]:
    """Yield the lines of all tables, an empty one between them."""
    yield from table(RATES, RATE_DESIGNS, of="rate")
    yield ""
    yield from table(SCORES, SCORE_DESIGNS, of="scores")
    yield ""
    yield from table_of_others()
    yield ""
    yield from table_of_the_outside()


if __name__ == "__main__":
    for line in tables():
        sys.stdout.write(f"{line}\n")
