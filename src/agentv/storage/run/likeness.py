"""Which stored runs are compared with which: like with like, unless a run is named."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

from agentv.scoring.comparison.suites import pair_suites
from agentv.storage.run.find import list_run_folders, readable_run
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.run import RunRecord
from agentv.types.run_options import selecting_options

_LATEST = re.compile(r"latest(?:~(\d+))?")
_STOPPED = ("stopped", "interrupted")
PYTEST = "pytest"
"""The `source` in the plan of a run that a session of pytest made."""
_MAX_LISTED = 5


def selection_of(options: JsonValue) -> str:
    """Return the options that selected some of the cases or evaluators, as on the command line; "" for none."""
    options = options if isinstance(options, Mapping) else {}
    arguments: list[str] = []
    for name, option in selecting_options().items():
        value = options.get(name)
        if value is not None:
            values = value if isinstance(value, list | tuple) else [value]
            arguments += [f"{option} {shlex.quote(str(each))}" for each in values]
    if options.get("sample") is not None and options.get("seed") is not None:
        arguments.append(f"--seed {options['seed']}")
    return " ".join(arguments)


def part_of(run: RunRecord, state: str, *, results: int | None = None) -> str:
    """Return why a run is not compared with others unless it is named; "" for a whole run.

    It has some of the cases or evaluators, is a shard, was stopped, was made by pytest, or was merged without all its
    shards or from runs that are not shards of one run. `results` is the number of its results, if it is known.
    """
    planned = run.plan.get("rows")
    lacks_shards = bool(run.parents) and isinstance(planned, int) and results is not None and results < planned
    options = run.plan.get("options")
    reasons = [
        selection_of(options),
        f"shard {run.shard}" if run.shard is not None else "",
        "pytest" if run.plan.get("source") == PYTEST else "",
        state if state in _STOPPED else "",
        "a shard is missing" if lacks_shards else "",
        "merged with --allow-mixed" if run.plan.get("mixed") else "",
    ]
    return ", ".join(filter(None, reasons))


class ComparableRun(Protocol):
    """A run of this machine or of a store, as far as its likeness to another needs it."""

    @property
    def run(self) -> RunRecord:
        """The content of its run.json."""

    def state(self) -> str:
        """Return its state."""

    def counts(self) -> Mapping[str, int]:
        """Count its results by state."""


class Likeness(Struct, frozen=True):
    """What a run is compared by: the paths of its suites, and the options that selected some of their cases."""

    suites: frozenset[str]
    selection: str = ""

    def accepts(self, run: ComparableRun) -> bool:
        """Return True for a finished run of the same suites, with all of their cases or with the same selection."""
        if not self.has_suites(run) or run.state() != "finished":
            return False
        results = sum(run.counts().values()) if run.run.parents else None
        return part_of(run.run, "finished", results=results) in ("", self.selection)

    def has_suites(self, run: ComparableRun) -> bool:
        """Return True if a run has these suites and no others, also under shorter or longer paths (`pair_suites`)."""
        suites = frozenset(run.run.suites)
        return len(suites) == len(self.suites) == len(pair_suites(suites, self.suites))


def likeness_of(run: ComparableRun) -> Likeness:
    """Return the likeness of a stored run."""
    return Likeness(frozenset(run.run.suites), part_of(run.run, "finished"))


def suites_and_options(suites: Sequence[str], options: JsonObject) -> Likeness:
    """Return the likeness of a run that begins."""
    return Likeness(frozenset(suites), selection_of(options))


def is_relative_reference(reference: str, *, has_anchor: bool) -> bool:
    """Return True for `latest~1` and so on, and, if there is a run to compare with, for `latest`."""
    found = _LATEST.fullmatch(reference)
    return found is not None and (has_anchor or found[1] not in (None, "0"))


def find_like(home: Path, reference: str, like: Likeness | None = None) -> Path:
    """Return the folder of the run that `latest` or `latest~N` names in a comparison; see `nth_like`."""
    return nth_like(filter(None, map(readable_run, reversed(list_run_folders(home)))), reference, like).folder


Run = TypeVar("Run", bound=ComparableRun)


def nth_like(newest_first: Iterable[Run], reference: str, like: Likeness | None = None) -> Run:
    """Return the run that `latest` or `latest~N` names in a comparison.

    With `like`, `latest` is the newest run like it. Without it, `latest` is the newest run, and `latest~N` the N-th run
    before it that is like it. Raises ConfigError if there is none, with the newest runs that are left out.
    """
    found = _LATEST.fullmatch(reference)
    back = int(found[1] or 0) if found is not None else 0
    runs = iter(newest_first)
    newer: list[str] = []
    left_out: list[str] = []
    if like is None:
        newest = next(runs, None)
        if newest is None:
            raise ConfigError(f"there is no run {reference!r}; no run is stored yet")
        like = likeness_of(newest)
        newer.append(newest.run.run_id)
    for run in runs:
        if not like.accepts(run):
            left_out.append(f"{run.run.run_id} ({_why_unlike(run, like)})")
        elif len(newer) == back:
            return run
        else:
            newer.append(run.run.run_id)
    only = f"; {newer[0]} is the only one, so run them again with `agentv run`" if len(newer) == 1 else ""
    listed = f"; left out: {', '.join(left_out[:_MAX_LISTED])}" if left_out else ""
    advice = ". Name a run to compare with it anyway" if left_out or not only else ""
    raise ConfigError(f"there is no run {reference!r} of the same eval files and cases{only}{listed}{advice}")


def _why_unlike(run: ComparableRun, like: Likeness) -> str:
    state = run.state()
    if not like.has_suites(run):
        return "other eval files"
    return part_of(run.run, state) or state
