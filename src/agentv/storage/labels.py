"""What people said of a run's answers: labels.jsonl, which grows by whole files of scores, under a lock of its own."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from agentv.storage.blobs import BLOB_LIMIT, BlobFolder
from agentv.storage.json_line import encode, fitted
from agentv.storage.line_file import LineFile
from agentv.storage.record_answer import read_slot
from agentv.storage.record_fields import optional_text, read_integer, read_object, read_text, read_time, time_text
from agentv.storage.run_lock import RunLock
from agentv.storage.schema import LABEL_SCHEMA, check_schema
from agentv.types.errors import StorageError
from agentv.types.feedback import Label
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.results import Slot

LABELS_FILE = "labels.jsonl"
LABELS_LOCK = "labels.lock"


def append_labels(folder: Path, labels: Sequence[Label], *, run_id: str) -> tuple[Label, ...]:
    """Write all labels or none into a run's folder; they come back with their `seq`, and survive a power loss.

    Raises StorageError when another process writes labels of this run, or when the disk does not take them.
    """
    try:
        lock = RunLock(folder, LABELS_LOCK, what="the label file of run")
        try:
            file = LineFile(folder / LABELS_FILE)
            try:
                numbered = tuple(replace(label, seq=file.next_seq + index) for index, label in enumerate(labels))
                blobs = BlobFolder(folder / "blobs")
                # One write for all: a disk that fills up takes none of them.
                file.append(b"\n".join(_line(label, run_id, blobs) for label in numbered))
                os.fsync(file.descriptor)
            finally:
                file.close()
        finally:
            lock.release()
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"cannot write {folder / LABELS_FILE}: {error.strerror or error}; nothing was kept"
        ) from error
    return numbered


def current_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return what counts: of one annotator's scores of one criterion of one answer that of the latest time.

    Of two with the same time it is the one that was written later.
    """
    current: dict[tuple[Slot, int, str, str], Label] = {}
    for label in labels:
        key = (label.slot, label.answer_seq, label.criterion, label.annotator)
        earlier = current.get(key)
        if earlier is None or earlier.time <= label.time:
            current[key] = label
    return tuple(current.values())


def label_to_record(label: Label, *, run_id: str) -> dict[str, JsonValue]:
    """Return a label as the line of labels.jsonl has it."""
    record: dict[str, JsonValue] = {
        "schema": LABEL_SCHEMA,
        "run_id": run_id,
        "seq": label.seq,
        "slot": label.slot.to_json(),
        "answer_key": label.answer_key,
        "answer_ref": {"seq": label.answer_seq},
        "criterion": label.criterion,
        "score": label.score,
        "annotator": label.annotator,
        "time": time_text(label.time),
        "reasoning": label.reasoning,
    }
    return {key: value for key, value in record.items() if value is not None}


def record_to_label(record: JsonObject) -> Label:
    """Read a line of labels.jsonl. Raises StorageError for a newer schema, ValueError when broken."""
    check_schema(record, LABEL_SCHEMA)
    score = record.get("score")
    if not isinstance(score, str | bool | int | float):
        raise ValueError(f"score: expected a number, a bool or a text, found {repr(score)[:60]}")  # noqa: TRY004 - readers catch one error
    return Label(
        slot=read_slot(record),
        answer_key=read_text(record, "answer_key", ""),
        answer_seq=read_integer(read_object(record, "answer_ref"), "seq"),
        criterion=read_text(record, "criterion"),
        score=score,
        annotator=read_text(record, "annotator"),
        time=read_time(record, "time"),
        reasoning=optional_text(record, "reasoning"),
        seq=read_integer(record, "seq"),
    )


def _line(label: Label, run_id: str, blobs: BlobFolder) -> bytes:
    record = label_to_record(label, run_id=run_id)
    line = encode(record)
    return line if len(line) <= BLOB_LIMIT and b'"$blob":' not in line else encode(blobs.take_out(fitted(record)))
