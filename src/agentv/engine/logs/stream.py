"""The lines of text files and pipes, and the rows of tables as JSON lines: read, sampled and checked for changes."""

import asyncio
import heapq
import stat
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from hashlib import blake2b
from itertools import islice, takewhile
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.logs.files import LogFiles
from agentv.engine.logs.trace_lines import TraceLines
from agentv.engine.logs.transcript_lines import TranscriptLines
from agentv.execution.processes.line_stream import STDIN, Line, LineStream, LostLine, ReadLine
from agentv.loading.datasets.log_rows import is_table, log_rows
from agentv.loading.datasets.rows import Row
from agentv.loading.datasets.transcripts import find_program
from agentv.loading.suites.recorded import MAX_LINE_BYTES
from agentv.scoring.counting.sampling import Sample
from agentv.scoring.keys.identity import DigestMap
from agentv.storage.records.json_line import decode_value
from agentv.telemetry.joining.joining import JoinOptions
from agentv.telemetry.otlp.binary import BINARY_SUFFIXES, is_framed, looks_binary
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.input_notes import InputNote
from agentv.types.messages_json import compact_json
from agentv.types.records.answer import source_of


class LineBatches(Protocol):
    """Lines that arrive in batches."""

    def batches(self) -> AsyncGenerator[list[ReadLine], None]:
        """Yield the lines that have arrived."""

    def stop(self) -> None:
        """End the stream at its current position."""


class SampledLines:
    """Reads a stream no further than needed and yields the sampled lines. Blank lines are skipped.

    A line that could not be read is in every sample. `read` counts all lines so far, `keyed` those with the sampling
    key.
    """

    def __init__(
        self, stream: LineBatches, sample: Sample, notes: Callable[[], Iterable[InputNote]] = tuple[InputNote, ...]
    ) -> None:
        self.read = self.keyed = 0
        self.notes = notes
        """Returns what the user should know of the stream."""
        self._stream = stream
        self._sample = sample
        self._batches: AsyncGenerator[list[ReadLine], None] = stream.batches()
        self._sampled: deque[ReadLine] = deque()
        self._turn = asyncio.Lock()
        self._is_over = False
        self._is_stopped = False

    def stop(self) -> None:
        """Return no more lines."""
        self._is_stopped = self._is_over = True
        self._stream.stop()

    async def close(self) -> None:
        """Close the stream."""
        await self._batches.aclose()

    async def next(self) -> ReadLine | None:
        """Wait for the next sampled line and return it; None at the end."""
        if not self._sampled and not self._is_over:
            async with self._turn:
                await self._refill()
        return self._sampled.popleft() if self._sampled and not self._is_stopped else None

    async def _refill(self) -> None:
        if self._sample.count is not None and not self._sampled:
            await self._draw_count(self._sample.count)
            return
        while not self._sampled and not self._is_over:
            self._sampled.extend(await self._batch())

    async def _batch(self) -> list[ReadLine]:
        """Read the next lines and return the sampled ones, or all of them if the sample is a number of lines."""
        batch = await anext(self._batches, None)
        if batch is None:
            self._is_over = True
            return []
        lines = [line for line in batch if not _is_blank(line)]
        self.read += len(lines)
        if self._sample.is_all or self._sample.count is not None:
            return lines
        return [line for line in lines if self._sample.includes(self._hash_of(line))]

    def _hash_of(self, line: ReadLine) -> int:
        return self._sample.hash_of(self._key(line)) if line.data else 0

    def _key(self, line: ReadLine) -> bytes:
        """Return the value by which a line is sampled: its sampling key, or the whole line if it has none."""
        key = None
        if self._sample.by:
            try:
                key = self._sample.key_of(decode_value(line.data))
            except ValueError:  # reported when the line is scored
                key = None
        if key is None:
            return line.data.strip()
        self.keyed += 1
        return key

    def missing_key(self) -> str | None:
        """Return the path of the sampling key if no line had it; each line was then sampled independently."""
        is_sampled_by_key = bool(self._sample.by) and not self._sample.is_all
        return ".".join(self._sample.by) if is_sampled_by_key and self.read and not self.keyed else None

    async def _draw_count(self, count: int) -> None:
        """Read the whole stream and sample the `count` lines with the smallest hashes, in stream order."""
        smallest: list[tuple[int, int, ReadLine]] = []  # a heap of (-hash, -position in the stream, line)
        position = 0
        while not self._is_over:
            for line in await self._batch():
                position += 1
                entry = (-self._hash_of(line), -position, line)
                if len(smallest) < count:
                    heapq.heappush(smallest, entry)
                else:
                    heapq.heappushpop(smallest, entry)
        self._sampled.extend(line for _, _, line in sorted(smallest, key=lambda entry: -entry[1]))


