"""Where a run is kept: in a folder, new or as it was left, with the team's database behind it, or in memory."""

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
    """Return the store of a new run. One for which no case was selected leaves no folder, so that `latest` has rows.

    `shared_in` is the team's database; StorageError when it cannot take the run.
    """
    run_id = new_run_id(clock, random.SystemRandom())
    if not on_disk or plan.planned == 0:
        from agentv.storage.run.memory import MemoryStore  # noqa: PLC0415 - few runs leave no folder

        return MemoryStore(run_id, clock=clock)
    return shared(shared_in, lambda: RunFolder(runs_folder(Path(plan.home)), run_id, clock=clock))


def reopen_store(folder: Path, *, clock: Clock) -> RunFolder:
    """Return the store of a run that is taken up again. Raises StorageError while another process writes it."""
    return RunFolder(folder.parent, folder.name, clock=clock)


def refuse_second_writer(folder: Path) -> None:
    """Raise StorageError, which says who it is, while another process writes a run: before anything is read for it."""
    RunLock(folder).release()


def shared(shared_in: "StoreUrl | None", open_folder: Callable[[], RunFolder]) -> ResultStore:
    """Open a run's folder, and behind it the team's database, if there is one.

    Raises StorageError, before the folder is opened, when the database cannot take the run.
    """
    if shared_in is None:
        return open_folder()
    from agentv.storage.postgres.shared_run import SharedRun  # noqa: PLC0415 - for those alone who share their runs

    return SharedRun(shared_in, open_folder)
