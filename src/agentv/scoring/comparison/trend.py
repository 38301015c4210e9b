"""The results of a suite and target from run to run: points, gaps for runs without a number, changes of level."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, groupby, pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.counting.run_sums import MetricKey, MetricValue, RunSums
from agentv.scoring.gates.gates import TREND_METRICS, GateError, parse_gate
from agentv.scoring.statistics.distributions import beta_cdf, normal_quantile
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.errors import ConfigError, nearest

_NEGLIGIBLE = 1e-18


def fisher_test(first: int, first_marked: int, second: int, second_marked: int) -> float:
    """Return the exact two-sided p of `first_marked` of `first` rows and `second_marked` of `second`.

    Twice the smaller tail of the hypergeometric distribution, at most 1: the probability, given how many rows are
    marked, of a split at least as uneven by chance. Fisher 1935, JRSS 98.
    """
    marked, rows = first_marked + second_marked, first + second
    if not 0 < marked < rows:
        return 1.0
    expected = marked * first / rows
    if first_marked < expected:
        return min(1.0, 2 * _lower_tail(first_marked, first, second, marked))
    return min(1.0, 2 * _lower_tail(second_marked, second, first, marked))


def _lower_tail(count: int, group: int, others: int, marked: int) -> float:
    """Return the chance that at most `count` of the `marked` rows are in the group."""
    least = max(0, marked - others)
    term = _chance(count, group, others, marked)
    terms = [term]
    for each in range(count, least, -1):
        term *= each * (others - marked + each) / ((marked - each + 1) * (group - each + 1))
        if term < _NEGLIGIBLE * terms[0]:
            break
        terms.append(term)
    return math.fsum(terms)


def _chance(count: int, group: int, others: int, marked: int) -> float:
    return math.exp(_log_ways(group, count) + _log_ways(others, marked - count) - _log_ways(group + others, marked))


def _log_ways(rows: int, marked: int) -> float:
    return math.lgamma(rows + 1) - math.lgamma(marked + 1) - math.lgamma(rows - marked + 1)


LEVEL = 0.05
FEWEST_RUNS = 5
"""With fewer than five runs the variation between runs cannot be estimated well enough."""

_FEWEST_CASES = 2
_STEPS = 40
_REACH = 8.0
_LEAST_CHANCE = 1e-300
_ROUNDING = 1e-12
_DIGITS = 6


class Observation(Struct, frozen=True):
    """One run's number in a series; `weight` is its effective number of independent cases.

    `variance` is that of one case, for numbers of 0..1; None if it is not known.
    """

    value: float
    weight: float = 1.0
    variance: float | None = None

    @classmethod
    def of_moments(cls, moments: ClusterMoments) -> "Observation":
        """Return a rate or a mean of 0..1 as an observation; the repeats of a case form one cluster."""
        weight, mean = moments.effective_clusters, min(max(moments.mean, 0.0), 1.0)
        # Passes and fails have the largest variance that values of 0..1 can have.
        variance = mean * (1 - mean) if moments.clusters < _FEWEST_CASES else moments.variance * weight
        return cls(mean, weight, variance)


class ChangePoint(Struct, frozen=True):
    """A change of level at observation number `at` (from 0), the first of the new level.

    `before` and `after` are the means up to the neighbouring changes; `p` is the probability of a change as clear as
    this one anywhere in a series without a change.
    """

    at: int
    before: float
    after: float
    p: float


def find_changes(series: Sequence[Observation], *, level: float = LEVEL) -> tuple[ChangePoint, ...]:
    """Return the changes in a series, in order, by binary segmentation (Scott & Knott 1974); none below five runs.

    The clearest split of the series is a change if its p is at most `level`; then both parts are searched in the same
    way. In a series without a change, the probability of finding any is at most `level`.
    """
    found = dict(_split(series, 0, level))
    if not found:
        return ()
    places = sorted(found)
    means = [_mean(series[start:end]) for start, end in pairwise([0, *places, len(series)])]
    return tuple(
        ChangePoint(at, before, after, found[at]) for at, (before, after) in zip(places, pairwise(means), strict=True)
    )


def _split(series: Sequence[Observation], start: int, level: float) -> Iterator[tuple[int, float]]:
    if len(series) < FEWEST_RUNS:
        return
    at, p = clearest_split(series)
    if p <= level:
        yield start + at, p
        yield from _split(series[:at], start, level)
        yield from _split(series[at:], start + at, level)


def clearest_split(series: Sequence[Observation]) -> tuple[int, float]:
    """Return the split with the most likely change, and the probability of one as clear anywhere in a constant series.

    The probability comes from the least significant of several tests: against the variation of cases within runs, if
    known, and against the variation between runs, weighted by cases and unweighted. Needs three observations or more.
    or more.
    """
    ends = list(accumulate(each.weight for each in series))
    lifts = [_lift(series, at) for at in range(1, len(series))]
    at = max(range(len(lifts)), key=lifts.__getitem__) + 1
    if lifts[at - 1] <= _ROUNDING:
        return at, 1.0
    alike = [replace(each, weight=1.0) for each in series]
    chance = max(_chance_between_runs(series, at), _chance_between_runs(alike, at), _chance_within_runs(series, at))
    deviate = -normal_quantile(max(chance, _LEAST_CHANCE) / 2) if chance < 1 else 0.0
    return at, _chance_anywhere(deviate, [end / ends[-1] for end in ends[:-1]])


def _mean(series: Sequence[Observation]) -> float:
    return math.fsum(each.weight * each.value for each in series) / _weight(series)


def _weight(series: Sequence[Observation]) -> float:
    return math.fsum(each.weight for each in series)


def _lift(series: Sequence[Observation], at: int) -> float:
    """Return the squared difference of the means before and after a split, divided by its variance per unit weight."""
    before, after = series[:at], series[at:]
    return (_mean(before) - _mean(after)) ** 2 / (1 / _weight(before) + 1 / _weight(after))


def _chance_between_runs(series: Sequence[Observation], at: int) -> float:
    """Return the p of one split by Student's t, with the variance between successive runs (von Neumann 1941).

    Successive differences keep other changes out of the variance; the one at the split itself is left out. Degrees
    of freedom by Satterthwaite's rule, because steps that share a run are not independent.
    """
    steps = [
        (first.value - second.value) ** 2 / (1 / first.weight + 1 / second.weight)
        for part in (series[:at], series[at:])
        for first, second in pairwise(part)
    ]
    sizes = [size for size in (at, len(series) - at) if size > 1]
    degrees = (2 * len(steps)) ** 2 / sum(6 * size - 8 for size in sizes)
    scatter = degrees * math.fsum(steps) / len(steps)
    return beta_cdf(scatter / (scatter + _lift(series, at)), degrees / 2, 1 / 2)


def _chance_within_runs(series: Sequence[Observation], at: int) -> float:
    """Return the p of one split by Fisher's exact test, with passes and fails in the effective number of cases.

    That number is mean (1 - mean) / variance for each run. A normal approximation would report changes where one case
    in a hundred fails. 0.0 where the variance is not known.
    """
    if any(each.variance is None for each in series):
        return 0.0
    mean = _mean(series)
    scatter = math.fsum(each.weight * ((each.variance or 0.0) + (each.value - mean) ** 2) for each in series)
    count = max(mean * (1 - mean) * _weight(series) / scatter, 1.0)
    first, second = (
        (count * _weight(part), count * _weight(part) * _mean(part)) for part in (series[:at], series[at:])
    )
    if first[1] / first[0] > second[1] / second[0]:
        first, second = second, first
    # Fractional counts are rounded towards each other.
    fewer, more, rows, others = _up(first[1]), _down(second[1]), _down(first[0]), _up(second[0])
    return fisher_test(rows, fewer, others, more) if fewer * others < more * rows else 1.0


def _down(value: float) -> int:
    return math.floor(round(value, _DIGITS))


def _up(value: float) -> int:
    return math.ceil(round(value, _DIGITS))


def _chance_anywhere(deviate: float, places: Sequence[float]) -> float:
    """Return an upper bound of the probability of a deviate as large at any split of a series without a change.

    `places` are the splits as shares (0..1) of the series. The standardized differences are normal and Markov: a
    Brownian bridge, seen at `places`. The product of the step probabilities is the bound: Glaz & Johnson 1984, JASA 79.
    """
    beyond = math.erfc(deviate / math.sqrt(2))
    if beyond >= 1:
        return 1.0
    log_within = math.log1p(-beyond)
    for first, second in pairwise(places):
        alike = math.sqrt(first * (1 - second) / (second * (1 - first)))
        log_within += math.log1p(-min(_crossing(deviate, alike) / (1 - beyond), 1 - _ROUNDING))
    return -math.expm1(log_within)


def _crossing(deviate: float, alike: float) -> float:
    """Return the probability that of two standard normals with correlation `alike` only the second is beyond."""
    spread = math.sqrt(max(1 - alike * alike, _ROUNDING))
    low = max((deviate - _REACH * spread) / alike, -deviate)
    step = (deviate - low) / _STEPS
    terms = []
    for number in range(_STEPS + 1):
        x = low + step * number
        share = math.erfc((deviate - alike * x) / (spread * math.sqrt(2))) / 2
        weight = 1 if number in (0, _STEPS) else 4 if number % 2 else 2
        terms.append(weight * math.exp(-x * x / 2) * share)
    return 2 * math.fsum(terms) * step / 3 / math.sqrt(2 * math.pi)


Place = tuple[str, str]
"""A suite and a target."""


class TrendRun(Struct, frozen=True):
    """A stored run as trends need it. `suites` has the SHA-256 of each planned suite, `targets` the planned names.

    `sums` are the sums of its suites and targets; `problem` says why they cannot be read. `shard` is set for a part of
    a run, `parents` are the parts that a merged run was made of. `selection` holds the options that selected some of
    the cases or evaluators: its numbers are comparable only with those of the same selection.
    """

    run_id: str
    created_at: datetime
    state: str
    name: str | None = None
    commit: str | None = None
    is_dirty: bool = False
    tags: tuple[str, ...] = ()
    shard: str | None = None
    selection: str = ""
    parents: tuple[str, ...] = ()
    suites: Mapping[str, str | None] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    sums: Mapping[Place, RunSums] = field(default_factory=dict)
    problem: str | None = None


class TrendPoint(Struct, frozen=True):
    """A run in a series. Either it was measured, or `gap` says why not.

    `difference` is to the previous measured point of the same version of the suite and the same cases.
    `is_suite_changed` says that the suite's file differs from the previous run's, so that its number cannot be
    compared with earlier ones. `runs` counts the runs of its commit that it represents.
    """

    run: TrendRun
    counts: Mapping[str, int]
    measured: MetricValue | None
    gap: str | None = None
    difference: float | None = None
    is_suite_changed: bool = False
    runs: int = 1

    @property
    def is_whole(self) -> bool:
        """True if all of the suite was run: not a shard, and to its end."""
        return self.measured is not None and self.run.state == "finished" and self.run.shard is None


class SeriesChange(Struct, frozen=True):
    """A change of level at `points[at]`. `before` and `after` are means, geometric ones for costs and latencies."""

    at: int
    before: float
    after: float
    p: float


class TrendSeries(Struct, frozen=True):
    """The points of one suite and target, oldest first, and the changes of their level."""

    suite: str
    target: str
    points: tuple[TrendPoint, ...]
    changes: tuple[SeriesChange, ...]

    @property
    def last(self) -> TrendPoint | None:
        """The newest measured point."""
        return next((point for point in reversed(self.points) if point.measured is not None), None)

    @property
    def gaps(self) -> int:
        """The number of runs without a number."""
        return sum(point.measured is None for point in self.points)


def find_series(
    runs: Sequence[TrendRun], metric: MetricKey, *, last: int, by_commit: bool = False
) -> tuple[TrendSeries, ...]:
    """Return the series of all suites and targets that have a row in these runs. `runs` are ordered oldest first.

    Each has at most the `last` points. Shards are left out if the merged run is there. With `by_commit` the newest
    measured run of a commit represents all of its runs.
    """
    merged = {parent for run in runs for parent in run.parents}
    whole = [run for run in runs if run.run_id not in merged]
    places = dict.fromkeys(place for run in whole for place in run.sums)
    return tuple(_series(place, whole, metric, last=last, by_commit=by_commit) for place in places)


def _series(place: Place, runs: Sequence[TrendRun], metric: MetricKey, *, last: int, by_commit: bool) -> TrendSeries:
    points = [point for run in runs if (point := _point(run, place, metric)) is not None]
    if by_commit:
        points = _newest_of_commits(points)
    points = list(_with_differences(points[-last:], place[0]))
    return TrendSeries(*place, tuple(points), tuple(_changes(points, place[0], metric)))


def _point(run: TrendRun, place: Place, metric: MetricKey) -> TrendPoint | None:
    """Return a run's point; None for a run that did not plan this suite with this target."""
    suite, target = place
    sums = run.sums.get(place)
    if sums is None:
        is_planned = suite in run.suites and target in run.targets
        if not is_planned or (run.state == "finished" and run.problem is None):
            return None
        return TrendPoint(run, {}, None, run.problem or _why_empty(run))
    measured = sums.measure(metric) if sums.judged and run.state != "failed" else None
    return TrendPoint(run, sums.counts, measured, None if measured else _why_none(run, sums, metric))


