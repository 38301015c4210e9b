"""The lines of logs: of text files and pipes as they arrive, and the rows of tables as lines of JSON."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from msgspec.structs import replace

from agentv.engine.stored.drawn_lines import DrawnLines
from agentv.execution.processes.line_stream import Line, LineStream, LostLine, ReadLine
from agentv.loading.datasets.log_rows import is_table, log_rows
from agentv.loading.datasets.rows import Row
from agentv.loading.suites.recorded import MAX_LINE_BYTES
from agentv.scoring.counting.sampling import Sample
from agentv.storage.records.json_line import decode_value
from agentv.types.errors import EvalFileError
from agentv.types.log_shapes.otel import is_otlp, spans_of
from agentv.types.messages_json import compact_json

_ROWS = 64


def lines_of(files: Sequence[str], sample: Sample) -> DrawnLines:
    """Return the sampled lines of some files, for workers to pull."""
    return DrawnLines(LogStream(files, max_bytes=MAX_LINE_BYTES), sample)


class LogStream:
    """The lines of several files in order, as LineStream reads them; a table or Parquet file has a line for each row.

    Raises MissingExtraError for a Parquet file without its package.
    """

    def __init__(self, files: Sequence[str], *, max_bytes: int) -> None:
        self._files = files
        self._max_bytes = max_bytes
        self._open: LineStream | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the stream at its current position, also while the next line is awaited."""
        self._is_stopped = True
        if self._open is not None:
            self._open.stop()

    async def batches(self) -> AsyncGenerator[list[ReadLine], None]:
        """Yield the lines that have arrived, or the next rows of a table; the parts of one line are numbered."""
        previous: ReadLine | None = None
        async for batch in self._read():
            for place, line in enumerate(batch):
                if previous is not None and (previous.file, previous.number) == (line.file, line.number):
                    batch[place] = replace(line, part=previous.part + 1)
                previous = batch[place]
            yield batch

    async def _read(self) -> AsyncGenerator[list[ReadLine], None]:
        for file in takewhile(lambda _: not self._is_stopped, self._files):
            if is_table(Path(file)):
                for batch in takewhile(lambda _: not self._is_stopped, _batched(file)):
                    await asyncio.sleep(0)
                    yield batch
                continue
            self._open = LineStream([file], max_bytes=self._max_bytes)
            async for lines in self._open.batches():
                yield [each for line in lines for each in _spans(line)]


def _spans(line: ReadLine) -> Iterator[ReadLine]:
    """Yield the spans of an OTLP export as lines of their own, or the export as lost if it has wrong parts.

    Any other line is yielded as it is.
    """
    if isinstance(line, Line) and (b'"resourceSpans"' in line.data or b'"resource_spans"' in line.data):
        with suppress(ValueError):  # a line that is not valid JSON is reported when it is read
            export = decode_value(line.data)
            if is_otlp(export):
                try:
                    yield from (replace(line, data=compact_json(span).encode()) for span in spans_of(export))
                except EvalFileError as error:
                    yield LostLine(
                        line.file, line.number, "; ".join(f"{p.json_path} {p.message}" for p in error.problems)
                    )
                return
    yield line


def _batched(file: str) -> Iterator[list[ReadLine]]:
    batch: list[ReadLine] = []
    try:
        for row in log_rows(Path(file)):
            batch.append(_line(file, row))
            if len(batch) == _ROWS:
                yield batch
                batch = []
    except EvalFileError as error:
        batch += [LostLine(file, each.line or 1, each.message) for each in error.problems]
    yield batch


def _line(file: str, row: Row) -> ReadLine:
    if row.problems:
        return LostLine(file, row.line, "; ".join(each.message for each in row.problems))
    return Line(file, row.line, compact_json(row.values).encode())
