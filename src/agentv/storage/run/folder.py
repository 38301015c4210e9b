"""A run on disk: append-only JSON Lines files, written as results arrive (docs/reference/run-folder.md)."""

import asyncio
import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
from msgspec import Struct

from agentv.scoring.keys.identity import DigestSet, files_of
from agentv.storage.files.line_file import LineFile, sync, write_by_rename
from agentv.storage.files.run_file import append_to, whole_lines
from agentv.storage.files.segments import SEGMENTS_FILE
from agentv.storage.records.decode import CASES
from agentv.storage.records.encode import (
    case_line_key,
    encodable_answer,
    encodable_case,
    encodable_event,
    encodable_result,
    encodable_run,
    numbered,
)
from agentv.storage.records.json_line import decode, encode, pretty, reason, to_encodable
from agentv.storage.records.narrow import Subset
from agentv.storage.run.blobs import BLOB_LIMIT, BlobFolder, may_have_blobs
from agentv.storage.run.lock import LOCK_NAME, RunLock, read_holder
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import FilePart
from agentv.types.protocols import Clock
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord
from agentv.types.records.segment import UploadedSegment

if TYPE_CHECKING:
    from agentv.storage.files.segment_writer import SegmentRules, SegmentWriter

MAX_WAIT_S = 0.05
"""Seconds after which a written line is synced."""


class Flusher:
    """A thread that fsyncs written files, 50 ms after the first line that is not synced.

    A written line survives a crash of the process; fsync makes it survive a power loss. A failed fsync is stored in
    `error` for the writer to raise, because the line it belongs to is already acknowledged. The thread is woken once
    for all lines of 50 ms, because each wake-up slows the writer (bench/echo_cases.py).
    """

    def __init__(self, *, fsync: Callable[[int], None] = sync, max_wait_s: float = MAX_WAIT_S) -> None:
        self.error: OSError | None = None
        self._fsync = fsync
        self._max_wait_s = max_wait_s
        self.dirty: set[int] = set()
        self._lock = threading.Lock()
        self._has_dirty = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentv-fsync", daemon=True)
        self._thread.start()

    def mark_dirty(self, descriptor: int) -> None:
        """Mark a file as written to; not needed for one that is already in `dirty`."""
        with self._lock:
            self.dirty.add(descriptor)
        self._has_dirty.set()

    def close(self) -> None:
        """End the thread and sync the remaining files."""
        self._closed.set()
        self._has_dirty.set()
        self._thread.join()
        self._sync()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._has_dirty.wait()
            self._closed.wait(self._max_wait_s)
            self._sync()

    def _sync(self) -> None:
        with self._lock:
            descriptors, self.dirty = self.dirty, set()
            self._has_dirty.clear()
        for descriptor in descriptors:
            try:
                self._fsync(descriptor)
            except OSError as error:
                self.error = self.error or error


HOME_NAME = ".agentv"
RUN_FILE = "run.json"
LINE_FILES = ("events.jsonl", "cases.jsonl", "answers.jsonl", "results.jsonl")
RESULTS_PER_CHECKSUM = 1_000
"""The number of results after which an event records the checksums of all files."""

_GITIGNORE = "# Written by agentv: files that runs leave behind.\n/.gitignore\n/runs/\n/logs/\n/cache/\n/index.db*\n"


def new_run_id(clock: Clock, rng: Random) -> str:
    """Return a run id that sorts by time: UTC to the millisecond, then six random hexadecimal digits."""
    now = clock().astimezone(UTC)
    return f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03}-{rng.getrandbits(24):06x}"


class _CaseHead(Subset, frozen=True):
    WHOLE = CaseRecord

    suite: str = ""
    eval_id: str = ""
    case_key: str = ""


_decode_case = msgspec.json.Decoder(_CaseHead).decode


