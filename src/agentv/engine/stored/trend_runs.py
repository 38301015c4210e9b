"""The runs of a trend, from the list of stored runs; no more runs are read than the points need."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.comparison.trend import SuiteTarget, TrendRun
from agentv.scoring.counting.run_sums import MetricKey, RunSums
from agentv.storage.run.find import ListedRun, find_suites, is_suite_named
from agentv.storage.run.likeness import part_of, selection_of
from agentv.types.errors import UnknownNameError
from agentv.types.json_value import JsonValue, objects_of
from agentv.types.records.run import RunRecord

LoadSums = Callable[[Path], Mapping[SuiteTarget, RunSums]]
"""Returns the sums of each suite and target of the run in a folder. Raises OSError if its rows cannot be read."""


class WantedPlaces(Struct, frozen=True):
    """The suites and targets to include; all if none is named. For the names of a suite, see `is_suite_named`."""

    suites: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def has(self, place: SuiteTarget) -> bool:
        """Return True if the suite and target of `place` are included."""
        suite, target = place
        has_suite = not self.suites or any(is_suite_named(suite, name) for name in self.suites)
        return has_suite and (not self.targets or target in self.targets)

    def are_in(self, run: RunRecord) -> bool:
        """Return True if a suite and target of a run's plan are included."""
        return any(map(self.has, product(run.suites, run.targets)))

    def refuse_unknown(self, suites: Collection[str], targets: Collection[str]) -> None:
        """Raise UnknownNameError for a wanted suite or target that is not among the known ones, if there are any."""
        if suites:
            find_suites(self.suites, tuple(suites))
        for name in self.targets:
            if targets and name not in targets:
                raise UnknownNameError("target", name, known=targets)


def refuse_unknown(
    wanted: WantedPlaces, metric: MetricKey, listed: Sequence[ListedRun], found: Sequence[TrendRun]
) -> None:
    """Raise UnknownNameError for a wanted suite, target or evaluator that no run has, unless there are no runs.

    `found` are the runs with the wanted suites and targets.
    """
    runs = [_trend_run_of(each, each.run) for each in listed if each.run is not None]
    suites = {name for run in runs for name in run.suites} | {suite for run in found for suite, _ in run.sums}
    targets = {name for run in runs for name in run.targets} | {target for run in found for _, target in run.sums}
    wanted.refuse_unknown(suites, targets)
    evaluators = {name for run in found for sums in run.sums.values() for name in sums.evaluators}
    if metric[0] == "evaluator" and evaluators and metric[1] not in evaluators:
        raise UnknownNameError("evaluator", metric[1] or "", known=evaluators)


def load_trend_runs(
    listed: Sequence[ListedRun],
    load_sums: LoadSums,
    *,
    wanted: WantedPlaces,
    last: int | None,
    with_parts: bool = True,
) -> list[TrendRun]:
    """Return the runs with the `last` points of every wanted suite and target, oldest first; with None all runs.

    `listed` is sorted, oldest first. A run whose run.json cannot be read is left out, and so are the parts of a merged
    run. Without `with_parts`, so are runs of some cases, shards, stopped runs and those of pytest (`part_of`).
    """
    points: Counter[SuiteTarget] = Counter()
    merged: set[str] = set()
    found: list[TrendRun] = []
    for each in reversed(listed):
        if each.run is None or each.run_id in merged:
            continue
        run = _trend_run_of(each, each.run)
        merged.update(run.parents)
        if run.part and not with_parts:
            continue
        places = list(filter(wanted.has, product(run.suites, run.targets)))
        # A run written by another program may not record its suites and targets: then its rows show them.
        if last is None or not (run.suites and run.targets) or any(points[place] < last for place in places):
            found.append(_with_sums(run, each, load_sums, wanted))
            points.update(places)
    return found[::-1]


def left_out_parts(listed: Sequence[ListedRun], wanted: WantedPlaces) -> Counter[str]:
    """Return why runs of wanted suites and targets are not whole, with their number; without those of merged runs."""
    runs = [_trend_run_of(each, each.run) for each in listed if each.run is not None]
    merged = {parent for run in runs for parent in run.parents}
    return Counter(
        run.part
        for run in runs
        if run.part and run.run_id not in merged and any(map(wanted.has, product(run.suites, run.targets)))
    )


def _with_sums(run: TrendRun, listed: ListedRun, load_sums: LoadSums, wanted: WantedPlaces) -> TrendRun:
    if listed.problem is not None:
        return replace(run, problem=listed.problem)
    try:
        sums = load_sums(listed.folder)
    except OSError as error:
        return replace(run, problem=str(error))
    return replace(run, sums={place: each for place, each in sums.items() if wanted.has(place)})


def _trend_run_of(listed: ListedRun, run: RunRecord) -> TrendRun:
    """Return the parts of run.json that a trend uses."""
    options, git = run.plan.get("options"), run.git or {}
    options = options if isinstance(options, dict) else {}
    commit = git.get("commit")
    return TrendRun(
        run_id=run.run_id,
        created_at=run.created_at,
        state=listed.state,
        name=run.name,
        commit=commit if isinstance(commit, str) else None,
        is_dirty=git.get("dirty") is True,
        tags=run.tags,
        shard=run.shard,
        selection=selection_of(options),
        part=part_of(run, listed.state, results=sum(listed.counts.values())),
        parents=run.parents,
        suites={
            path: _text(each.get("scored_sha256")) or _text(each.get("sha256"))
            for each in objects_of(run.plan.get("suites"))
            if (path := _text(each.get("path")))
        },
        targets=run.targets,
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
