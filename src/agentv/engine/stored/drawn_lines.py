"""The sampled lines of a stream, for workers to pull."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator
from typing import Protocol

from agentv.execution.processes.line_stream import Line, ReadLine
from agentv.scoring.counting.sampling import Sample
from agentv.storage.records.json_line import decode_value


class Lines(Protocol):
    """Lines that arrive in batches."""

    def batches(self) -> AsyncGenerator[list[ReadLine], None]:
        """Yield the lines that have arrived."""

    def stop(self) -> None:
        """End the stream at its current position."""


class DrawnLines:
    """Reads a stream no further than needed and yields the sampled lines. Blank lines are skipped.

    A line that could not be read is in every sample. `read` counts the lines so far, `keyed` those of them that have
    the sampling key.
    """

    def __init__(self, stream: Lines, sample: Sample) -> None:
        self.read = self.keyed = 0
        self._stream = stream
        self._sample = sample
        self._batches: AsyncGenerator[list[ReadLine], None] = stream.batches()
        self._drawn: deque[ReadLine] = deque()
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
        if not self._drawn and not self._is_over:
            async with self._turn:
                await self._refill()
        return self._drawn.popleft() if self._drawn and not self._is_stopped else None

    async def _refill(self) -> None:
        if self._sample.count is not None and not self._drawn:
            await self._draw_count(self._sample.count)
            return
        while not self._drawn and not self._is_over:
            self._drawn.extend(await self._batch())

    async def _batch(self) -> list[ReadLine]:
        """Read the next lines and return the sampled ones."""
        batch = await anext(self._batches, None)
        if batch is None:
            self._is_over = True
            return []
        lines = [line for line in batch if not _is_blank(line)]
        self.read += len(lines)
        if self._sample.is_all or self._sample.count is not None:
            return lines
        return [line for line in lines if self._sample.keeps(self._place(line))]

    def _place(self, line: ReadLine) -> int:
        return self._sample.place(self._key(line)) if isinstance(line, Line) else 0

    def _key(self, line: Line) -> bytes:
        """Return the value that decides about a line: its sampling key, or the whole line if it has none."""
        key = None
        if self._sample.by:
            try:
                key = self._sample.key_of(decode_value(line.data))
            except ValueError:  # reported when the line is scored
                key = None
        self.keyed += key is not None
        return line.data.strip() if key is None else key

    def missing_key(self) -> str | None:
        """Return the path of the sampling key if no line had it, so that lines were sampled independently."""
        is_missing = self._sample.by and not self._sample.is_all and self.read and not self.keyed
        return ".".join(self._sample.by) if is_missing else None

    async def _draw_count(self, count: int) -> None:
        """Read the whole stream and sample the `count` lines with the smallest places, in stream order."""
        smallest: list[tuple[int, int, ReadLine]] = []
        order = 0
        while not self._is_over:
            for line in await self._batch():
                order -= 1
                entry = (-self._place(line), order, line)
                if len(smallest) < count:
                    heapq.heappush(smallest, entry)
                else:
                    heapq.heappushpop(smallest, entry)
        self._drawn.extend(line for _, _, line in sorted(smallest, key=lambda entry: -entry[1]))


def _is_blank(line: ReadLine) -> bool:
    return isinstance(line, Line) and not line.data.strip()