def _is_blank(line: ReadLine) -> bool:
    return isinstance(line, Line) and not line.data.strip()


_HEAD_BYTES = 64
_ADVICE = "restore the file, or score its present content as a new run with agentv score"
_ROWS_PER_BATCH = 64


def sampled_lines(
    files: LogFiles, sample: Sample, since: datetime | None = None, joining: JoinOptions | None = None
) -> SampledLines:
    """Return the sampled lines of some files, for workers to pull.

    Of transcripts, only answers `since` a time are lines; spans are joined into answers first.
    """
    stream = LogStream(files.paths, max_bytes=MAX_LINE_BYTES, since=since, joining=joining, file_notes=files.notes)
    return SampledLines(stream, sample, stream.notes)


class LogStream:
    """The lines of several files in order, as LineStream reads them; a table or Parquet file has a line for each row.

    A transcript of a coding agent has a line for each answer, without those that ended before `since`. A folder stands
    for the transcripts in it. Raises MissingExtraError for a Parquet file without its package.
    """

    def __init__(
        self,
        files: Sequence[str],
        *,
        max_bytes: int,
        since: datetime | None = None,
        joining: JoinOptions | None = None,
        file_notes: Sequence[InputNote] = (),
    ) -> None:
        self._files = files
        self._file_notes = file_notes
        self._max_bytes = max_bytes
        self._transcripts = TranscriptLines(since)
        is_endless = not all(_is_regular(file) or _is_folder(file) for file in files)
        self._traces = TraceLines(replace(joining or JoinOptions(), is_endless=is_endless), files)
        self._current: LineStream | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the stream at its current position, even while a line is awaited."""
        self._is_stopped = True
        if self._current is not None:
            self._current.stop()

    async def batches(self) -> AsyncGenerator[list[ReadLine], None]:
        """Yield the lines that have arrived, or the next rows of a table; the parts of one line are numbered."""
        previous: ReadLine | None = None
        async for batch in self._read():
            for index, line in enumerate(batch):
                if line.part > 1 or line.span_id:  # numbered already
                    continue
                if previous is not None and (previous.file, previous.number) == (line.file, line.number):
                    batch[index] = replace(line, part=previous.part + 1)
                previous = batch[index]
            yield batch

    def notes(self) -> Iterator[InputNote]:
        """Yield what in the files was not read as an answer, and what is not certain of traces."""
        yield from self._file_notes
        yield from self._transcripts.notes()
        yield from self._traces.notes()

    @property
    def counts(self) -> tuple[int, int]:
        """The number of spans and of traces."""
        return self._traces.counts

    async def _read(self) -> AsyncGenerator[list[ReadLine], None]:
        try:
            for file in takewhile(lambda _: not self._is_stopped, self._all_files()):
                async for lines in self._read_file(file):
                    kept = [kept for line in lines if (kept := self._traces.take(line)) is not None]
                    yield [*kept, *self._traces.ready()]
            rest = self._traces.rest()
            while not self._is_stopped and (lines := list(islice(rest, _ROWS_PER_BATCH))):
                yield lines
                await asyncio.sleep(0)
        finally:
            self._traces.close()

    async def _read_file(self, file: str) -> AsyncGenerator[list[ReadLine], None]:
        batches = self._batches_of(file)
        if batches is not None:
            for batch in takewhile(lambda _: not self._is_stopped, batches):
                await asyncio.sleep(0)
                yield batch
            return
        head = await _head(file)
        if looks_binary(head) or (file.endswith(BINARY_SUFFIXES) and not is_framed(head)):
            yield await self._read_binary(file)
            return
        self._current = LineStream([file], max_bytes=self._max_bytes)
        async for lines in self._current.batches():
            yield lines

    async def _read_binary(self, file: str) -> list[ReadLine]:
        try:
            data = await _whole(file)
        except OSError as error:
            return [LostLine(file, 1, f"cannot be read: {error.strerror or error}")]
        if data is None:
            return [LostLine(file, 1, f"the file has more than {MAX_LINE_BYTES // 2**20} MiB")]
        lost = self._traces.take_binary(data, file, 1)
        return [] if lost is None else [lost]

    def _all_files(self) -> Iterator[str]:
        for file in self._files:
            if file != STDIN and Path(file).is_dir():
                yield from map(str, self._transcripts.files_of(Path(file)))
            else:
                yield file

    def _batches_of(self, file: str) -> Iterator[list[ReadLine]] | None:
        """Return the lines of a table or a transcript; None for a file that is read line by line."""
        if file == STDIN:
            return None
        if is_table(Path(file)):
            return _table_batches(file)
        program = find_program(Path(file))
        return None if program is None else self._transcripts.batches(file, program)


async def _head(file: str) -> bytes:
    """Return the first bytes of a regular file, decompressed; b"" for any other file, which cannot be read twice."""
    if not _is_regular(file):
        return b""
    head = b""
    with suppress(OSError):
        async with aclosing(LineStream([file], max_bytes=MAX_LINE_BYTES).blocks(file)) as blocks:
            async for block in blocks:
                head += block
                if len(head) >= _HEAD_BYTES:
                    break
    return head


async def _whole(file: str) -> bytes | None:
    """Return the content of a file, decompressed; None if it is too large."""
    parts, size = [], 0
    async with aclosing(LineStream([file], max_bytes=MAX_LINE_BYTES).blocks(file)) as blocks:
        async for block in blocks:
            parts.append(block)
            size += len(block)
            if size > MAX_LINE_BYTES:
                return None
    return b"".join(parts)


def _table_batches(file: str) -> Iterator[list[ReadLine]]:
    batch: list[ReadLine] = []
    try:
        for row in log_rows(Path(file)):
            batch.append(_line(file, row))
            if len(batch) == _ROWS_PER_BATCH:
                yield batch
                batch = []
    except EvalFileError as error:
        batch += [LostLine(file, problem.line or 1, problem.message) for problem in error.problems]
    yield batch


def _line(file: str, row: Row) -> ReadLine:
    if row.problems:
        return LostLine(file, row.line, "; ".join(problem.message for problem in row.problems))
    return Line(file, row.line, compact_json(row.values).encode())


_DIGEST_BYTES = 8


def content_digest(line: ReadLine) -> str:
    """Return the digest of a line's content, 16 hexadecimal digits; empty for one without final content."""
    if not isinstance(line, Line) or line.is_open:
        return ""
    return blake2b(line.data, digest_size=_DIGEST_BYTES).hexdigest()


