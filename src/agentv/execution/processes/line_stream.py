"""Lines of files and pipes as they arrive, in bounded memory: nothing is read before it is needed.

A JSON document, for instance an export that is not JSON Lines, is split into its records. So are exports in protocol
buffers that each follow their length.
"""

import asyncio
import json
import os
import re
import stat
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile
from json import JSONDecodeError
from typing import TypeAlias

from msgspec import Struct

from agentv.execution.gunzip import Gunzip
from agentv.telemetry.otlp.binary import FRAME_START, FRAME_START_BYTES, LENGTH_BYTES, is_framed
from agentv.types.json_value import JsonValue

STDIN = "-"
_STDIN_DESCRIPTOR = 0
_BLOCK_BYTES = 2**16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


class Line(Struct, frozen=True):
    """One line without its newline."""

    file: str
    """Its path; `-` is standard input."""
    number: int
    """Its number in its file, from 1."""
    data: bytes
    part: int = 1
    """The number of a record, from 1, among those of the same line.

    A JSON document on one line may hold several records. LineStream leaves the number at 1; its caller numbers the
    parts.
    """
    trace_id: str = ""
    """`trace_id` and `span_id` are those of a span that the record was made from; empty for any other record."""
    span_id: str = ""
    is_open: bool = False
    """True for a record that later lines may complete."""


class LostLine(Struct, frozen=True):
    """A line that could not be read, or an answer that failed, with the reason."""

    file: str
    number: int
    message: str
    part: int = 1
    target: str | None = None
    """The name of what wrote it, if it is known."""
    trace_id: str = ""
    span_id: str = ""
    ended_at: datetime | None = None
    """When the answer ended, if it is known."""
    data: bytes = b""
    """What is known of an answer that failed, by which it is sampled; empty for a line that could not be read."""


ReadLine: TypeAlias = Line | LostLine


class LineStream:
    """The lines of several files in order. `-` is standard input; gzip is detected by its first bytes.

    A file whose name ends in `.json` is read as a whole, and each record in it is a line; so is each export in a file
    that `is_framed`. A line of more than `max_bytes` becomes a LostLine, and so does the rest of a file that cannot be
    read further.
    """

    def __init__(self, files: Sequence[str], *, max_bytes: int) -> None:
        self._files = files
        self._max_bytes = max_bytes
        self._waiting: asyncio.Future[None] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the stream at its current position, also while the next line is awaited."""
        self._is_stopped = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def batches(self) -> AsyncGenerator[list[ReadLine], None]:
        """Yield the lines that have arrived, at most 64 KiB plus the remainder of the previous line.

        The records of a `.json` file are yielded together, after its end.
        """
        for file in takewhile(lambda _: not self._is_stopped, self._files):
            lines = _Split(file, self._max_bytes)
            try:
                async for block in self.blocks(file):
                    yield lines.add(block)
            except OSError as error:
                yield [*lines.rest(), LostLine(file, lines.number + 1, f"cannot be read: {error.strerror or error}")]
            else:
                # A stopped stream may have received only a part of its last line.
                yield [] if self._is_stopped else lines.rest()

    async def blocks(self, file: str) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file as it arrives, decompressed. Raises OSError."""
        descriptor = _STDIN_DESCRIPTOR if file == STDIN else os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            start = await self._read(descriptor)
            while len(start) < len(_GZIP) and (more := await self._read(descriptor)):
                start += more
            gzip = Gunzip() if start.startswith(_GZIP) else None
            block = start
            while block:
                for piece in (block,) if gzip is None else gzip.decompress(block):
                    yield piece
                    if self._is_stopped:
                        return
                block = await self._read(descriptor)
            if gzip is not None and not self._is_stopped:
                gzip.check_end()
        finally:
            if file != STDIN:
                os.close(descriptor)

    async def _read(self, descriptor: int) -> bytes:
        """Return available bytes, at least one; b"" at the end or once the stream is stopped."""
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            await asyncio.sleep(0)
            return b"" if self._is_stopped else os.read(descriptor, _BLOCK_BYTES)
        while True:
            await self._readable(descriptor)
            # Another reader of the same pipe may have been faster.
            with suppress(BlockingIOError):
                return b"" if self._is_stopped else os.read(descriptor, _BLOCK_BYTES)

    async def _readable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = waiting = loop.create_future()
        try:
            loop.add_reader(descriptor, self._wake)
        except PermissionError:  # a device that is always readable, such as /dev/null
            return
        try:
            if not self._is_stopped:
                await waiting
        finally:
            loop.remove_reader(descriptor)


class _Split:
    """Splits blocks of one file as its name and its first bytes demand."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self._lines: _Document | _Lines | _Exports = (_Document if is_json_file(file) else _Lines)(file, max_bytes)
        self._max_bytes = max_bytes
        self._start: bytes | None = b""
        """The first bytes, until it is known what they are."""

    @property
    def number(self) -> int:
        """The number of lines so far."""
        return self._lines.number

    def add(self, block: bytes) -> list[ReadLine]:
        """Add a block and return what ends in it."""
        if self._start is None:
            return self._lines.add(block)
        self._start += block
        if self._start[:1] == FRAME_START and len(self._start) < FRAME_START_BYTES:
            return []
        return self._begin(self._start)

    def rest(self) -> list[ReadLine]:
        """Return what the end of the file ends."""
        begun = self._begin(self._start) if self._start else []
        return [*begun, *self._lines.rest()]

    def _begin(self, start: bytes) -> list[ReadLine]:
        if is_framed(start):
            self._lines = _Exports(self._lines.file, self._max_bytes)
        self._start = None
        return self._lines.add(start)


class _Exports:
    """Splits blocks of one file into exports that each follow their length."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self.file = file
        self.number = 0
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._is_lost = False

    def add(self, block: bytes) -> list[ReadLine]:
        """Add a block and return the exports that end in it. After one that is too large, nothing is read."""
        if self._is_lost:
            return []
        self._data += block
        exports: list[ReadLine] = []
        at = 0
        while len(self._data) >= at + LENGTH_BYTES:
            start = at + LENGTH_BYTES
            size = int.from_bytes(self._data[at:start], "big")
            if size > self._max_bytes:
                self._is_lost = True
                message = f"the export has {size:,} bytes; at most {self._max_bytes // 2**20} MiB are read"
                exports.append(LostLine(self.file, self.number + 1, message))
                self._data.clear()
                return exports
            if start + size > len(self._data):
                break
            at = start + size
            self.number += 1
            exports.append(Line(self.file, self.number, bytes(self._data[start:at])))
        del self._data[:at]
        return exports

    def rest(self) -> list[ReadLine]:
        """Return an export that is truncated as a LostLine."""
        return [LostLine(self.file, self.number + 1, "the file is truncated")] if self._data else []


