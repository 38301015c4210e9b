"""The results of a suite and target from run to run: points, gaps for runs without a value, changes of level."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, groupby, pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.comparison.suites import renamed_suites
from agentv.scoring.counting.run_sums import MetricKey, MetricValue, RunSums
from agentv.scoring.gates.gates import TREND_METRICS, GateError, parse_gate
from agentv.scoring.statistics.distributions import beta_cdf, normal_quantile
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.errors import ConfigError, nearest

_NEGLIGIBLE = 1e-18
"""Terms of a sum below this share of the largest one are left out."""


def fisher_test(first: int, first_marked: int, second: int, second_marked: int) -> float:
    """Return the exact two-sided p of Fisher's test: `first_marked` of `first` rows and `second_marked` of `second`.

    Twice the smaller tail of the hypergeometric distribution, at most 1. Fisher 1935, JRSS 98.
    """
    marked, rows = first_marked + second_marked, first + second
    if not 0 < marked < rows:
        return 1.0
    expected = marked * first / rows
    if first_marked < expected:
        return min(1.0, 2 * _lower_tail(first_marked, first, second, marked))
    return min(1.0, 2 * _lower_tail(second_marked, second, first, marked))


def _lower_tail(count: int, group: int, others: int, marked: int) -> float:
    """Return the probability that at most `count` of the `marked` rows are among the `group` rows."""
    least = max(0, marked - others)
    term = _hypergeometric_probability(count, group, others, marked)
    terms = [term]
    for number in range(count, least, -1):
        term *= number * (others - marked + number) / ((marked - number + 1) * (group - number + 1))
        if term < _NEGLIGIBLE * terms[0]:
            break
        terms.append(term)
    return math.fsum(terms)


def _hypergeometric_probability(count: int, group: int, others: int, marked: int) -> float:
    return math.exp(_log_ways(group, count) + _log_ways(others, marked - count) - _log_ways(group + others, marked))


def _log_ways(rows: int, marked: int) -> float:
    return math.lgamma(rows + 1) - math.lgamma(marked + 1) - math.lgamma(rows - marked + 1)


SIGNIFICANCE = 0.05
"""The probability of reporting any change in a series without one."""

MIN_RUNS = 5
"""With fewer than five runs the variation between runs cannot be estimated well enough."""

_MIN_CASES = 2
_STEPS = 40
"""The number of intervals of the numerical integral in `_crossing`; even, for Simpson's rule."""

_MAX_DEVIATION = 8.0
"""Where `deviate` is this many standard deviations above the mean of the second normal, the integrand counts as 0."""

_LEAST_P = 1e-300
_ROUNDING = 1e-12
_DIGITS = 6


class Observation(Struct, frozen=True):
    """The value of one run in a series."""

    value: float
    weight: float = 1.0
    """The effective number of independent cases."""
    variance: float | None = None
    """The variance of a single case, for values of 0..1; None if it is not known."""

    @classmethod
    def of_moments(cls, moments: ClusterMoments) -> "Observation":
        """Return an observation of a rate or a mean score (0..1)."""
        weight, mean = moments.effective_clusters, min(max(moments.mean, 0.0), 1.0)
        # One case does not show how cases vary: take the largest variance of values of 0..1 with this mean.
        variance = mean * (1 - mean) if moments.clusters < _MIN_CASES else moments.variance * weight
        return cls(mean, weight, variance)


class ChangePoint(Struct, frozen=True):
    """A change of level in a series of observations."""

    at: int
    """The index of the first observation of the new level, from 0."""
    before: float
    """The mean of the old level."""
    after: float
    """The mean of the new level."""
    p: float
    """The probability of so clear a change anywhere in a series of constant level."""


def find_changes(series: Sequence[Observation], *, level: float = SIGNIFICANCE) -> tuple[ChangePoint, ...]:
    """Return the changes in a series, in order, by binary segmentation (Scott & Knott 1974); none below five runs.

    The clearest split of the series is a change if its p is at most `level`; then both parts are searched in the same
    way. In a series of constant level, the probability of finding any change is at most `level`.
    """
    p_by_split = dict(_significant_splits(series, 0, level))
    if not p_by_split:
        return ()
    splits = sorted(p_by_split)
    means = [_mean(series[start:end]) for start, end in pairwise([0, *splits, len(series)])]
    return tuple(
        ChangePoint(at, before, after, p_by_split[at])
        for at, (before, after) in zip(splits, pairwise(means), strict=True)
    )