class RunFolder:
    """A ResultStore that writes one run below `runs_folder`. Not thread-safe.

    The constructor creates or reopens the folder, takes its lock, and cuts torn last lines (with an event in
    events.jsonl). Every write returns when its line survives a crash of the process; fsync follows in the background.
    Checksums of the files are recorded at the start and the end, and after every 1,000 results (checksums.py).
    Raises StorageError when another process writes this run or a line cannot be written; acknowledged lines stay
    readable.

    `segments` is the folder or URL to which full parts of a new run's files are moved (segment_writer.py);
    `segment_rules` says when a part is full. An existing run keeps its own folder or URL.
    """

    def __init__(
        self,
        runs_folder: Path,
        run_id: str,
        *,
        clock: Clock,
        fsync: Callable[[int], None] = sync,
        segments: str | None = None,
        segment_rules: "SegmentRules | None" = None,
    ) -> None:
        self._run_id = run_id
        self._clock = clock
        self._folder = runs_folder / run_id
        self._blobs = BlobFolder(self._folder / "blobs")
        self._disk_error: OSError | None = None
        self._record_crc32: str | None = None
        with self._open_errors(runs_folder):
            make_run_folder(self._folder)
            self._lock = RunLock(self._folder)
            self._files, self._segments = _open_files(self._folder, self._lock, segments, segment_rules)
            self._folder_descriptors = [os.open(folder, os.O_RDONLY) for folder in (self._folder, runs_folder)]
        self._events, self._cases, self._answers, self._results = self._files
        self._flusher = Flusher(fsync=fsync)
        for descriptor in self._folder_descriptors:
            self._flusher.mark_dirty(descriptor)
        self._known_cases = DigestSet()
        self._remember_cases()
        if self._segments is not None:
            for file in self._files[1:]:  # events.jsonl has no segments
                self._segments.resume_moving(file)
        for file in self._files:
            if file.torn_bytes:
                self.note("torn_line_cut", {"file": file.current_path.name, "bytes": file.torn_bytes})

    @property
    def run_id(self) -> str:
        """The id of the run that is written."""
        return self._run_id

    @property
    def folder(self) -> str:
        """The path of the run's folder."""
        return str(self._folder)

    def report_to(self, report: Callable[[str], None]) -> None:
        """Call `report` with a message when the end of the run has to wait for the place of its segments."""
        if self._segments is not None:
            self._segments.report_to(report)

    def begin(self, run: RunRecord) -> None:
        """Write run.json unless it exists, and record the process that runs it now."""
        path = self._folder / RUN_FILE
        host, checksums = socket.gethostname(), self._checksums()
        if not path.exists():
            data = pretty(encodable_run(run))
            with self._write_errors(f"write {RUN_FILE}"):
                write_by_rename(path, data)
            if self._segments is not None:
                try:
                    self._segments.copy_run_file()
                except BaseException:
                    path.unlink()  # a folder with run.json counts as a run, and this one cannot store segments
                    raise
            checksums = {**checksums, RUN_FILE: {"crc32": record_crc32(decode(data))}}
        self._record_crc32 = self._present_record_crc32()
        versions: JsonObject = {"agentv": run.agentv_version, "python": platform.python_version()}
        self.note("started", {"pid": os.getpid(), "host": host, "versions": versions, "checksums": checksums})

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Write one event of the run."""
        event = EventRecord(type_, self._clock(), fields, self._events.next_seq)
        self._write(self._events, encodable_event(event))

    def append_case(self, case: CaseRecord) -> None:
        """Write a planned case and its binary attachments; ignore a case that is already written."""
        if self._known_cases.add(case_line_key(case.suite, case.eval_id, case.case_key)):
            if case.files or case.expected_messages:
                for part in files_of((*case.input_messages, *case.expected_messages)):
                    if part.text is None:
                        self._save_attachment(part)
            self._write(self._cases, encodable_case(case))

    def append_encoded_case(self, line: bytes) -> None:
        """Write the line of a case whose attachments are already stored; ignore a case that is already written."""
        if len(line) > BLOB_LIMIT or b"$" in line:  # a part of it may become a blob
            self.append_case(CASES.of_line(line))
            return
        case = _decode_case(line)
        if self._known_cases.add(case_line_key(case.suite, case.eval_id, case.case_key)):
            self._write(self._cases, case, encoded=line)

    def append_answer(self, answer: Answer, *, run_id: str | None = None) -> Answer:
        """Write an answer and return it with its `seq`. `run_id` is given for an answer taken from another run."""
        answer = numbered(answer, seq=self._answers.next_seq, run_id=run_id or self._run_id)
        self._write(self._answers, encodable_answer(answer))
        return answer

    def append(self, result: CaseResult) -> CaseResult:
        """Write a result and return it with its `seq`.

        Trace and messages are omitted when the result's answer has them (`answer_ref`).
        """
        result = numbered(result, seq=self._results.next_seq, run_id=result.run_id)
        self._write(self._results, encodable_result(result, with_trace=result.answer_ref is None))
        if self._results.next_seq % RESULTS_PER_CHECKSUM == 0:
            self.note("checksums", {"checksums": self._checksums()})
        return result

    @property
    def segments_place(self) -> str | None:
        """The folder of the run's segments, an absolute path or a URL; None for a run without segments."""
        return None if self._segments is None else self._segments.place

    async def list_segment(self, uploaded: UploadedSegment) -> int | None:
        """List a segment that a node uploaded; return the number of its first line, None if it cannot be listed yet.

        The lines that this process wrote are moved first, because the local parts of a file come after its segments.
        """
        segments, file = self._segments, next(each for each in self._files if each.path.name == uploaded.file)
        if segments is None:
            raise StorageError(f"{self._folder} has no segments.jsonl")
        while not segments.has_moved(file):
            with self._write_errors(f"write {uploaded.file}"):
                moving = segments.move(file)
            await asyncio.wrap_future(moving)
            if segments.error is not None:
                return None
        first = file.next_seq
        with self._write_errors("list a segment"):
            segments.list_uploaded(file, uploaded)
        is_checksum_due = first // RESULTS_PER_CHECKSUM < file.next_seq // RESULTS_PER_CHECKSUM
        if file is self._results and is_checksum_due:
            self.note("checksums", {"checksums": self._checksums()})
        return first

    def lost_files(self) -> tuple[str, ...]:
        """Return what is missing of the files that this process wrote: files that were removed, replaced or cut."""
        if not self._folder.is_dir():
            return (f"its folder {self._folder} cannot be found",)
        found = [file.why_lost() for file in self._files]
        if self._segments is not None:
            found += self._segments.why_lost(self._files[1:])
        if self._record_crc32 is not None and self._record_crc32 != self._present_record_crc32():
            found.append(f"{RUN_FILE} was removed or changed")
        if lost := self._blobs.count_lost():
            found.append(f"{lost:,} {'file' if lost == 1 else 'files'} of blobs/ cannot be found")
        return tuple(each for each in found if each is not None)

    def _present_record_crc32(self) -> str:
        """Return the checksum of run.json as it is now; "" if it cannot be read."""
        try:
            return record_crc32(decode((self._folder / RUN_FILE).read_bytes()))
        except (OSError, ValueError, RecursionError):
            return ""

    def close(self, state: str) -> None:
        """Write the end of the run, sync all files, and release the lock.

        After an earlier disk failure, which was raised when it happened, the last event may be missing.
        """
        has_failed = self._disk_error is not None
        try:
            # A full disk may still have space for this one line, without which the run counts as interrupted.
            with suppress(StorageError) if has_failed else nullcontext():
                self.note("ended", {"state": state, "checksums": self._checksums()})
        finally:
            self._release()
        if self._flusher.error is not None and not has_failed:
            raise self._storage_error(self._flusher.error, "sync the last results to the disk")
        if self._segments is not None and self._segments.error is not None and not has_failed:
            raise self._segments.error

    def _checksums(self) -> JsonObject:
        return {file.path.name: file.checksum for file in self._files}

    def _release(self) -> None:
        """Sync and close all files, move the last segments, and release the lock."""
        self._flusher.close()
        if self._segments is not None:
            with suppress(OSError):  # the disk is full: the last parts stay in the folder
                self._segments.close(self._files[1:])
        for file in self._files:
            file.close()
        for descriptor in self._folder_descriptors:
            os.close(descriptor)
        self._lock.release()

    def _remember_cases(self) -> None:
        for number, line in enumerate(whole_lines(self._cases.path), start=1):
            try:
                case = _decode_case(line)
                self._known_cases.add(case_line_key(case.suite, case.eval_id, case.case_key))
            except (ValueError, RecursionError) as error:
                self._release()
                raise StorageError(f"{self._cases.path}:{number}: {reason(error)}") from error

    def _write(self, file: LineFile, record: dict[str, JsonValue] | Struct, *, encoded: bytes | None = None) -> None:
        """Write a record as a line; `encoded` is that line, if it is known."""
        line = encode(record) if encoded is None else encoded
        try:
            # Searching for one byte is faster than for the key `$blob`, and few lines have a dollar sign.
            if len(line) > BLOB_LIMIT or (b"$" in line and may_have_blobs(line)):
                line = encoded = b""  # a long line is not kept while its parts are stored
                line = encode(self._blobs.extract(to_encodable(record)))
            if self._flusher.error is not None:
                raise self._flusher.error
            file.append(line)
            if file.descriptor not in self._flusher.dirty:
                self._flusher.mark_dirty(file.descriptor)
            if self._segments is not None and file is not self._events:
                self._segments.rotate_if_full(file)
        except OSError as error:
            raise self._storage_error(error, f"write {file.path.name}") from error

    def _save_attachment(self, part: FilePart) -> None:
        """Store a binary attachment; skip a missing file, because the target that needs it reports the error."""
        data = b""
        with suppress(OSError):
            data = Path(part.real_path).read_bytes()
        if data:
            with self._write_errors(f"store the attachment {part.path}"):
                self._blobs.save(data, part.media_type)

    @contextmanager
    def _open_errors(self, runs_folder: Path) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            name = Path(str(error.filename or "")).name
            place = f"{name}: " if name in (*LINE_FILES, LOCK_NAME) else ""
            raise StorageError(
                f"cannot open a run in {runs_folder}: {place}{error.strerror or error}. Runs are stored in the nearest "
                ".agentv folder; make it writable, or create one in your working directory: mkdir .agentv"
            ) from error

    @contextmanager
    def _write_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            raise self._storage_error(error, action) from error

    def _storage_error(self, error: OSError, action: str) -> StorageError:
        self._disk_error = error
        return StorageError(
            f"cannot {action} in {self._folder}: {error.strerror or error}. "
            "Every reported result is saved and readable; free space or repair the disk, "
            "then continue with: agentv resume"
        )


