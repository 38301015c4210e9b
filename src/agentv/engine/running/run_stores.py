"""The store of a run: a new or existing folder, optionally shared in the team's database, or memory."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.engine.planning.plan import RunPlan
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.lock import RunLock
from agentv.types.protocols import Clock, ResultStore

if TYPE_CHECKING:
    from agentv.storage.postgres.url import StoreUrl


def make_store(
    plan: RunPlan, *, clock: Clock, on_disk: bool = True, shared_in: "StoreUrl | None" = None
) -> ResultStore:
    """Return the store of a new run.

    A run without selected cases is not stored, so that `latest` names a run with results.

    `shared_in` is the team's database. Raises StorageError if that cannot store the run.
    """
    run_id = new_run_id(clock, random.SystemRandom())
    if not on_disk or plan.planned == 0:
        from agentv.storage.run.memory import MemoryStore  # noqa: PLC0415 - few runs are in memory only

        return MemoryStore(run_id, clock=clock)
    return shared(shared_in, lambda: RunFolder(runs_folder(Path(plan.home)), run_id, clock=clock))


def reopen_store(folder: Path, *, clock: Clock) -> RunFolder:
    """Return the store of a stored run. Raises StorageError while another process writes it."""
    return RunFolder(folder.parent, folder.name, clock=clock)


def refuse_second_writer(folder: Path) -> None:
    """Raise StorageError while another process writes a run, naming that process; called before the run is read."""
    RunLock(folder).release()


def shared(shared_in: "StoreUrl | None", open_folder: Callable[[], RunFolder]) -> ResultStore:
    """Open a run's folder, shared in the team's database if there is one.

    Raises StorageError, before the folder is opened, if the database cannot store the run.
    """
    if shared_in is None:
        return open_folder()
    from agentv.storage.postgres.shared_run import SharedRun  # noqa: PLC0415 - for shared runs only

    return SharedRun(shared_in, open_folder)
