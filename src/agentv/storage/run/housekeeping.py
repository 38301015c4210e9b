"""Delete stored runs, and tag runs, which exempts them from pruning."""

from collections.abc import Collection, Sequence
from pathlib import Path

from agentv.execution.folder_trees import remove_tree
from agentv.scoring.judges.reviewing import queue_labels
from agentv.storage.files.line_file import write_by_rename
from agentv.storage.files.segment_writer import remove_segments
from agentv.storage.records.json_line import decode, pretty
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.folder import RUN_FILE
from agentv.storage.run.lock import RunLock, is_being_written
from agentv.storage.run.reviews import load_queue, queue_names
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import AgentvError, StorageError


def remove_run(folder: Path) -> None:
    """Delete a run, all its files and its segments. Raises StorageError while a process writes it."""
    lock = RunLock(folder)
    try:
        remove_segments(folder)  # if they cannot be reached, the run stays and can be deleted later
        # Without run.json a folder is not a run: the rest of an interrupted deletion is never listed as one.
        (folder / RUN_FILE).unlink(missing_ok=True)
        is_removed = remove_tree(folder)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot delete {folder}: {error.strerror or error}") from error
    finally:
        lock.release()
    if not is_removed:
        raise StorageError(f"cannot delete {folder}: some of its files cannot be removed")


def tag_run(folder: Path, *, add: Sequence[str] = (), remove: Collection[str] = ()) -> tuple[str, ...]:
    """Add and remove tags of a run; return its tags. Raises StorageError while a process writes the run."""
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
    """Return the runs that may be pruned, oldest first: all but the newest `keep`, tagged runs and runs being written.

    A run that cannot be read is not pruned, because it may be tagged. Runs with unfinished reviews are among them.
    """
    folders = list_run_folders(home)
    return tuple(folder for folder in folders[: max(0, len(folders) - keep)] if _is_prunable(folder))


def unfinished_reviews(folder: Path) -> tuple[str, ...]:
    """Return what is missing in the review queues of a run, such as `review 'tone': 7 of 20 labels are missing`."""
    return tuple(filter(None, (_missing_in(folder, name) for name in queue_names(folder))))


def _missing_in(folder: Path, name: str) -> str | None:
    try:
        labels = queue_labels(load_queue(folder, name), StoredRun(folder).all_labels(), {})
    except AgentvError as error:
        return f"review {name!r} cannot be read: {error}"
    people = labels.queue.reviewers
    missing = sum(len(labels.waiting(each)) for each in people)
    total = sum(len(labels.items_of(each)) for each in people)
    return f"review {name!r}: {missing:,} of {total:,} labels are missing" if missing else None


def _is_prunable(folder: Path) -> bool:
    try:
        return not StoredRun(folder).run.tags and not is_being_written(folder)
    except StorageError:
        return False
