"""Where a run is kept: in a folder of its own, new or as it was left, or in memory."""

import random
from pathlib import Path

from agentv.pipeline.plan import RunPlan
from agentv.storage.find_run import runs_folder
from agentv.storage.memory import MemoryStore
from agentv.storage.run_folder import RunFolder, new_run_id
from agentv.storage.run_lock import RunLock
from agentv.types.protocols import Clock, ResultStore


def make_store(plan: RunPlan, *, clock: Clock, on_disk: bool = True) -> ResultStore:
    """Return the store of a new run. One for which no case was selected leaves no folder, so that `latest` has rows."""
    run_id = new_run_id(clock, random.SystemRandom())
    if not on_disk or plan.planned == 0:
        return MemoryStore(run_id, clock=clock)
    return RunFolder(runs_folder(Path(plan.home)), run_id, clock=clock)


def reopen_store(folder: Path, *, clock: Clock) -> RunFolder:
    """Return the store of a run that is taken up again. Raises StorageError while another process writes it."""
    return RunFolder(folder.parent, folder.name, clock=clock)


def refuse_second_writer(folder: Path) -> None:
    """Raise StorageError, which says who it is, while another process writes a run: before anything is read for it."""
    RunLock(folder).release()
