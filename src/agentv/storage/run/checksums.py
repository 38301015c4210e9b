"""Checksums of a run's files, as recorded in its events, compared with the files.

Files of lines only grow, so a checksum of their first bytes stays valid, also when a resumed run appends to them.
run.json does not change except for its tags, which its checksum does not cover.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from agentv.storage.files.run_file import open_file
from agentv.storage.records.json_line import decode
from agentv.storage.run.folder import LINE_FILES, RUN_FILE, record_crc32
from agentv.storage.run.labels import LABELS_FILE
from agentv.storage.run.stored import StoredRun
from agentv.types.json_value import JsonValue

CHECKSUMS = "checksums"
"""The field of events that holds the checksum of each file."""

_CHUNK = 1 << 20


class Checksum(Struct, frozen=True):
    """The checksum of the beginning of a file."""

    lines: int
    """The number of lines in the beginning."""
    size: int
    """The size of these lines in bytes."""
    crc32: str


class RecordedChecksums(Struct, frozen=True):
    """All recorded checksums of a run."""

    of_files: Mapping[str, Sequence[Checksum]]
    """The checksums of each file, in the order of the events."""
    unreadable: Sequence[int] = ()
    """The numbers of events with malformed checksums."""
    of_record: str | None = None
    """The checksum of run.json, if any."""

    @property
    def are_recorded(self) -> bool:
        """False for a run of an older agentv, which recorded no checksums."""
        return bool(self.unreadable) or any(self.of_files.values())


def load_checksums(run: StoredRun) -> RecordedChecksums:
    """Return the checksums that a run's events record. Raises StorageError for an event that cannot be read."""
    found: dict[str, list[Checksum]] = {name: [] for name in (*LINE_FILES, LABELS_FILE)}
    unreadable: list[int] = []
    of_record: str | None = None
    for event in run.events():
        fields = event.fields.get(CHECKSUMS)
        if fields is None:
            continue
        is_of_labels = event.type == "labelled"  # which every user of a team database may add
        for name in (LABELS_FILE,) if is_of_labels else LINE_FILES:
            checksum = read_checksum(fields, name)
            if checksum is None:
                unreadable.append(event.seq)
                break
            found[name].append(checksum)
        if not is_of_labels:
            of_record = _crc32_of_record(fields) or of_record
    return RecordedChecksums(found, unreadable, of_record)


def _crc32_of_record(fields: JsonValue) -> str | None:
    found = fields.get(RUN_FILE) if isinstance(fields, Mapping) else None
    crc = found.get("crc32") if isinstance(found, Mapping) else None
    return crc if isinstance(crc, str) else None


def read_checksum(fields: JsonValue, name: str) -> Checksum | None:
    """Return the checksum of a file from the field `checksums` of an event, None if there is no valid one."""
    found = fields.get(name) if isinstance(fields, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    lines, size, crc = found.get("lines"), found.get("bytes"), found.get("crc32")
    if not (isinstance(lines, int) and isinstance(size, int) and isinstance(crc, str)) or lines < 0 or size < 0:
        return None
    return Checksum(lines, size, crc)


def changed_files(run: StoredRun, recorded: RecordedChecksums, names: Collection[str] | None = None) -> dict[str, str]:
    """Return a message for each file that differs from a recorded checksum, or cannot be read. Reads each file once.

    `names` limits this to some of the files of lines; run.json is compared always.
    """
    changed: dict[str, str] = {}
    for seq in recorded.unreadable:
        changed.setdefault(
            "events.jsonl",
            f"events.jsonl was changed after it was written: the checksums of event {seq} cannot be read",
        )
    for name, checksums in recorded.of_files.items():
        if names is not None and name not in names:
            continue
        try:
            mismatch = _first_mismatch(run.folder / name, checksums)
        except OSError as error:
            changed.setdefault(name, f"{name} cannot be compared with its checksums: {error}")
        else:
            if mismatch is not None:
                changed.setdefault(name, _change_message(name, mismatch))
    if recorded.of_record is not None and recorded.of_record != _present_record_checksum(run):
        changed[RUN_FILE] = f"{RUN_FILE} was changed after it was written"
    return changed


def _present_record_checksum(run: StoredRun) -> str:
    """Return the checksum of run.json as it is now; "", which equals no checksum, if it is no longer JSON."""
    try:
        return record_crc32(decode((run.folder / RUN_FILE).read_bytes()))
    except (ValueError, RecursionError):
        return ""


def _first_mismatch(path: Path, checksums: Sequence[Checksum]) -> Checksum | None:
    """Return the first checksum that the beginning of a file does not match, None if it matches all."""
    crc = offset = 0
    try:
        file = open_file(path)
    except FileNotFoundError:
        return next((each for each in checksums if each.size), None)
    with file:
        for checksum in sorted(checksums, key=lambda each: each.size):
            while offset < checksum.size and (chunk := file.read(min(_CHUNK, checksum.size - offset))):
                crc = crc32(chunk, crc)
                offset += len(chunk)
            if offset < checksum.size or f"{crc:08x}" != checksum.crc32:
                return checksum
    return None


def _change_message(name: str, mismatch: Checksum) -> str:
    lines = "line is" if mismatch.lines == 1 else f"{mismatch.lines:,} lines are"
    return f"{name} was changed after it was written: its first {lines} not as recorded"
