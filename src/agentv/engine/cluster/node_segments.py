"""The answers and results of a node, gathered on its disk and stored as segments of the run.

A spool is the pair of files on the disk that becomes the next segments. The node uploads a segment, then the driver
lists it in `segments.jsonl`. Answers are uploaded and listed first: a result names the number of its answer's line,
which is known only when the answer is listed. A row counts when its result is listed; unlisted rows of a lost node are
run again.
"""

import asyncio
import secrets
import shutil
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.cluster.lines import EndedRow, Line, NotStored, SegmentLine, StoredLine
from agentv.execution.processes.left_behind import temporary_folder
from agentv.execution.processes.tree import WATCHER
from agentv.execution.user_code import described
from agentv.storage.files.object_store import joined, open_stored, put, remove
from agentv.storage.files.segment_writer import RUN_FILE, SEGMENT_BYTES, SEGMENT_S
from agentv.storage.files.segments import node_segment_name
from agentv.storage.records.encode import encodable_answer, encodable_result
from agentv.storage.records.json_line import encode
from agentv.types.errors import AgentvError, ConfigError, StorageError
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.segment import UploadedSegment

MAX_UNLISTED = 5_000
"""The maximum number of finished rows of one node that are not listed; then it gets no more rows."""
_ROOT = Path("/")
_ANSWERS, _RESULTS = "answers.jsonl", "results.jsonl"


class _NotListedError(Exception):
    """A segment could not be uploaded or listed, and the driver waits for its rows."""


class _Slot(Struct, frozen=True):
    slot: ResultKey


_decode_slot = msgspec.json.Decoder(_Slot).decode


def line_key(line: bytes) -> ResultKey:
    """Return the result key of the line of an answer or a result."""
    return _decode_slot(line).slot


class SpoolRules(Struct, frozen=True):
    """When a node stores its spool: at a size, at a number of rows, or after a wait.

    The wait grows with the time that the node has run: short runs are soon visible, and long ones have few segments.
    """

    max_bytes: int = SEGMENT_BYTES
    max_rows: int = MAX_UNLISTED // 2
    min_wait_s: float = 2.0
    """The shortest wait."""
    max_wait_s: float = SEGMENT_S
    """The longest wait."""
    wait_share: float = 0.1
    """The wait, as a share of the time that the node has run."""
    retry_s: float = 5.0
    """The time after which a failed upload is repeated."""


class SpooledResult(Struct, frozen=True, kw_only=True, gc=False):
    """A result in the spool."""

    row: ResultKey
    size: int
    """The size of its line."""
    answer: int | None
    """The number of its answer on this node."""
    driver_line: bytes
    """Its line for the driver."""
    is_stored_by_driver: bool
    """True if the driver stores the result itself, because parts of it become blobs."""