def _significant_splits(series: Sequence[Observation], start: int, level: float) -> Iterator[tuple[int, float]]:
    """Yield index and p of each significant split; `start` is the index of `series[0]` in the whole series."""
    if len(series) < MIN_RUNS:
        return
    at, p = clearest_split(series)
    if p <= level:
        yield start + at, p
        yield from _significant_splits(series[:at], start, level)
        yield from _significant_splits(series[at:], start + at, level)


def clearest_split(series: Sequence[Observation]) -> tuple[int, float]:
    """Return the index of the clearest split, and the probability of so clear a split anywhere in a constant series.

    The probability comes from the least significant of several tests: against the variation of cases within runs, if
    known, and against the variation between runs, weighted by cases and unweighted. Needs three observations or more.
    """
    cumulative_weights = list(accumulate(each.weight for each in series))
    split_statistics = [_split_statistic(series, at) for at in range(1, len(series))]
    at = max(range(len(split_statistics)), key=split_statistics.__getitem__) + 1
    if split_statistics[at - 1] <= _ROUNDING:
        return at, 1.0
    unweighted = [replace(each, weight=1.0) for each in series]
    p = max(_p_between_runs(series, at), _p_between_runs(unweighted, at), _p_within_runs(series, at))
    deviate = -normal_quantile(max(p, _LEAST_P) / 2) if p < 1 else 0.0
    *splits, whole = cumulative_weights
    return at, _p_anywhere(deviate, [split / whole for split in splits])


def _mean(series: Sequence[Observation]) -> float:
    return math.fsum(each.weight * each.value for each in series) / _weight(series)


def _weight(series: Sequence[Observation]) -> float:
    return math.fsum(each.weight for each in series)


def _split_statistic(series: Sequence[Observation], at: int) -> float:
    """Return the squared difference of the means before and after a split, over the sum of their inverse weights.

    Its ratio to the variance of an observation of weight 1 is the square of Student's t.
    """
    before, after = series[:at], series[at:]
    return (_mean(before) - _mean(after)) ** 2 / (1 / _weight(before) + 1 / _weight(after))


def _p_between_runs(series: Sequence[Observation], at: int) -> float:
    """Return the p of one split by Student's t, with the variance between successive runs (von Neumann 1941).

    Differences of successive runs keep other changes out of the variance; the step at the split is left out. Degrees of
    freedom by Satterthwaite's rule, because steps that share a run are not independent.
    """
    steps = [
        (first.value - second.value) ** 2 / (1 / first.weight + 1 / second.weight)
        for part in (series[:at], series[at:])
        for first, second in pairwise(part)
    ]
    sizes = [size for size in (at, len(series) - at) if size > 1]
    degrees = (2 * len(steps)) ** 2 / sum(6 * size - 8 for size in sizes)
    scatter = degrees * math.fsum(steps) / len(steps)
    return beta_cdf(scatter / (scatter + _split_statistic(series, at)), degrees / 2, 1 / 2)


def _p_within_runs(series: Sequence[Observation], at: int) -> float:
    """Return the p of one split by Fisher's exact test of the passes and fails before and after it.

    The runs on each side of the split are replaced by n cases that pass or fail, whose pass rate varies as much as the
    mean of these runs: n = weight * mean * (1 - mean) / variance, with the mean of the whole series and its variance
    per case. A normal approximation would report false changes if, for instance, one case in a hundred fails. Return
    0.0 if the variance is not known.
    """
    if any(each.variance is None for each in series):
        return 0.0
    mean = _mean(series)
    scatter = math.fsum(each.weight * ((each.variance or 0.0) + (each.value - mean) ** 2) for each in series)
    count = max(mean * (1 - mean) * _weight(series) / scatter, 1.0)
    low, high = sorted((series[:at], series[at:]), key=_mean)
    low_cases, high_cases = count * _weight(low), count * _weight(high)
    # Fractional counts are rounded so that the two rates come closer to each other.
    low_rows, low_passed = _floor(low_cases), _ceil(low_cases * _mean(low))
    high_rows, high_passed = _ceil(high_cases), _floor(high_cases * _mean(high))
    is_lower = low_passed * high_rows < high_passed * low_rows
    return fisher_test(low_rows, low_passed, high_rows, high_passed) if is_lower else 1.0


def _floor(value: float) -> int:
    return math.floor(round(value, _DIGITS))


def _ceil(value: float) -> int:
    return math.ceil(round(value, _DIGITS))


