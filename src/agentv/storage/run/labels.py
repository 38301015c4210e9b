"""Human labels of a run's answers: labels.jsonl, which is appended to under a lock of its own."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from agentv.storage.files.line_file import LineFile, plain_lines
from agentv.storage.records.decode import LABELS
from agentv.storage.records.encode import encodable_label
from agentv.storage.records.json_line import decode, encode, to_encodable
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

    A label whose `label_id` is stored already is not appended again; the stored one is returned in its place. Raises
    LabelConflictError if the stored one says something else, and then appends nothing.
    `note` writes the event of the run with the file's new checksum. Waits while another process writes labels of this
    run. Raises StorageError if it does so for longer than `wait_s`, or if the labels cannot be written.
    """
    try:
        lock = RunLock(folder, LABELS_LOCK, what="the label file of run", wait_s=wait_s)
        try:
            file = LineFile(folder / LABELS_FILE)
            try:
                blobs = BlobFolder(folder / "blobs")
                saved, new = _numbered(labels, _stored_with_ids(file.path, labels, blobs), first=file.next_seq)
                if not new:
                    return saved
                # One write for all: on a full disk none of them is written.
                file.append(b"\n".join(_line(label, run_id, blobs) for label in new))
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
    return saved


class LabelConflictError(StorageError):
    """A label was sent with the id of a stored label that says something else."""

    def __init__(self, stored: Label) -> None:
        self.stored = stored
        super().__init__(
            f"label {stored.label_id!r} is stored already, as line {(stored.seq or 0) + 1} of {LABELS_FILE}, and says "
            "something else; give a new label an id of its own"
        )


def _stored_with_ids(path: Path, labels: Sequence[Label], blobs: BlobFolder) -> dict[str, Label]:
    """Return the stored labels that have the id of one of `labels`. Other lines are not decoded."""
    ids = {label.label_id for label in labels if label.label_id is not None}
    if not ids:
        return {}
    found: dict[str, Label] = {}
    marks = [b'"label_id":' + encode(each) for each in ids]
    for number, line in enumerate(plain_lines(path)):
        if any(mark in line for mark in marks):
            try:
                label = LABELS.of_record(blobs.resolve(decode(line)))
            except (ValueError, StorageError) as error:
                raise StorageError(f"{path}:{number + 1}: {error}") from error
            if label.label_id is not None and label.label_id in ids:
                found[label.label_id] = replace(label, seq=number)
    return found


def _numbered(
    labels: Sequence[Label], stored: Mapping[str, Label], *, first: int
) -> tuple[tuple[Label, ...], list[Label]]:
    """Return the labels with their numbers, and those of them that are new; the first new one has number `first`."""
    known, saved, new = dict(stored), list[Label](), list[Label]()
    for label in labels:
        same = None if label.label_id is None else known.get(label.label_id)
        if same is None:
            same = replace(label, seq=first + len(new))
            new.append(same)
            if label.label_id is not None:
                known[label.label_id] = same
        elif _content(same) != _content(label):
            raise LabelConflictError(same)
        saved.append(same)
    return tuple(saved), new


def _content(label: Label) -> Label:
    """Return a label without what differs if it is sent again: its number, run and time, and the seconds it took."""
    return replace(label, seq=None, run_id="", time=_ANY_TIME, seconds=None)


_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def current_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return the current labels: for each answer, criterion and annotator, the label with the latest time.

    Of two labels with the same time, the one that was written later is current. A label of a golden answer replaces
    only another one of a golden answer, so that it takes no drawn label away.
    """
    current: dict[tuple[ResultKey, int, str, str, bool], Label] = {}
    for label in labels:
        key = (label.slot, label.answer_seq, label.criterion, label.annotator, label.golden)
        earlier = current.get(key)
        if earlier is None or earlier.time <= label.time:
            current[key] = label
    return tuple(current.values())


def _line(label: Label, run_id: str, blobs: BlobFolder) -> bytes:
    written = encodable_label(replace(label, run_id=run_id))
    line = encode(written)
    return line if len(line) <= BLOB_LIMIT and b'"$blob":' not in line else encode(blobs.extract(to_encodable(written)))
