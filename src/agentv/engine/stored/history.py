"""The usage of earlier runs of the same suites: the basis of a forecast."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from agentv.engine.planning.plan import RunPlan
from agentv.scoring.counting.forecast import Forecast, Part, PastUsage
from agentv.scoring.keys.identity import target_key
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun

RUNS_SEARCHED = 50
"""Runs searched for the same suites, latest first."""

RUNS_USED = 3
ROWS_USED = 500
"""Latest runs used for each suite and target, and rows of them together."""

Pair = tuple[str, str]


def load_forecast(plan: RunPlan) -> Forecast:
    """Return the estimated usage of a run, from the latest stored runs of its suites and targets."""
    wanted = {(item.suite.path, target.name) for item in plan.suites for target in item.targets}
    keys = {target.name: target_key(target) for target in plan.targets}
    measured: dict[Pair, PastUsage] = {}
    for run in _runs(Path(plan.home)):
        remaining = {pair for pair in wanted if not _has_enough(measured.get(pair))}
        if not remaining:
            break
        _measure(run, remaining, keys, measured)
    parts = [
        Part(
            suite=item.suite.path,
            target=target.name,
            workers=plan.workers(target),
            rows=None if item.rows is None else item.rows // len(item.targets),
            measured=measured.get((item.suite.path, target.name)),
        )
        for item in plan.suites
        for target in item.targets
    ]
    return Forecast(tuple(parts))


def _has_enough(measured: PastUsage | None) -> bool:
    return measured is not None and (measured.rows >= ROWS_USED or len(measured.runs) >= RUNS_USED)


def _runs(home: Path) -> Iterator[StoredRun]:
    """Yield stored runs, latest first, without those that cannot be read."""
    for folder in list_run_folders(home)[: -RUNS_SEARCHED - 1 : -1]:
        try:
            yield StoredRun(folder)
        except OSError:
            continue


def _measure(run: StoredRun, remaining: set[Pair], keys: Mapping[str, str], measured: dict[Pair, PastUsage]) -> None:
    """Count the answered rows of one run that belong to the suites and targets in `remaining`."""
    suites, targets = _objects(run, "suites"), _objects(run, "targets")
    paths = {suite.get("path") for suite in suites}
    stored_keys = {str(target.get("name")): target.get("key") for target in targets}
    if not any(suite in paths and target in stored_keys for suite, target in remaining):
        return
    try:
        for row in islice(run.results(), ROWS_USED * len(remaining)):
            pair = (row.slot.suite, row.slot.target)
            if pair not in remaining or row.answer_key == "" or (row.error is not None and row.error.stage == "target"):
                continue
            found = measured.setdefault(pair, PastUsage())
            found.add(row)
            found.is_changed = found.is_changed or stored_keys.get(pair[1]) != keys[pair[1]]
    except OSError:
        return


def _objects(run: StoredRun, name: str) -> list[Mapping[str, object]]:
    listed = run.run.plan.get(name)
    return [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list | tuple) else []