def _p_anywhere(deviate: float, splits: Sequence[float]) -> float:
    """Return an upper bound of the probability that any split of a constant series deviates by ±`deviate` or more.

    `splits` are given as shares (0..1) of the series. The standardized differences are normal and Markov: a Brownian
    bridge, seen at the splits. The probability that all of them are within ±`deviate` is at least the product of the
    probabilities of each, given that the one before it is within (Glaz & Johnson 1984, JASA 79).
    """
    beyond = math.erfc(deviate / math.sqrt(2))
    if beyond >= 1:
        return 1.0
    log_within = math.log1p(-beyond)
    for first, second in pairwise(splits):
        correlation = math.sqrt(first * (1 - second) / (second * (1 - first)))
        log_within += math.log1p(-min(_crossing(deviate, correlation) / (1 - beyond), 1 - _ROUNDING))
    return -math.expm1(log_within)


def _crossing(deviate: float, correlation: float) -> float:
    """Return the probability that of two correlated standard normals only the second is beyond ±`deviate`."""
    spread = math.sqrt(max(1 - correlation * correlation, _ROUNDING))
    low = max((deviate - _MAX_DEVIATION * spread) / correlation, -deviate)
    step = (deviate - low) / _STEPS
    terms = []
    for number in range(_STEPS + 1):
        x = low + step * number
        tail = math.erfc((deviate - correlation * x) / (spread * math.sqrt(2))) / 2
        weight = 1 if number in (0, _STEPS) else 4 if number % 2 else 2
        terms.append(weight * math.exp(-x * x / 2) * tail)
    return 2 * math.fsum(terms) * step / 3 / math.sqrt(2 * math.pi)


SuiteTarget = tuple[str, str]
"""The names of a suite and a target."""


class TrendRun(Struct, frozen=True):
    """A stored run in a trend."""

    run_id: str
    created_at: datetime
    state: str
    name: str | None = None
    commit: str | None = None
    is_dirty: bool = False
    tags: tuple[str, ...] = ()
    shard: str | None = None
    """Set for a part of a run."""
    selection: str = ""
    """The options that selected some of the cases or evaluators; only runs of the same selection are comparable."""
    part: str = ""
    """The reason why it is not a whole run, "" for a whole one."""
    parents: tuple[str, ...] = ()
    """The parts that a merged run was made of."""
    suites: Mapping[str, str | None] = field(default_factory=dict)
    """The SHA-256 of each planned suite, without the settings that change no score."""
    targets: tuple[str, ...] = ()
    """The names of the planned targets."""
    sums: Mapping[SuiteTarget, RunSums] = field(default_factory=dict)
    """The sums of each suite and target."""
    problem: str | None = None
    """The reason why the sums cannot be read."""
    edits: tuple[str, ...] = ()
    """All signs that its files were edited after it was written."""


class TrendPoint(Struct, frozen=True):
    """A run in a series. Either it was measured, or there is a gap."""

    run: TrendRun
    counts: Mapping[str, int]
    measured: MetricValue | None
    gap: str | None = None
    """The reason why the run was not measured."""
    difference: float | None = None
    """The change since the previous measured point of the same version of the suite and the same cases."""
    is_suite_changed: bool = False
    """True if the suite's file differs from the previous run's, so that earlier values are not comparable."""
    runs: int = 1
    """The number of runs of its commit that the point represents."""

    @property
    def is_whole(self) -> bool:
        """True if the run was measured, finished and not a shard."""
        return self.measured is not None and self.run.state == "finished" and self.run.shard is None


class SeriesChange(Struct, frozen=True):
    """A change of level in a series of points."""

    at: int
    """The index in `points` of the first point of the new level."""
    before: float
    """The mean of the old level, a geometric mean for costs and latencies."""
    after: float
    """The mean of the new level, a geometric mean for costs and latencies."""
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
        """The number of points without a measured value."""
        return sum(point.measured is None for point in self.points)


def find_series(
    runs: Sequence[TrendRun], metric: MetricKey, *, last: int, by_commit: bool = False
) -> tuple[TrendSeries, ...]:
    """Return the series of all suites and targets with a row in these runs, by name. `runs` are ordered oldest first.

    Each series has at most `last` points, the newest ones. Shards are left out if the merged run is there. With
    `by_commit` the newest measured run represents all runs of the same commit and selection; runs with uncommitted
    changes are counted separately. A suite whose path changed (`pair_suites`) is one series, under its newest path.
    """
    merged = {parent for run in runs for parent in run.parents}
    unmerged = _with_newest_paths([run for run in runs if run.run_id not in merged])
    places = sorted({place for run in unmerged for place in run.sums})
    return tuple(_series(place, unmerged, metric, last=last, by_commit=by_commit) for place in places)


