"""Large JSON read as a stream: objects and lists that are not needed are left out, and the rest has limits."""

import json
import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from agentv.types.json_value import JsonValue

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRINGS = re.compile(_STRING, re.DOTALL)
_FLAT = rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+"
_UP_TO_BRACKET = re.compile(_FLAT, re.DOTALL)
"""Matches up to the next bracket outside of strings, or to a string that does not end."""
_OVER_FLAT = re.compile(rb'(?:[^"{}\[\]]++|\[' + _FLAT + rb"\]|\{" + _FLAT + rb"\}|" + _STRING + rb")*+", re.DOTALL)
"""Also matches objects and lists that hold no others."""
_LAST_KEY = re.compile(rb'[{,]\s*+"(\w+)"\s*+:\s*+\Z')
_KEY_BYTES = 200
_QUOTE, _OPENING = ord('"'), b"{["
_CHUNK_BYTES = 1 << 16


class JsonLimits(Struct, frozen=True):
    """Limits of one JSON text."""

    values: int
    """The most values in the needed parts."""
    needed_bytes: int
    left_out: int
    """The most objects and lists that hold others, outside of the needed parts."""


class JsonLimitError(Exception):
    """A JSON text exceeds a limit; the message says which."""


def parse_except(
    chunks: Iterable[bytes], unneeded: Mapping[int, Collection[str]], limits: JsonLimits | None
) -> JsonValue:
    """Return the value of a JSON text, in which objects and lists that are not needed are null.

    `unneeded` has their keys, by the number of brackets around the key. What is left out is not checked. NaN and
    infinities become null. Raises JsonLimitError if a limit is exceeded, ValueError or RecursionError for invalid JSON.
    """
    parts = _NeededParts(unneeded, limits)
    for chunk in chunks:
        parts.add(chunk)
    text = parts.text()
    del parts
    value: JsonValue = json.loads(text, parse_constant=lambda _: None)
    return value


class _NeededParts:
    """The needed parts of a JSON text that is added chunk by chunk."""

    def __init__(self, unneeded: Mapping[int, Collection[str]], limits: JsonLimits | None) -> None:
        self._unneeded, self._limits = unneeded, limits
        self._kept = bytearray()
        self._pending = bytearray()
        """What has not been read: the start of a string."""
        self._pending_bytes = _CHUNK_BYTES
        """The number of pending bytes from which they are read: twice those that the last reading left."""
        self._values, self._left_out = 1, 0
        self._depth = 0
        self._left_out_at: int | None = None
        """The depth of the object or list that is being left out."""

    def add(self, chunk: bytes) -> None:
        """Add a chunk. Raises JsonLimitError if a limit is exceeded."""
        self._pending += chunk
        if len(self._pending) < self._pending_bytes:
            return
        self._read_pending()
        self._pending_bytes = max(_CHUNK_BYTES, 2 * len(self._pending))

    def text(self) -> str:
        """Return the needed parts as JSON. Raises ValueError if the text ends inside a string, an object or a list."""
        self._read_pending()
        if self._pending or self._depth > 0:
            raise ValueError(f"the text ends inside {'a string' if self._pending else 'an object or list'}")
        return self._kept.decode()

    def _read_pending(self) -> None:
        before = len(self._kept)
        end = self._read(self._pending)
        self._add_values(_STRINGS.sub(b"", self._kept[before:]).count(b","))
        del self._pending[:end]
        if self._limits is None:
            return
        if max(len(self._kept), len(self._pending)) > self._limits.needed_bytes:
            raise JsonLimitError(f"more than {self._limits.needed_bytes // 2**20} MiB of it are needed")
        if self._left_out > self._limits.left_out:
            raise JsonLimitError(
                f"it has more than {self._limits.left_out:,} nested objects and lists in parts that are not read"
            )

    def _read(self, data: bytearray) -> int:
        """Keep the needed parts of the data; return its length without a string that does not end."""
        at = copied = 0
        while True:
            found = (_UP_TO_BRACKET if self._left_out_at is None else _OVER_FLAT).match(data, at)
            at = at if found is None else found.end()
            if at == len(data) or data[at] == _QUOTE:
                break
            if data[at] in _OPENING:
                if self._left_out_at is not None:
                    self._left_out += 1
                else:
                    self._add_values(1)
                    if self._depth in self._unneeded:
                        self._kept += data[copied:at]
                        copied = at
                        self._leave_out_if_unneeded()
                self._depth += 1
            else:
                self._depth -= 1
                if self._left_out_at == self._depth:
                    self._left_out_at, copied = None, at + 1
            at += 1
        if self._left_out_at is None:
            self._kept += data[copied:at]
        return at

    def _leave_out_if_unneeded(self) -> None:
        """Put null for an object or list that starts here, if its key says that it is not needed."""
        key = _LAST_KEY.search(self._kept[-_KEY_BYTES:])
        if key is not None and key[1].decode() in self._unneeded[self._depth]:
            self._kept += b"null"
            self._left_out_at = self._depth

    def _add_values(self, count: int) -> None:
        """Count values, by brackets and commas; an empty object or list counts twice."""
        self._values += count
        if self._limits is not None and self._values > self._limits.values:
            raise JsonLimitError(f"it has more than {self._limits.values:,} values")
