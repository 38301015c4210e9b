"""Review queues of a run: `reviews/NAME.json` in its folder. A stored queue never changes."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from agentv.storage.files.line_file import open_lines, sync
from agentv.storage.records.decode import QUEUES
from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import pretty
from agentv.types.errors import ConfigError, StorageError, nearest
from agentv.types.records.review import ReviewQueue

REVIEWS_FOLDER = "reviews"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def save_queue(folder: Path, queue: ReviewQueue) -> Path:
    """Write a new queue into a run's folder; return its file.

    Raises ConfigError for a bad name and if there is a queue of this name, StorageError if it cannot be written.
    """
    return save_queue_file(folder, queue.name, pretty(to_record(queue)))


def save_queue_file(folder: Path, name: str, data: bytes) -> Path:
    """Write the content of a new queue's file, as `save_queue` does."""
    path = _path(folder, name)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _write_new(path, data)
    except FileExistsError as error:
        raise ConfigError(
            f"run {folder.name} has a queue {name!r} already; a queue is never changed, because its labels have "
            "the probabilities with which it was drawn. Draw more under another name"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def load_queue(folder: Path, name: str) -> ReviewQueue:
    """Return a queue of a run. Raises ConfigError with the known names if there is none, StorageError if broken."""
    data = load_queue_file(folder, name)
    try:
        return QUEUES.of_line(data)
    except (ValueError, StorageError) as error:
        raise StorageError(f"{_path(folder, name)}: {error}") from error


def load_queue_file(folder: Path, name: str) -> bytes:
    """Return the content of a queue's file. Raises ConfigError and StorageError as `load_queue` does."""
    path = _path(folder, name)
    try:
        with open_lines(path) as file:
            return file.read()
    except FileNotFoundError:
        known = queue_names(folder)
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else f"queues: {', '.join(known) or 'none'}"
        raise ConfigError(f"run {folder.name} has no review queue {name!r}; {hint}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def queue_names(folder: Path) -> list[str]:
    """Return the names of a run's queues, sorted."""
    return sorted(path.stem for path in (folder / REVIEWS_FOLDER).glob("*.json") if _NAME.fullmatch(path.stem))


def load_queues(folder: Path) -> Iterator[ReviewQueue]:
    """Yield the queues of a run, in the order in which they were drawn."""
    queues = [load_queue(folder, name) for name in queue_names(folder)]
    return iter(sorted(queues, key=lambda queue: (queue.created_at, len(queue.after))))


def _path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a queue; it must have at most 80 letters, digits, '.', '_' and '-', and "
            "begin with a letter or a digit"
        )
    return folder / REVIEWS_FOLDER / f"{name}.json"


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist, with all of its content or not at all. Raises FileExistsError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        sync(folder)
    finally:
        os.close(folder)