def _why_empty(run: TrendRun) -> str:
    return "being written, no result yet" if run.state == "running" else f"{run.state} before any result"


def _why_none(run: TrendRun, sums: RunSums, metric: MetricKey) -> str:
    if run.state == "failed":
        return "the run failed"
    if sums.judged:
        return "a price is unknown" if metric[0] == "cost_usd" else "not measured"
    rows = sum(sums.counts.values())
    what = "errors" if sums.counts.get("error") else "skipped"
    return f"no result was judged: {sums.counts.get('error') or rows} of {rows} {what}"


def _newest_of_commits(points: Sequence[TrendPoint]) -> list[TrendPoint]:
    newest_of: dict[object, TrendPoint] = {}
    for point in points:
        run = point.run
        key = (run.commit, run.is_dirty, run.selection) if run.commit is not None else run.run_id
        before = newest_of.pop(key, None)  # re-inserted below, so that a commit is placed at its newest run
        newest = before if before is not None and point.measured is None and before.measured is not None else point
        newest_of[key] = replace(newest, runs=1 if before is None else before.runs + 1)
    return list(newest_of.values())


def _with_differences(points: Iterable[TrendPoint], suite: str) -> Iterator[TrendPoint]:
    """Yield the points with their differences to the previous one."""
    before: dict[object, float] = {}
    known: str | None = None
    for point in points:
        made_of = point.run.suites.get(suite)
        is_changed = known is not None and made_of is not None and made_of != known
        known = made_of or known
        value = None if point.measured is None else point.measured.value
        if is_changed:
            before = {}  # the version of the suite has changed
        chosen = (point.run.selection, point.run.shard)
        difference = None if chosen not in before or value is None else value - before[chosen]
        if value is not None:
            before[chosen] = value
        yield replace(point, difference=difference, is_suite_changed=is_changed)