def _with_newest_paths(runs: Sequence[TrendRun]) -> list[TrendRun]:
    """Return runs whose suites have their newest paths, unless a run with the older path follows the newer one."""
    paths = [frozenset((*run.suites, *(suite for suite, _ in run.sums))) for run in runs]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, suites in enumerate(paths):
        for suite in suites:
            first.setdefault(suite, number)
            last[suite] = number
    newest: dict[str, str] = {}
    known: set[str] = set()
    for suites in reversed(paths):
        new = suites - known
        for old, path in renamed_suites(new, known - suites).items():
            if last[old] < first[path]:
                newest[old] = newest.get(path, path)
        known |= new
    return [
        replace(
            run,
            suites={newest.get(path, path): digest for path, digest in run.suites.items()},
            sums={(newest.get(suite, suite), target): sums for (suite, target), sums in run.sums.items()},
        )
        if newest.keys() & suites
        else run
        for run, suites in zip(runs, paths, strict=True)
    ]


def _series(
    place: SuiteTarget, runs: Sequence[TrendRun], metric: MetricKey, *, last: int, by_commit: bool
) -> TrendSeries:
    points = [point for run in runs if (point := _point(run, place, metric)) is not None]
    if by_commit:
        points = _newest_of_commits(points)
    points = list(_with_differences(points[-last:], place[0]))
    return TrendSeries(*place, tuple(points), tuple(_changes(points, place[0], metric)))


def _point(run: TrendRun, place: SuiteTarget, metric: MetricKey) -> TrendPoint | None:
    """Return a run's point; None for a run that did not plan this suite with this target."""
    suite, target = place
    sums = run.sums.get(place)
    if sums is None:
        is_planned = suite in run.suites and target in run.targets
        if not is_planned or (run.state == "finished" and run.problem is None):
            return None
        return TrendPoint(run, {}, None, run.problem or _why_empty(run))
    measured = sums.measure(metric) if sums.judged and run.state != "failed" else None
    return TrendPoint(run, sums.counts, measured, None if measured else _why_unmeasured(run, sums, metric))


def _why_empty(run: TrendRun) -> str:
    return "being written, no result yet" if run.state == "running" else f"{run.state} before any result"


def _why_unmeasured(run: TrendRun, sums: RunSums, metric: MetricKey) -> str:
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
        earlier = newest_of.pop(key, None)  # re-inserted below, so that a commit is placed at its newest run
        if earlier is None:
            newest_of[key] = point
            continue
        newest = earlier if point.measured is None and earlier.measured is not None else point
        newest_of[key] = replace(newest, runs=earlier.runs + 1)
    return list(newest_of.values())


def _with_differences(points: Iterable[TrendPoint], suite: str) -> Iterator[TrendPoint]:
    """Yield each point with its difference to the previous comparable one."""
    previous_values: dict[object, float] = {}
    last_digest: str | None = None
    for point in points:
        suite_digest = point.run.suites.get(suite)
        is_changed = last_digest is not None and suite_digest is not None and suite_digest != last_digest
        last_digest = suite_digest or last_digest
        value = None if point.measured is None else point.measured.value
        if is_changed:
            previous_values = {}
        selection = (point.run.selection, point.run.shard)
        previous = previous_values.get(selection)
        difference = None if previous is None or value is None else value - previous
        if value is not None:
            previous_values[selection] = value
        yield replace(point, difference=difference, is_suite_changed=is_changed)


def _changes(points: Sequence[TrendPoint], suite: str, metric: MetricKey) -> list[SeriesChange]:
    """Return the changes of level among comparable runs, in order."""
    is_share = metric[0] in ("mean", "pass_rate", "evaluator")
    found: list[SeriesChange] = []
    for stretch in _comparable(points, suite):
        observed = [_observation(points[number].measured) for number in stretch]
        observations = [each for each in observed if each is not None]
        changes = find_changes(observations) if len(observations) == len(observed) else ()
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
    """Return the observation to test; None without a value, and for a cost or latency of 0.

    Costs and latencies vary by factors, so their logarithms are tested; rates and means are tested as they are.
    """
    if measured is None:
        return None
    if measured.moments is not None:
        return Observation.of_moments(measured.moments)
    return Observation(math.log(measured.value)) if measured.value > 0 else None


_ANY_BOUND = " >= 0"


def parse_metric(text: str) -> MetricKey:
    """Return the key of a metric that is written as in a gate. Raises ConfigError that lists the possible metrics."""
    try:
        gate = parse_gate(text + _ANY_BOUND, TREND_METRICS)
    except GateError as error:
        forms = ", ".join(form for name, metric in TREND_METRICS.items() for form in metric.forms(name))
        near = nearest(text, TREND_METRICS)
        hint = f" Did you mean {near!r}?" if near else ""
        raise ConfigError(f"cannot show {text!r} as a trend; write one of {forms}.{hint}") from error
    return gate.name, gate.argument, gate.field
