"""Human labels of a run's answers: labels.jsonl, which is appended to under a lock of its own."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from agentv.storage.files.line_file import LineFile
from agentv.storage.records.encode import encodable_label
from agentv.storage.records.json_line import encode, to_encodable
from agentv.storage.run.blobs import BLOB_LIMIT, BlobFolder
from agentv.storage.run.lock import RunLock
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonValue
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Label

LABELS_FILE = "labels.jsonl"
LABELS_LOCK = "labels.lock"
WAIT_S = 30.0
"""Seconds for which an import waits for another one of the same run."""


def append_labels(
    folder: Path,
    labels: Sequence[Label],
    *,
    run_id: str,
    note: Callable[[str, Mapping[str, JsonValue]], object] = lambda _type, _fields: None,
    wait_s: float = WAIT_S,
) -> tuple[Label, ...]:
    """Append all labels or none to a run's folder, and fsync; return them with their `seq`.

    `note` writes the event of the run with the file's new checksum. Waits while another process writes labels of this
    run. Raises StorageError if it does so for longer than `wait_s`, or if the labels cannot be written.
    """
    try:
        lock = RunLock(folder, LABELS_LOCK, what="the label file of run", wait_s=wait_s)
        try:
            file = LineFile(folder / LABELS_FILE)
            try:
                numbered = tuple(replace(label, seq=file.next_seq + index) for index, label in enumerate(labels))
                blobs = BlobFolder(folder / "blobs")
                # One write for all: on a full disk none of them is written.
                file.append(b"\n".join(_line(label, run_id, blobs) for label in numbered))
                os.fsync(file.descriptor)
                checksum = file.checksum
            finally:
                file.close()
            # Under the lock, so that the event of one import does not keep another from writing its own.
            note("labelled", {"checksums": {LABELS_FILE: checksum}})
        finally:
            lock.release()
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"cannot write {folder / LABELS_FILE}: {error.strerror or error}; no label was saved"
        ) from error
    return numbered


def current_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return the current labels: for each answer, criterion and annotator, the label with the latest time.

    Of two labels with the same time, the one that was written later is current.
    """
    current: dict[tuple[ResultKey, int, str, str], Label] = {}
    for label in labels:
        key = (label.slot, label.answer_seq, label.criterion, label.annotator)
        earlier = current.get(key)
        if earlier is None or earlier.time <= label.time:
            current[key] = label
    return tuple(current.values())


def _line(label: Label, run_id: str, blobs: BlobFolder) -> bytes:
    written = encodable_label(replace(label, run_id=run_id))
    line = encode(written)
    return line if len(line) <= BLOB_LIMIT and b'"$blob":' not in line else encode(blobs.extract(to_encodable(written)))