def _open_files(
    folder: Path, lock: RunLock, segments: str | None, rules: "SegmentRules | None"
) -> "tuple[list[LineFile], SegmentWriter | None]":
    has_segments = (folder / SEGMENTS_FILE).exists()
    try:
        if segments is None and not has_segments:
            return [append_to(folder / name) for name in LINE_FILES], None
        from agentv.storage.files.segment_writer import SegmentWriter, set_segments_folder  # noqa: PLC0415 - few runs

        if segments is not None and not has_segments:
            set_segments_folder(folder, segments)
        files = [append_to(folder / name) for name in LINE_FILES]
        writer = SegmentWriter(folder, rules=rules)
        if has_segments:
            writer.refuse_unlisted(files[1:])
    except (OSError, StorageError):
        lock.release()
        raise
    return files, writer


def make_run_folder(folder: Path) -> None:
    """Create the folder of a run with mode 0700, and a `.gitignore` in the `.agentv` folder if that has none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    home = folder.parent.parent
    ignore = home / ".gitignore"
    if home.name == HOME_NAME and not ignore.exists():
        ignore.write_text(_GITIGNORE, encoding="utf-8")


def record_crc32(run: JsonObject) -> str:
    """Return the CRC-32 of run.json as compact JSON with sorted keys, without its tags, which may change."""
    untagged = {key: value for key, value in run.items() if key != "tags"}
    return f"{crc32(msgspec.json.encode(untagged, order='sorted')):08x}"


def append_event(folder: Path, type_: str, fields: Mapping[str, JsonValue], *, clock: Clock) -> bool:
    """Append an event to a run that has ended. Raises StorageError when it cannot be written.

    Return False, and write nothing, if a process writes the run or died while writing it. Taking the lock would
    overwrite the entry of a dead process, which is needed to find the processes and folders that it left behind.
    """
    if read_holder(folder) is not None:
        return False
    try:
        lock = RunLock(folder)
        try:
            file = LineFile(folder / "events.jsonl")
            try:
                file.append(encode(encodable_event(EventRecord(type_, clock(), fields, file.next_seq))))
                os.fsync(file.descriptor)
            finally:
                file.close()
        finally:
            lock.release()
    except StorageError:  # another process has begun to write the run
        return False
    except OSError as error:
        raise StorageError(f"cannot write {folder / 'events.jsonl'}: {error.strerror or error}") from error
    return True
