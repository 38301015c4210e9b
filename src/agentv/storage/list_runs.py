"""The runs of a project at a glance, those among them that cannot be read included."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from agentv.storage.find_run import list_run_folders
from agentv.storage.stored_run import StoredRun
from agentv.types.records.run import RunRecord

UNREADABLE = "unreadable"


class ListedRun(Struct, frozen=True):
    """One run of a list. When something of it cannot be read, `state` is `unreadable` and `problem` says what.

    `run` is None when it is run.json that cannot be read; `counts` (rows by state) is empty when it is the rows.
    """

    folder: Path
    state: str
    run: RunRecord | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.name if self.run is None else self.run.run_id


def list_runs(home: Path) -> tuple[ListedRun, ...]:
    """Return all runs, oldest first."""
    return tuple(map(read_listed, list_run_folders(home)))


def read_listed(folder: Path) -> ListedRun:
    """Return one run as its folder tells it."""
    run = None
    try:
        stored = StoredRun(folder)
        run = stored.run
        return ListedRun(folder, stored.state(), run, stored.counts())
    except OSError as error:
        return ListedRun(folder, UNREADABLE, run, problem=str(error))
