"""The protocols of stores of shared runs, and the values that their methods return."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from agentv.storage.run.folder import RunFolder
from agentv.types.protocols import ResultStore
from agentv.types.records.run import RunRecord


@runtime_checkable
class RunStore(Protocol):
    """A place in which a team shares runs; a plug-in makes it from its URL."""

    def share_run(self, open_folder: Callable[[], RunFolder]) -> ResultStore:
        """Open a run's folder; return a store that writes to the folder and to this place.

        Raises StorageError, before it opens the folder and before any call costs money, if this place cannot store the
        run. If this place becomes unreachable later, the run continues, because its folder has everything. The returned
        store can report this to the user if it is also a ReportingStore (types/protocols.py).
        """


class SharedRun(Struct, frozen=True):
    """One shared run."""

    run_id: str
    name: str | None
    created_at: datetime | None
    """Its start by the clock of its machine."""
    state: str
    pushed_at: datetime
    """Its last push."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Its current results by state."""
    record: RunRecord | None = None
    """The content of its run.json; None if that cannot be read."""
    started_at: datetime | None = None
    """Its start by the clock of the store, if the store has one."""
    why_unreadable: str = ""
    """The reason why its run.json cannot be read."""

    @property
    def problem(self) -> str | None:
        """Why the run can be neither selected nor shown; None for most runs."""
        reason = f": {self.why_unreadable}" if self.why_unreadable else ""
        return None if self.record else f"run.json of run {self.run_id} cannot be read in the store{reason}"


class Pushed(Struct, frozen=True):
    """The outcome of a push."""

    run_id: str
    lines: int
    """The number of lines that the store lacked."""


class Pulled(Struct, frozen=True):
    """The outcome of a pull."""

    folder: Path
    lines: int
    """The number of lines that the folder lacked."""


class Upgraded(Struct, frozen=True):
    """The outcome of an upgrade: the version of the store's tables, and the names of the steps that were missing."""

    version: int
    applied: tuple[str, ...]


class SharedRuns(Protocol):
    """The runs of a store that is open. Every method raises StorageError when the store fails."""

    def list(self) -> tuple[SharedRun, ...]:
        """Return all runs, oldest first."""

    def find(self, reference: str) -> str:
        """Return the id of the run that a reference names: an id or its start, a name, `latest`.

        Raises ConfigError, listing the runs, when no run or several runs match.
        """

    def push(self, folder: Path) -> Pushed:
        """Copy the lines of a run folder that the store lacks."""

    def pull(self, run_id: str, runs_folder: Path, *, files: Collection[str] | None = None) -> Pulled:
        """Copy the lines of a run that this machine lacks; of a new folder only the named files, None for all."""

    def remove(self, run_ids: Sequence[str]) -> tuple[str, ...]:
        """Delete runs; return the ids that existed."""


@runtime_checkable
class ManagedRunStore(RunStore, Protocol):
    """A store that `agentv store` can also manage."""

    def upgrade(self) -> Upgraded:
        """Create or upgrade the tables. Raises StorageError."""

    def opened(self) -> AbstractContextManager[SharedRuns]:
        """Open the store for the duration of the block. Raises StorageError when its tables have another version."""
