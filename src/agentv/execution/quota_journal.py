"""A LeaseBook that survives its process: each exchange is written to a file before it is answered."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import ENOSPC
from io import FileIO
from pathlib import Path

import msgspec
from msgspec import Struct

from agentv.execution.quotas import LeaseBook
from agentv.types.protocols import NODE_LEASE_S, QuotaGrant, QuotaRequest

MAX_EXCHANGES = 10_000
"""The exchanges (about 400 bytes each) after which a journal is replaced by one that begins with the current state."""

_LENGTH_BYTES = 4


class _State(Struct, frozen=True, array_like=True):
    """The first entry of a journal."""

    at: float
    """The time of the entry."""
    book: bytes
    """The accounts of the book at this time."""


class _Exchange(Struct, frozen=True, array_like=True):
    """Any later entry: a request, and the time at which the book received it."""

    at: float
    request: QuotaRequest


_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(_State).decode
_decode_exchange = msgspec.msgpack.Decoder(_Exchange).decode


class JournaledBook:
    """A LeaseBook that continues where a killed process stopped: it repeats the exchanges at their recorded times.

    `now` is the monotonic clock of the machine, in seconds; it starts again with the machine. A journal with later
    times was written on another machine, or before this machine was restarted, and is ignored. A lease counts as used
    in full until its holder reports how much it used, which is nothing if the grant never arrived; without a report
    its requests and tokens expire, but not its money. Raises OSError when the journal cannot be written; then nothing
    is granted.
    """

    def __init__(self, path: Path, now: Callable[[], float], *, lease_s: float = NODE_LEASE_S) -> None:
        self._path = path
        self._now = now
        self._lease_s = lease_s
        self._time = -math.inf
        self._book = self._replayed()
        if self._time > now():
            self._time, self._book = -math.inf, self._empty()
        self._file: FileIO | None = None
        self._exchanges_left = 0

    def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and grant a lease."""
        self._time = self._now()
        self._write(_Exchange(self._time, request))
        return self._book.exchange(request)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _empty(self) -> LeaseBook:
        return LeaseBook(lambda: self._time, lease_s=self._lease_s)

    def _replayed(self) -> LeaseBook:
        book = self._empty()
        try:
            entries = _entries(self._path.read_bytes())
        except FileNotFoundError:
            return book
        # A power failure may damage the file. Entries after the damage are lost: their requests and tokens have expired
        # since, but their money is not counted until its holder reports it again.
        with suppress(StopIteration, msgspec.DecodeError):
            state = _decode_state(next(entries))
            self._time = state.at
            book.restore(state.book)
            for exchange in map(_decode_exchange, entries):
                self._time = exchange.at
                book.exchange(exchange.request)
        return book

    def _write(self, exchange: _Exchange) -> None:
        if not self._exchanges_left:
            self._begin_journal()
        left, self._exchanges_left = (
            self._exchanges_left,
            0,
        )  # after a partial write, the next exchange begins a new journal
        _append(self._file, _encode(exchange))
        self._exchanges_left = left - 1

    def _begin_journal(self) -> None:
        """Write the state of the book into a new file, which then replaces the journal."""
        self.close()
        new = self._path.with_suffix(".new")
        self._file = FileIO(new, "w")
        _append(self._file, _encode(_State(self._time, self._book.dump())))
        os.replace(new, self._path)  # noqa: PTH105 - replaces atomically
        self._exchanges_left = MAX_EXCHANGES


def _append(file: FileIO | None, entry: bytes) -> None:
    data = len(entry).to_bytes(_LENGTH_BYTES, "big") + entry
    if file is None or file.write(data) != len(data):
        raise OSError(ENOSPC, os.strerror(ENOSPC))


def _entries(data: bytes) -> Iterator[bytes]:
    """Yield the entries of a journal; skip a partial last entry."""
    begin = 0
    while (start := begin + _LENGTH_BYTES) <= len(data):
        end = start + int.from_bytes(data[begin:start], "big")
        if end > len(data):
            return
        yield data[start:end]
        begin = end
