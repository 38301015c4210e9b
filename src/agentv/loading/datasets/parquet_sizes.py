"""Sizes of a Parquet file's pages, read from their headers before anything is unpacked.

The headers are Thrift structs in the compact protocol: https://parquet.apache.org/docs/file-format/.
"""

import os
import struct
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

MAX_PAGE_BYTES = 100 << 20
"""The maximum size of an unpacked page: DuckDB writes pages of up to 100 MB."""
MAX_ROW_BYTES = 16 << 20
"""The maximum size of an unpacked row."""
_MAGIC = b"PAR1"
_MAX_FOOTER_BYTES = 16 << 20
_MAX_VALUES, _VALUES_PER_BYTE = 1_000_000, 200
_BATCH_BYTES, _MAX_BATCH_ROWS = 32 << 20, 1024
_FOOTER_END = 8
_HEADER_BYTES = 512
_MAX_LEVELS = 16


class ParquetSizeError(Exception):
    """A Parquet file cannot be read within the limits, or its headers are damaged."""


def batch_rows(file: BufferedReader) -> int:
    """Return the number of rows that can be read at once with little memory. Raises ParquetSizeError past a limit."""
    try:
        rows_bytes = [_row_bytes(file, group) for group in _footer(file).get(4, ())]
    except (LookupError, TypeError, AttributeError, ValueError, OSError, struct.error) as error:
        raise ParquetSizeError("its headers are damaged") from error
    return max(1, min(_MAX_BATCH_ROWS, int(_BATCH_BYTES / max(1, *rows_bytes, 1))))


def _footer(file: BufferedReader) -> dict[int, Any]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ParquetSizeError(f"it does not start with {_MAGIC.decode()}")
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - _FOOTER_END, 0))
    end = file.read(_FOOTER_END)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > size - len(_MAGIC) - _FOOTER_END:
        raise ParquetSizeError("it ends before its footer")
    if length > _MAX_FOOTER_BYTES:
        raise ParquetSizeError(f"its footer has more than {_MAX_FOOTER_BYTES >> 20} MiB")
    file.seek(size - _FOOTER_END - length)
    return _Thrift(file.read(length)).read_struct()


def _row_bytes(file: BufferedReader, group: dict[int, Any]) -> float:
    """Return the bytes of a large row of a row group, as far as the pages tell."""
    chunks = [chunk[3] for chunk in group[1]]
    packed, rows = sum(chunk[7] for chunk in chunks), max(group[3], 1)
    total = 0.0
    for chunk in chunks:
        most = max(_MAX_VALUES, _VALUES_PER_BYTE * packed)
        if chunk[5] > most:
            raise ParquetSizeError(
                f"the column {_name(chunk)} has {chunk[5]:,} values in {packed:,} bytes; at most {most:,} are read: "
                f"{_VALUES_PER_BYTE} for each byte, or {_MAX_VALUES:,} if that is more"
            )
        value = max((size / count for size, count in _pages(file, chunk)), default=0)
        total += value * max(chunk[5] / rows, 1)
    return total


def _pages(file: BufferedReader, chunk: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """Yield the unpacked size of each page of a column, and the number of its values; 1 for a dictionary.

    A value of a dictionary may be as large as all of it, and it is unpacked for each row that has it.
    """
    place = min(offset for offset in (chunk[9], chunk.get(11, 0)) if offset > 0)
    end = place + chunk[7]
    while place < end:
        header, length = _page_header(file, place, end)
        unpacked, packed = header[2], header[3]
        if unpacked < 0 or packed < 0:
            raise ValueError("a size is negative")
        if unpacked > MAX_PAGE_BYTES:
            raise ParquetSizeError(
                f"a part of the column {_name(chunk)} unpacks to {unpacked:,} bytes; at most "
                f"{MAX_PAGE_BYTES >> 20} MiB are read: write it with smaller pages"
            )
        data = header.get(5) or header.get(8)
        yield unpacked, max(data[1], 1) if data else 1
        place += length + packed


def _page_header(file: BufferedReader, place: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the header of a page and its length; the values in its statistics may be long."""
    size = _HEADER_BYTES
    while True:
        file.seek(place)
        thrift = _Thrift(file.read(min(size, end - place)))
        try:
            return thrift.read_struct(), thrift.place
        except (IndexError, struct.error):
            if size >= min(end - place, _MAX_FOOTER_BYTES):
                raise
            size *= 16


def _name(chunk: dict[int, Any]) -> str:
    return repr(b".".join(chunk[3]).decode(errors="replace"))


class _Thrift:
    """A reader of structs in Thrift's compact protocol, as dicts by the numbers of their fields.

    Raises IndexError or struct.error at the end of the data, ValueError for what is not valid.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def read_struct(self, levels: int = _MAX_LEVELS) -> dict[int, Any]:
        """Return the struct that starts here."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, levels)
        return fields

    def _value(self, kind: int, levels: int) -> Any:
        match kind:
            case 1 | 2 | 3:  # in a list, a boolean is a byte
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                (number,) = struct.unpack_from("<d", self._data, self.place)
                self.place += 8
                return number
            case 8:
                return self._bytes()
            case 9 | 10 if levels:
                head = self._byte()
                count = head >> 4 if head >> 4 != 15 else self._unsigned()  # noqa: PLR2004 - then a number follows
                return [self._value(head & 15, levels - 1) for _ in range(count)]
            case 12 if levels:
                return self.read_struct(levels - 1)
            case _:
                raise ValueError(f"a field of type {kind}")

    def _byte(self) -> int:
        self.place += 1
        return self._data[self.place - 1]

    def _bytes(self) -> bytes:
        length = self._unsigned()
        self.place += length
        if self.place > len(self._data):
            raise IndexError("the data ends in a text")
        return self._data[self.place - length : self.place]

    def _unsigned(self) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
            if shift > 63:  # noqa: PLR2004 - the bits of a number
                raise ValueError("a number is too long")
        return number | byte << shift

    def _integer(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)
