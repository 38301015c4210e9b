"""Moves the full parts of a run's files to the folder or URL of its segments, in a thread.

A part is uploaded, then listed in segments.jsonl with fsync, then its local file is deleted. Killing the process
between two of these steps neither loses nor repeats a line: until a part is listed, its local file is read, and from
then on its segment.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import TypeVar
from zlib import crc32

from msgspec import Struct

from agentv.storage.files.line_file import FileEnd, LineFile, part_path
from agentv.storage.files.object_store import (
    UPLOAD_LIMIT_S,
    absolute_form,
    has_upload_limit,
    joined,
    names_in,
    put,
    remove,
    remove_folder,
    stored_form,
)
from agentv.storage.files.run_file import why_segments_lost
from agentv.storage.files.segments import (
    SEGMENTS_FILE,
    begin_segments,
    is_segment_name,
    load_segments,
    segment_name,
)
from agentv.storage.records.json_line import encode
from agentv.types.errors import AgentvError, StorageError
from agentv.types.protocols import REPORT_WAIT_S
from agentv.types.records.segment import LinesTotal, SegmentRecord, UploadedSegment

SEGMENT_BYTES = 64 << 20
"""The size in bytes from which a part is moved."""
SEGMENT_S = 300.0
"""The age in seconds from which a part is moved; it is checked after each line."""
RUN_FILE = "run.json"

R = TypeVar("R")


class SegmentRules(Struct, frozen=True):
    """When a part is full, and how moving it is observed."""

    most_bytes: int = SEGMENT_BYTES
    """The size from which a part is full."""
    most_s: float = SEGMENT_S
    """The age from which a part is full."""
    report_wait_s: float = REPORT_WAIT_S
    """A wait for the place of the segments is reported after this time."""
    before_step: Callable[[str, str], None] = lambda _step, _file: None
    """Called before each step of moving a part, with the name of the step and the name of the file."""


class SegmentWriter:
    """Moves parts of the files of one run, in a thread that `close` ends.

    A part that cannot be moved stays valid in the run's folder; it is tried again with the next part and at the end.
    `error` is the last failure, None once nothing is left to move.
    """

    def __init__(self, folder: Path, *, rules: SegmentRules | None = None) -> None:
        self._folder = folder
        self._rules = rules or SegmentRules()
        segments = load_segments(folder)
        if segments is None:
            raise StorageError(f"{folder} has no {SEGMENTS_FILE}")
        self._url = segments.url
        self._last_listed = {name: listed[-1].record for name, listed in segments.of_files.items()}
        self._manifest = LineFile(folder / SEGMENTS_FILE)
        self._listing = Lock()
        os.fsync(self._manifest.descriptor)  # a killed process may have left its last line unsynced
        self._waiting: deque[tuple[str, int]] = deque()
        self._began_at: dict[LineFile, float] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agentv-segments")
        self._attempt: Future[None] | None = None
        self._report: Callable[[str], None] = lambda _message: None
        self.error: StorageError | None = None

    @property
    def place(self) -> str:
        """The folder of the segments as other processes name it: an absolute path, or a URL."""
        return absolute_form(self._url, base=self._folder)

    def report_to(self, report: Callable[[str], None]) -> None:
        """Call `report` with a message when `why_lost` or `close` has to wait for the place of the segments."""
        self._report = report

    def resume_moving(self, file: LineFile) -> None:
        """Move the parts that an earlier process did not move, and delete the local file of a part that it listed."""
        listed = self._count_listed(file.path.name)
        if listed:
            part_path(file.path, listed - 1).unlink(missing_ok=True)
        self._waiting.extend((file.path.name, part) for part in range(listed, file.part))
        if self._waiting:
            self._start_moving()

    def refuse_unlisted(self, files: Sequence[LineFile]) -> None:
        """Raise StorageError if a part was moved that is neither listed nor in the run's folder.

        Then the list has lost a line, or another copy of the run was continued. A node's segments have other names.
        """
        found = set(names_in(self._url, base=self._folder))
        for file in files:
            name, listed = file.path.name, self._count_listed(file.path.name)
            local = {segment_name(name, part) for part in range(listed, file.part + bool(file.own_bytes))}
            if (unlisted := segment_name(name, listed)) in found - local:
                raise StorageError(
                    f"{self._folder / SEGMENTS_FILE} does not list {joined(self._url, unlisted)}. Restore "
                    f"{SEGMENTS_FILE} from a copy; or, if another copy of this run was continued, continue that one"
                )

    def copy_run_file(self) -> None:
        """Copy run.json to the folder of the segments. Raises StorageError if nothing can be written there."""
        put(self._folder / RUN_FILE, joined(self._url, RUN_FILE), base=self._folder)

    def rotate_if_full(self, file: LineFile) -> None:
        """Begin the next part of a file if this one is full. Called after each line. Raises OSError."""
        now = time.monotonic()
        begun = self._began_at.setdefault(file, now)
        if file.own_bytes >= self._rules.most_bytes or now - begun >= self._rules.most_s:
            self._rotate(file)
            self._start_moving()

    def has_moved(self, file: LineFile) -> bool:
        """Return True if all lines of a file are in listed segments, so that another process's segment can follow."""
        return not file.own_bytes and self._count_listed(file.path.name) == file.part

    def move(self, file: LineFile) -> "Future[None]":
        """Move all parts of a file, also one that is not full. The future is done when the attempt ended."""
        if file.own_bytes:
            self._rotate(file)
        return self._start_moving()

    def list_uploaded(self, file: LineFile, uploaded: UploadedSegment) -> None:
        """List a segment that was uploaded by another process as the next part of a file. Raises OSError.

        The file must have been moved (`has_moved`).
        """

        def list_segment() -> FileEnd:
            self._rules.before_step("list", uploaded.file)
            end = file.end.after(lines=uploaded.lines, size=uploaded.bytes, crc=uploaded.crc32)
            self._list_segment(
                SegmentRecord(
                    file=uploaded.file,
                    part=file.part,
                    name=uploaded.name,
                    lines=uploaded.lines,
                    bytes=uploaded.bytes,
                    crc32=f"{uploaded.crc32:08x}",
                    total=LinesTotal(lines=end.lines, bytes=end.size, crc32=f"{end.crc:08x}"),
                )
            )
            self._rules.before_step("delete", uploaded.file)  # `replace_empty_part` deletes the empty part afterwards
            return end

        file.replace_empty_part(list_segment)

    def _list_segment(self, record: SegmentRecord) -> None:
        """Append a segment to the list, durably. Called in the thread and in the event loop."""
        with self._listing:
            self._manifest.append(encode(record))
            os.fsync(self._manifest.descriptor)
            self._last_listed[record.file] = record

    def why_lost(self, files: Sequence[LineFile]) -> list[str]:
        """Return what is missing of the list of segments, and of `files`, after the parts in progress were moved."""

        def find_lost() -> list[str]:
            found = [self._manifest.why_lost(), *(why_segments_lost(file.path, file.end.size) for file in files)]
            return [each for each in found if each is not None]

        return self._result_of(
            self._thread.submit(find_lost), lambda: "the segments of this run are being compared with what was written"
        )

    def close(self, files: Sequence[LineFile]) -> None:
        """Move the last parts and end the thread; a part that cannot be moved stays in the run's folder (`error`)."""
        try:
            for file in files:
                if file.own_bytes:
                    self._rotate(file)
                file.current_path.unlink(missing_ok=True)  # it is empty
        finally:
            self._result_of(self._start_moving(), self._describe_waiting)
            self._thread.shutdown()
            self._manifest.close()

    def _result_of(self, work: "Future[R]", describe: Callable[[], str]) -> R:
        """Return the result of work in the thread; if that takes long, first report a description of it."""
        wait([work], timeout=self._rules.report_wait_s)
        if not work.done():
            self._report(f"waiting for {self.place}: {describe()}")
        return work.result()

    def _describe_waiting(self) -> str:
        count = len(self._waiting)
        parts = "1 part of this run is" if count == 1 else f"{count} parts of this run are"
        limit = (
            f"each is tried for at most {UPLOAD_LIMIT_S / 60:g} minutes, and " if has_upload_limit(self._url) else ""
        )
        return f"{parts} not moved yet; {limit}what cannot be moved stays in {self._folder}"

    def _rotate(self, file: LineFile) -> None:
        self._began_at.pop(file, None)
        self._rules.before_step("begin the next part", file.path.name)
        file.begin_part()
        self._waiting.append((file.path.name, file.part - 1))

    def _count_listed(self, name: str) -> int:
        return self._last_listed[name].part + 1 if name in self._last_listed else 0

    def _start_moving(self) -> "Future[None]":
        """Return an attempt to move all parts which has not begun yet; start one if there is none."""
        if self._attempt is None or self._attempt.running() or self._attempt.done():
            self._attempt = self._thread.submit(self._move_all)
        return self._attempt

    def _move_all(self) -> None:
        while self._waiting:
            try:
                self._move(*self._waiting[0])
            except (AgentvError, OSError) as error:
                reason = str(error) if isinstance(error, AgentvError) else f"{error.strerror or error}"
                self.error = StorageError(
                    f"cannot move a part of {self._waiting[0][0]} to its segments: {reason}. Every result is saved in "
                    f"{self._folder}; when segments can be written again, move the rest with: agentv resume "
                    f"{self._folder.name}"
                )
                return
            self._waiting.popleft()
        self.error = None

    def _move(self, name: str, part: int) -> None:
        """Upload a part, list it, delete its local file."""
        local_path = part_path(self._folder / name, part)
        if part >= self._count_listed(name):
            record = self._describe(name, part, local_path)
            self._rules.before_step("upload", name)
            put(local_path, joined(self._url, segment_name(name, part)), base=self._folder)
            self._rules.before_step("list", name)
            self._list_segment(record)
        self._rules.before_step("delete", name)
        local_path.unlink(missing_ok=True)

    def _describe(self, name: str, part: int, local_path: Path) -> SegmentRecord:
        before = self._last_listed[name].total if name in self._last_listed else LinesTotal(lines=0, bytes=0, crc32="0")
        lines = size = crc = 0
        total_crc = int(before.crc32, 16)
        with local_path.open("rb") as file:
            while chunk := file.read(1 << 20):
                lines += chunk.count(b"\n")
                size += len(chunk)
                crc, total_crc = crc32(chunk, crc), crc32(chunk, total_crc)
        total = LinesTotal(lines=before.lines + lines, bytes=before.bytes + size, crc32=f"{total_crc:08x}")
        return SegmentRecord(file=name, part=part, lines=lines, bytes=size, crc32=f"{crc:08x}", total=total)


def set_segments_folder(folder: Path, url: str) -> None:
    """Set the folder for the segments of a new run, a folder below `url`. Raises OSError."""
    begin_segments(folder, joined(stored_form(url, base=folder), folder.name))


def remove_segments(folder: Path) -> None:
    """Delete the segments of a run, also unlisted ones that a killed process uploaded. Raises StorageError."""
    segments = load_segments(folder)
    if segments is None:
        return
    for listed in segments.of_files.values():
        for segment in listed:
            remove(segment.url, base=folder)
    for name in names_in(segments.url, base=folder):
        if is_segment_name(name):
            remove(joined(segments.url, name), base=folder)
    remove(joined(segments.url, RUN_FILE), base=folder)
    remove_folder(segments.url, base=folder)