class Spool(Struct, kw_only=True):
    """Answers and results that are stored together."""

    number: int
    first_answer: int
    """The number of the first answer, among all on this node."""
    answers: BinaryIO
    results: BinaryIO
    begun_at: float | None = None
    """The time of the first line."""
    answer_count: int = 0
    answers_crc: int = 0
    entries: list[SpooledResult] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The size of both files in bytes."""
        return self.answers.tell() + self.results.tell()

    def close(self) -> None:
        """Close and remove the files."""
        for file in (self.answers, self.results):
            file.close()
            Path(file.name).unlink(missing_ok=True)


def local_seq(number: int) -> int:
    """Return the `seq` that answer `number` of a node has until it is listed."""
    return -1 - number


def slim_answer(answer: Answer) -> bytes:
    """Return an answer without its large parts."""
    small = replace(
        answer,
        text="",
        reasoning=None,
        output_messages=None,
        trace=None,
        request=None,
        partial=None,
        calls=(),
        turns=(),
    )
    return encode(encodable_answer(replace(small, workspace=None, given=None)))


def slim_line(result: CaseResult, *, whole: bool) -> bytes:
    """Return the line of a result; unless `whole`, without parts that the driver does not count or show."""
    if whole:
        return encode(encodable_result(result))
    small = replace(
        result,
        candidate_answer="",
        answer_key="",
        score_keys={},
        raw_aspects=None,
        trace=None,
        trace_summary=None,
        output_messages=None,
        partial=None,
        agent_provider_request=None,
        lm_provider_request=None,
        evaluator_results=tuple(map(_slim_evaluator, result.evaluator_results)),
    )
    return encode(encodable_result(small))


def _slim_evaluator(result: EvaluatorResult) -> EvaluatorResult:
    if not result.judge_calls and not result.evaluator_results:
        return result
    return replace(
        result,
        raw_aspects=None,
        evaluator_provider_request=None,
        judge_calls=tuple(replace(call, reply="") for call in result.judge_calls),
        evaluator_results=tuple(map(_slim_evaluator, result.evaluator_results)),
    )


def check_segment_storage(url: str) -> None:
    """Raise ConfigError unless this machine can read and add segments of the run at `url`.

    The driver has written run.json there, so a folder of the same name on another disk is noticed.
    """
    folder = temporary_folder("check")
    probe = folder / "probe"
    name = node_segment_name(_RESULTS, f"{secrets.token_hex(4)}check", 0)
    try:
        open_stored(joined(url, RUN_FILE), base=_ROOT)[0].close()
        probe.touch()
        put(probe, joined(url, name), base=_ROOT)
        with suppress(StorageError):  # credentials that may not delete: the probe stays until the run is deleted
            remove(joined(url, name), base=_ROOT)
    except (AgentvError, OSError) as error:
        raise ConfigError(
            f"cannot store segments: {error}. Nodes write segments themselves: --segments must be the URL of a "
            "store that all nodes reach with their own credentials, or a folder that all machines share under one path"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class NodeSegments:
    """Stores the rows of a node at `url`. Lines for the driver are passed to `send`; the driver answers with `listed`.

    `now` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        send: Callable[[Line], None],
        note: Callable[[str], None],
        now: Callable[[], float],
        sends_whole_rows: bool = False,
        rules: SpoolRules = SpoolRules(),  # noqa: B008 - frozen
    ) -> None:
        self._url = url
        self._send = send
        self._note = note
        self._now = now
        self._sends_whole_rows = sends_whole_rows
        self._rules = rules
        self._epoch = secrets.token_hex(4)  # in the names of this process's segments, so that they are unique
        WATCHER.start()  # removes the folder if this process is killed
        self._folder = temporary_folder("segments")
        self._started_at = now()
        self._upload_count = self._answer_count = self._spool_count = 0
        self._spool = self._open_spool()
        # For each listed segment of answers: the number of its first answer on this node, and in the run's file.
        self._first_answers: list[int] = []
        self._first_lines: list[int] = []
        # Answers that were sent to the driver, which stores them: the `seq` by number on this node, the count by row.
        self._sent_seqs: dict[int, int] = {}
        self._sent_counts: Counter[ResultKey] = Counter()
        self._listings: dict[str, asyncio.Future[int | None]] = {}
        self._is_due = asyncio.Event()
        self._driver_waits = asyncio.Event()
        self._is_ending = False
        self._work = asyncio.create_task(self._store_when_due())

    def _open_spool(self) -> Spool:
        number = self._spool_count = self._spool_count + 1
        answers, results = ((self._folder / f"{number}-{name}").open("w+b") for name in (_ANSWERS, _RESULTS))
        return Spool(number=number, first_answer=self._answer_count, answers=answers, results=results)

    def answer(self, line: bytes) -> int:
        """Add the line of an answer, and return its provisional `seq`. Raises StorageError."""
        spool = self._spool
        self._write(spool.answers, line)
        spool.answers_crc = crc32(b"\n", crc32(line, spool.answers_crc))
        spool.answer_count += 1
        number = self._answer_count
        self._answer_count += 1
        self._schedule()
        return local_seq(number)

    def result(
        self, row: ResultKey, result: CaseResult, line: bytes, *, is_stored_by_driver: bool, is_urgent: bool
    ) -> None:
        """Add a result and its line. Raises StorageError.

        A result that is stored by the driver is sent there once its answer is listed. An urgent result may stop the
        run, so the spool is stored at once.
        """
        seq = result.answer_seq
        number = None if seq is None or seq >= 0 else -1 - seq  # the inverse of `local_seq`
        driver_line = b"" if is_stored_by_driver else slim_line(result, whole=self._sends_whole_rows)
        self._write(self._spool.results, line)
        self._spool.entries.append(
            SpooledResult(
                row=row,
                size=len(line) + 1,
                answer=number,
                driver_line=driver_line,
                is_stored_by_driver=is_stored_by_driver,
            )
        )
        self._send(EndedRow(row, result.error if result.status == "error" else None))
        self._schedule()
        if is_urgent or len(self._spool.entries) >= self._rules.max_rows:
            self._is_due.set()

    def _write(self, file: BinaryIO, line: bytes) -> None:
        try:
            file.write(line + b"\n")
        except OSError as error:
            raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write to {self._folder}: {error.strerror or error}; free space there")

    def _schedule(self) -> None:
        if self._spool.begun_at is None:
            self._spool.begun_at = self._now()
            age_s = self._spool.begun_at - self._started_at
            wait_s = min(max(self._rules.min_wait_s, self._rules.wait_share * age_s), self._rules.max_wait_s)
            asyncio.get_running_loop().call_later(wait_s, self._store_overdue, self._spool.number)
        if self._spool.size >= self._rules.max_bytes:
            self._is_due.set()

    def _store_overdue(self, number: int) -> None:
        """Store a spool that has waited long enough, unless it was stored before."""
        if number == self._spool.number:
            self._is_due.set()

    def flush(self) -> None:
        """Store the spool now, because the driver waits; rows that cannot be stored are sent to the driver."""
        self._driver_waits.set()
        self._is_due.set()

    def listed(self, name: str, first: int | None) -> None:
        """Accept the number of a segment's first line in the run's file, None if the driver could not list it."""
        reply = self._listings.get(name)
        if reply is not None and not reply.done():
            reply.set_result(first)

    async def finish(self) -> None:
        """Store the spool, and end; rows that cannot be stored are sent to the driver."""
        self._is_ending = True
        self.flush()
        await self._work
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def aclose(self) -> None:
        """Discard the rows that are not stored."""
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _store_when_due(self) -> None:
        try:
            while not self._is_ending or self._spool.begun_at is not None:
                await self._is_due.wait()
                self._is_due.clear()
                if self._spool.begun_at is not None:
                    await self._store_spool()
                if not self._is_ending and not self._is_due.is_set():
                    self._driver_waits.clear()
        except OSError as error:
            self._send(NotStored(str(self._write_error(error))))
        except Exception as error:  # noqa: BLE001 - a bug must reach the driver, which waits for the rows
            self._send(NotStored(f"internal error in agentv, please report it: {described(error)}"))
        finally:
            self._spool.close()

    async def _store_spool(self) -> None:
        """Store the current spool, while a new one gathers further rows. Raises OSError."""
        spool = self._spool
        try:
            self._spool = self._open_spool()
            await self._store(spool)
        finally:
            spool.close()

    async def _store(self, spool: Spool) -> None:
        """Store a spool: its answers first, because results name the lines of their answers. Raises OSError."""
        try:
            if spool.answer_count:
                spool.answers.flush()
                size = spool.answers.tell()
                segment = self._next_segment(_ANSWERS, lines=spool.answer_count, size=size, crc=spool.answers_crc)
                first = await self._publish(segment, Path(spool.answers.name), [])
                self._first_answers.append(spool.first_answer)
                self._first_lines.append(first)
            await self._store_results(spool)
        except _NotListedError:
            self._send_to_driver(spool)

    async def _store_results(self, spool: Spool) -> None:
        path = self._folder / f"{spool.number}-numbered-{_RESULTS}"
        crc, size, driver_lines = await asyncio.to_thread(self._number_results, spool, path)
        entries = [entry for entry in spool.entries if not self._is_stored_by_driver(entry)]
        if entries:
            rows = [self._with_final_number(entry.driver_line, entry.answer) for entry in entries]
            await self._publish(self._next_segment(_RESULTS, lines=len(entries), size=size, crc=crc), path, rows)
        for line in driver_lines:
            self._send(line)
        path.unlink()

    def _number_results(self, spool: Spool, path: Path) -> tuple[int, int, list[Line]]:
        """Write results with the numbers of their answers; return CRC-32 and size, and the lines for the driver."""
        crc = size = 0
        driver_lines: list[Line] = []
        spool.results.seek(0)
        with path.open("wb") as file:
            for entry in spool.entries:
                line = self._with_final_number(spool.results.read(entry.size), entry.answer)
                if self._is_stored_by_driver(entry):
                    driver_lines.append(StoredLine("result", entry.row, line[:-1]))
                else:
                    file.write(line)
                    crc, size = crc32(line, crc), size + len(line)
        return crc, size, driver_lines

    def _is_stored_by_driver(self, entry: SpooledResult) -> bool:
        """Return True if the driver stores a result, for its blobs or because the driver stores its answer."""
        return entry.is_stored_by_driver or entry.answer in self._sent_seqs

    def _with_final_number(self, line: bytes, number: int | None) -> bytes:
        """Return a result's line with the final number of its answer, which is answer `number` of this node."""
        if number is None:
            return line
        if number in self._sent_seqs:
            return _with_answer(line, number, self._sent_seqs[number])
        index = bisect_right(self._first_answers, number) - 1  # of the segment with this answer
        return _with_answer(line, number, self._first_lines[index] + number - self._first_answers[index])

    def _next_segment(self, file: str, *, lines: int, size: int, crc: int) -> UploadedSegment:
        self._upload_count += 1
        name = node_segment_name(file, self._epoch, self._upload_count)
        return UploadedSegment(file=file, name=name, lines=lines, bytes=size, crc32=crc)

    async def _publish(self, segment: UploadedSegment, path: Path, rows: list[bytes]) -> int:
        """Upload a segment and let the driver list it; return the number of its first line.

        `rows` are the results in it, for the driver. A failing upload is repeated. Raises _NotListedError if the upload
        fails while the driver waits, or if the driver cannot list the segment.
        """
        while True:
            try:
                await asyncio.to_thread(put, path, joined(self._url, segment.name), base=_ROOT)
                break
            except (StorageError, ConfigError) as error:
                self._note(f"its segments cannot be stored for now: {error}")
                if self._driver_waits.is_set():
                    raise _NotListedError from error
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._rules.retry_s):
                        await self._driver_waits.wait()
        reply: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._listings[segment.name] = reply
        self._send(SegmentLine(segment, rows))
        try:
            first = await reply
        finally:
            del self._listings[segment.name]
        if first is None:
            raise _NotListedError
        return first

    def _send_to_driver(self, spool: Spool) -> None:
        """Send the driver the lines of a spool that are not listed; it stores them in the run folder.

        Each answer gets a provisional `seq`, counted per row: -1 for the first one sent, -2 for the next, and so on.
        """
        if not self._first_answers or self._first_answers[-1] < spool.first_answer:
            spool.answers.seek(0)
            for number, line in enumerate(spool.answers, start=spool.first_answer):
                row = line_key(line)
                self._sent_counts[row] += 1
                self._sent_seqs[number] = -self._sent_counts[row]
                self._send(StoredLine("answer", row, line[:-1]))
        spool.results.seek(0)
        for entry in spool.entries:
            line = self._with_final_number(spool.results.read(entry.size), entry.answer)
            self._send(StoredLine("result", entry.row, line[:-1]))


def _with_answer(line: bytes, number: int, seq: int) -> bytes:
    """Return a result's line that names line `seq` of the answers instead of answer `number` of this node.

    The first such text is the field itself: in a string before it the quotes would be escaped.
    """
    return line.replace(_answer_ref(local_seq(number)), _answer_ref(seq), 1)


def _answer_ref(seq: int) -> bytes:
    return b'"answer_ref":{"seq":%d}' % seq