class ScoredLines(Struct):
    """The digests of the lines that a run has scored, by source, and the number of the last such line of each file."""

    run_id: str
    lines: int = 0
    _digests: DigestMap = field(default_factory=DigestMap)
    _last: dict[str, int] = field(default_factory=dict)

    def add(self, file: str, number: int, part: int, digest: str) -> None:
        """Add the line of a row or an answer. A line without a digest is not compared."""
        self.lines += 1
        if digest:
            self._digests.put(source_of(file, number, part), int(digest, 16))
            self._last[file] = max(number, self._last.get(file, 0))

    @property
    def has_digests(self) -> bool:
        """True if the lines have digests, which a run of an older version lacks."""
        return bool(self._last) or not self.lines

    async def refuse_changes(self, files: Sequence[str], joining: JoinOptions | None = None) -> None:
        """Raise ConfigError for the first scored line that is no longer in its file, or whose content differs.

        All of `files`, those that were named, are read together, because a trace may be in several.
        """
        scored = [file for file in self._last if file != STDIN]
        for file in scored:
            _check_regular(file)
        last: dict[str, int] = {}
        named = [file for file in files if file != STDIN]
        async for batch in LogStream(named, max_bytes=MAX_LINE_BYTES, joining=joining).batches():
            for line in batch:
                last[line.file] = max(line.number, last.get(line.file, 0))
                self._compare(line)
        for file in scored:
            if last.get(file, 0) < self._last[file]:
                number = self._last[file]
                raise ConfigError(f"{file}: no longer has line {number}, which run {self.run_id} has scored; {_ADVICE}")

    def _compare(self, line: ReadLine) -> None:
        source = source_of(line.file, line.number, line.part)
        scored, digest = self._digests.get(source), content_digest(line)
        if scored is not None and (not digest or int(digest, 16) != scored):
            raise ConfigError(f"{source}: has changed since run {self.run_id} scored it; {_ADVICE}")


def _check_regular(file: str) -> None:
    """Raise ConfigError for a scored file that is gone, or cannot be read again."""
    if not Path(file).exists():
        raise ConfigError(f"{file}: no such file; {_ADVICE}")
    if not _is_regular(file):
        raise ConfigError(f"{file}: not a regular file, so it cannot be read again; {_ADVICE}")


def _is_regular(file: str) -> bool:
    return file != STDIN and stat.S_ISREG(Path(file).stat().st_mode)


def _is_folder(file: str) -> bool:
    return file != STDIN and Path(file).is_dir()
