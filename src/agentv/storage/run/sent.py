"""How much of a run's results was sent to whom, and the results that follow: a run's results are a queue."""

import os
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from agentv.storage.files.run_file import open_file, size_of, whole_lines
from agentv.storage.run.stored import StoredRun
from agentv.types.records.result import CaseResult

SENT_FILE = "otel.jsonl"
_RESULTS = "results.jsonl"
_CHUNK = 1 << 20


class Position(Struct, frozen=True, order=True):
    """A place between two lines of results.jsonl."""

    bytes: int = 0
    lines: int = 0


class _Sent(Struct, frozen=True):
    """A line of otel.jsonl: everything before the position was sent."""

    to: str
    bytes: int
    lines: int


_decode = msgspec.json.Decoder(_Sent).decode


class SentFile:
    """The positions up to which results were sent, by receiver.

    A line is added after each accepted request. If the process dies in between, the results are sent again, with the
    same ids.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / SENT_FILE
        self._folder = folder

    def position(self, receiver: str) -> Position:
        """Return the position up to which a receiver has everything; the start if results.jsonl is shorter now."""
        furthest = Position()
        for line in whole_lines(self._path):
            try:
                sent = _decode(line)
            except (ValueError, RecursionError):  # two processes wrote at once, or one died
                continue
            if sent.to == receiver:
                furthest = max(furthest, Position(sent.bytes, sent.lines))
        return furthest if furthest.bytes <= size_of(self._folder / _RESULTS) else Position()

    def add(self, receiver: str, position: Position) -> None:
        """Note that a receiver has everything up to a position. Raises OSError."""
        line = msgspec.json.encode(_Sent(receiver, position.bytes, position.lines)) + b"\n"
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # the last writer died in its line
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def results_after(
    run: StoredRun, position: Position, *, most: int, most_bytes: int
) -> tuple[tuple[CaseResult, ...], Position]:
    """Return the next stored results, at least one if there is any, and the position after them.

    Raises StorageError for a line that cannot be read.
    """
    places: list[tuple[int, int, int]] = []
    at = start = position.bytes
    try:
        file = open_file(run.folder / _RESULTS)
    except FileNotFoundError:
        return (), position
    with file:
        file.seek(at)
        for line in islice(file, most):
            if not line.endswith(b"\n") or (places and at + len(line) - start > most_bytes):
                break
            places.append((position.lines + len(places) + 1, at, len(line)))
            at += len(line)
    return tuple(run.results_at(places)), Position(at, position.lines + len(places))


def lines_after(folder: Path, position: Position) -> int:
    """Return the number of stored results after a position."""
    try:
        file = open_file(folder / _RESULTS)
    except FileNotFoundError:
        return 0
    with file:
        file.seek(position.bytes)
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK), b""))
