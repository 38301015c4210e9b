"""The runs of a store, read like those of a project: each run that is needed is pulled into a temporary home."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from agentv.storage.run.find import UNREADABLE, ListedRun, runs_folder
from agentv.storage.run.likeness import is_relative_reference, nth_like
from agentv.storage.shared_runs import SharedRun, SharedRuns
from agentv.types.errors import ConfigError
from agentv.types.records.run import RunRecord


class PulledRuns:
    """The runs of an open store; `home` is an empty folder, which gets the runs that are needed."""

    def __init__(self, shared: SharedRuns, home: Path) -> None:
        self._shared = shared
        self.home = home
        runs_folder(home).mkdir(parents=True)

    def listed(self) -> tuple[ListedRun, ...]:
        """Return all runs, oldest first; their folders do not exist before they are pulled."""
        return tuple(self._listed(run) for run in self._runs)

    def pull(self, run_id: str, *, files: Collection[str] | None = None) -> Path:
        """Pull a run, or only the named files of it; return its folder. Raises StorageError."""
        return self._shared.pull(run_id, runs_folder(self.home), files=files).folder

    def find(self, reference: str) -> Path:
        """Pull the run that a reference names, as `find_run` finds it; return its folder."""
        return self.pull(self._shared.find(reference))

    def find_compared(self, reference: str) -> Path:
        """Pull the run that a reference of a comparison names, as `find_scores` finds it; return its folder."""
        if is_relative_reference(reference, has_anchor=False):
            return self.pull(nth_like(self._newest_first(), reference).run.run_id)
        try:
            return self.find(reference)
        except ConfigError:
            tagged = next((each.run for each in self._newest_first() if reference in each.run.tags), None)
            if tagged is None:
                raise
            return self.pull(tagged.run_id)

    def _newest_first(self) -> "Iterator[_ComparableRun]":
        return (_ComparableRun(each.record, each) for each in reversed(self._runs) if each.record is not None)

    @cached_property
    def _runs(self) -> tuple[SharedRun, ...]:
        """All runs, oldest first, as they were when they were needed first."""
        return self._shared.list()

    def _listed(self, run: SharedRun) -> ListedRun:
        folder = runs_folder(self.home) / run.run_id
        if run.problem is not None:
            return ListedRun(folder, UNREADABLE, problem=run.problem)
        return ListedRun(folder, run.state, run.record, run.counts)


class _ComparableRun(Struct, frozen=True):
    """A shared run as a ComparableRun."""

    run: RunRecord
    shared: SharedRun

    def state(self) -> str:
        return self.shared.state

    def counts(self) -> Mapping[str, int]:
        return self.shared.counts
