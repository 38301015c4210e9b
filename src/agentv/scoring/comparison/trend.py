"""The results of a suite and target from run to run: a series of points, with gaps for runs without a number."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.comparison.change_points import ChangePoint, Observation, find_changes
from agentv.scoring.counting.run_sums import MetricKey, MetricValue, RunSums
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.metrics import TREND_METRICS
from agentv.scoring.gates.syntax import GateError
from agentv.types.errors import ConfigError, nearest

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
    points = list(_beside_each_other(points[-last:], place[0]))
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


def _beside_each_other(points: Iterable[TrendPoint], suite: str) -> Iterator[TrendPoint]:
    """Yield the points with their differences to the previous one."""
    before: dict[object, float] = {}
    known: str | None = None
    for point in points:
        made_of = point.run.suites.get(suite)
        is_changed = known is not None and made_of is not None and made_of != known
        known = made_of or known
        value = None if point.measured is None else point.measured.value
        if is_changed:
            before = {}  # of another version of the suite
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
    """Return the key of a metric, written as in a gate. Raises ConfigError that lists the metrics trends can show."""
    try:
        gate = parse_gate(text + _ANY_BOUND, TREND_METRICS)
    except GateError as error:
        forms = ", ".join(form for name, metric in TREND_METRICS.items() for form in metric.forms(name))
        near = nearest(text, TREND_METRICS)
        hint = f" Did you mean {near!r}?" if near else ""
        raise ConfigError(f"cannot show {text!r} as a trend; write one of {forms}.{hint}") from error
    return gate.name, gate.argument, gate.field
