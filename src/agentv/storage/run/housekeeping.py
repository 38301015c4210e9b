"""Making room among stored runs, and marking those that are to stay."""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from agentv.storage.records.json_line import decode, pretty
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.folder import RUN_FILE, write_by_rename
from agentv.storage.run.lock import RunLock, is_being_written
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import StorageError


def remove_run(folder: Path) -> None:
    """Delete a run with all that is kept of it. Raises StorageError while a process writes it."""
    lock = RunLock(folder)
    try:
        # Without run.json it is no run any more: what is left of a deletion that was cut short is never taken for one.
        (folder / RUN_FILE).unlink(missing_ok=True)
        shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(f"cannot delete {folder}: {error.strerror or error}") from error
    finally:
        lock.release()


def tag_run(folder: Path, *, add: Sequence[str] = (), remove: Collection[str] = ()) -> tuple[str, ...]:
    """Give a run tags or take some from it; returns those it has then. Raises StorageError while it is written."""
    stored = StoredRun(folder)
    lock = RunLock(folder)
    try:
        tags = tuple(tag for tag in dict.fromkeys((*stored.run.tags, *add)) if tag not in remove)
        record = {**decode((folder / RUN_FILE).read_bytes()), "tags": list(tags)}
        write_by_rename(folder / RUN_FILE, pretty(record))
    except OSError as error:
        raise StorageError(f"cannot write {folder / RUN_FILE}: {error.strerror or error}") from error
    finally:
        lock.release()
    return tags


def prunable_runs(home: Path, *, keep: int) -> tuple[Path, ...]:
    """Return the runs beside the newest `keep`, oldest first, but for tagged ones and those that are being written.

    A run that cannot be read stays: nobody knows whether it is tagged.
    """
    folders = list_run_folders(home)
    return tuple(folder for folder in folders[: max(0, len(folders) - keep)] if _may_go(folder))


def _may_go(folder: Path) -> bool:
    try:
        return not StoredRun(folder).run.tags and not is_being_written(folder)
    except StorageError:
        return False