class _Lines:
    """Splits blocks of one file into lines."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self.file = file
        self.number = 0
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, block: bytes) -> list[ReadLine]:
        """Add a block and return the lines that end in it."""
        *ended, rest = block.split(b"\n")
        lines = []
        for part in ended:
            self._take(part)
            lines.append(self._line())
        self._take(rest)
        return lines

    def rest(self) -> list[ReadLine]:
        """Return the last line if it has no newline."""
        return [self._line()] if self._size else []

    def _take(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            self._parts.clear()
        else:
            self._parts.append(part)

    def _line(self) -> ReadLine:
        size, data = self._size, b"".join(self._parts)
        self._size = 0
        self._parts.clear()
        self.number += 1
        if size > self._max_bytes:
            message = f"the line has {size:,} bytes; at most {self._max_bytes // 2**20} MiB are read"
            return LostLine(self.file, self.number, message)
        return Line(self.file, self.number, data)


class _Document:
    """Collects one file and splits it into its records, or into lines if its content is JSON Lines."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self.file = file
        self.number = 0
        self._max_bytes = max_bytes
        self._size = 0
        self._parts: list[bytes] = []

    def add(self, block: bytes) -> list[ReadLine]:
        """Collect a block."""
        self._size += len(block)
        if self._size <= self._max_bytes:
            self._parts.append(block)
        return []

    def rest(self) -> list[ReadLine]:
        """Return the records."""
        if self._size > self._max_bytes:
            message = f"the file has more than {self._max_bytes // 2**20} MiB; write it as JSON Lines: jq -c '.[]' FILE"
            return [LostLine(self.file, 1, message)]
        data = b"".join(self._parts).removeprefix(_BYTE_ORDER_MARK)
        first, *rest = [line for line in data.split(b"\n", 2) if line.strip()] or [b""]
        if rest and _is_json(first):
            lines = _Lines(self.file, self._max_bytes)
            return [*lines.add(data), *lines.rest()]
        try:
            return [Line(self.file, number, record.encode()) for number, record in split_document(data.decode())]
        except UnicodeDecodeError as error:
            return [LostLine(self.file, 1 + data.count(b"\n", 0, error.start), "is not valid UTF-8")]
        except (ValueError, RecursionError) as error:
            place = error.lineno if isinstance(error, JSONDecodeError) else 1
            return [LostLine(self.file, place, f"the file is not valid JSON: {error}")]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


PAGE_KEYS = ("data", "runs")
"""The keys under which APIs return a page of records."""

_JSON = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = re.compile(r'"(?:[^"\\]|\\.)*"')


def is_json_file(name: str) -> bool:
    """Return True if a file name ends in `.json` or `.json.gz`: the file is one document, and not lines."""
    return name.removesuffix(".gz").endswith(".json")


def split_document(text: str) -> Iterator[tuple[int, str]]:
    """Yield each record of a JSON text with the line it starts on.

    A value is a list of records, an object with a list under `data` or `runs`, or a record itself; several values may
    follow one another. Raises ValueError (JSONDecodeError) for text that is not JSON.
    """
    at, line, last = _next(text, 0), 1, 0
    while at < len(text):
        for start, end in _records(text, at):
            line += text.count("\n", last, start)
            last = start
            yield line, text[start:end]
        at = _next(text, _JSON.raw_decode(text, at)[1])


def _records(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each record in the value at `at`."""
    value, end = _JSON.raw_decode(text, at)
    listed = _list_place(text, at, value)
    if listed is None:
        yield at, end
        return
    at = _next(text, listed + 1)
    while text[at] != "]":
        _, end = _JSON.raw_decode(text, at)
        yield at, end
        at = _next(text, end)
        at = _next(text, at + 1) if text[at] == "," else at


def _list_place(text: str, at: int, value: JsonValue) -> int | None:
    """Return the index of the list of records in the value at `at`, None if it has no such list."""
    if isinstance(value, list):
        return at
    key = next((key for key in PAGE_KEYS if isinstance(value, dict) and isinstance(value.get(key), list)), None)
    if key is None or not all(isinstance(item, dict) for item in value[key]):  # type: ignore[index,call-overload,union-attr] # value is an object, because a key was found
        return None
    at = _next(text, at + 1)
    while True:
        name = _KEY.match(text, at)
        at = _next(text, _next(text, name.end() if name else at) + 1)
        if name is not None and json.loads(name[0]) == key:
            return at
        at = _next(text, _next(text, _JSON.raw_decode(text, at)[1]) + 1)


def _next(text: str, at: int) -> int:
    """Return the index of the next character that is not white space."""
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