def _changes(points: Sequence[TrendPoint], suite: str, metric: MetricKey) -> list[SeriesChange]:
    """Return the changes of level, in order, among runs of the same cases and the same version of the suite."""
    is_share = metric[0] in ("mean", "pass_rate", "evaluator")
    found: list[SeriesChange] = []
    for stretch in _comparable(points, suite):
        observed = [_observation(points[number].measured) for number in stretch]
        changes = find_changes([each for each in observed if each is not None]) if None not in observed else ()
        found += [_of_series(change, stretch[change.at], is_share=is_share) for change in changes]
    return sorted(found, key=lambda change: change.at)


def _comparable(points: Sequence[TrendPoint], suite: str) -> Iterator[list[int]]:
    """Yield the indexes of comparable points: whole runs of one selection between two edits of the suite."""
    whole = [number for number, point in enumerate(points) if point.is_whole]
    for _, group in groupby(whole, key=lambda number: points[number].run.suites.get(suite)):
        by_choice: dict[str, list[int]] = {}
        for number in group:
            by_choice.setdefault(points[number].run.selection, []).append(number)
        yield from by_choice.values()


def _of_series(change: ChangePoint, at: int, *, is_share: bool) -> SeriesChange:
    before, after = (change.before, change.after) if is_share else (math.exp(change.before), math.exp(change.after))
    return SeriesChange(at, before, after, change.p)


def _observation(measured: MetricValue | None) -> Observation | None:
    """Return a point as it is tested: costs and latencies, whose variation is multiplicative, as logarithms."""
    if measured is None:
        return None
    if measured.moments is not None:
        return Observation.of_moments(measured.moments)
    return Observation(math.log(measured.value)) if measured.value > 0 else None


_ANY_BOUND = " >= 0"


def parse_metric(text: str) -> MetricKey:
    """Return the key of a metric, written as in a gate. Raises ConfigError that lists the possible metrics."""
    try:
        gate = parse_gate(text + _ANY_BOUND, TREND_METRICS)
    except GateError as error:
        forms = ", ".join(form for name, metric in TREND_METRICS.items() for form in metric.forms(name))
        near = nearest(text, TREND_METRICS)
        hint = f" Did you mean {near!r}?" if near else ""
        raise ConfigError(f"cannot show {text!r} as a trend; write one of {forms}.{hint}") from error
    return gate.name, gate.argument, gate.field
