"""Changes of a run's failure categories: categories.jsonl, appended to under the lock of the labels."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from agentv.storage.files.line_file import LineFile, plain_lines
from agentv.storage.records.decode import CATEGORIES
from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import encode
from agentv.storage.run.labels import LABELS_LOCK, WAIT_S
from agentv.storage.run.lock import RunLock
from agentv.types.errors import StorageError
from agentv.types.moments import to_utc
from agentv.types.records.category import CategoryEvent

CATEGORIES_FILE = "categories.jsonl"


def append_category_events(
    folder: Path, events: Sequence[CategoryEvent], *, wait_s: float = WAIT_S
) -> tuple[CategoryEvent, ...]:
    """Append all changes or none to a run's folder, and fsync; return them with their `seq`. Raises StorageError."""
    try:
        lock = RunLock(folder, LABELS_LOCK, what="the label file of run", wait_s=wait_s)
        try:
            file = LineFile(folder / CATEGORIES_FILE)
            try:
                numbered = tuple(replace(each, seq=file.next_seq + index) for index, each in enumerate(events))
                if numbered:
                    file.append(
                        b"\n".join(encode(to_record(replace(each, time=to_utc(each.time)))) for each in numbered)
                    )
                    os.fsync(file.descriptor)
            finally:
                file.close()
        finally:
            lock.release()
    except OSError as error:
        raise StorageError(f"cannot write {folder / CATEGORIES_FILE}: {error.strerror or error}") from error
    return numbered


def load_category_events(folder: Path) -> Iterator[CategoryEvent]:
    """Yield the changes in the order of writing. Raises StorageError for a line that cannot be read."""
    path = folder / CATEGORIES_FILE
    for number, line in enumerate(plain_lines(path), start=1):
        try:
            event = CATEGORIES.of_line(line)
        except (ValueError, StorageError) as error:
            raise StorageError(f"{path}:{number}: {error}") from error
        yield replace(event, seq=number - 1)
