"""The segments of a run: full parts of its files that were moved elsewhere, and `segments.jsonl`, which lists them.

A file of lines is written in parts, numbered from 0. Part 0 of `results.jsonl` is that file itself, part 1 is
`results.1.jsonl`. A run without segments has only part 0. The parts that `segments.jsonl` lists are segments; the later
parts are in the run's folder. A part counts as moved once it is listed: an unlisted segment is ignored, and so is the
local file of a listed part.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from agentv.storage.files.line_file import FileEnd, plain_lines, write_by_rename
from agentv.storage.files.object_store import joined
from agentv.storage.records.decode import check_schema
from agentv.storage.records.json_line import encode, reason
from agentv.types.errors import StorageError
from agentv.types.records.segment import SegmentRecord, SegmentsRecord
from agentv.types.stored import SEGMENT_SCHEMA, SEGMENTS_SCHEMA

SEGMENTS_FILE = "segments.jsonl"


class Segment(Struct, frozen=True):
    """A listed segment: its record, the number of its line in segments.jsonl, and its URL."""

    record: SegmentRecord
    line: int
    url: str

    @property
    def end(self) -> FileEnd:
        """The end of the file's lines up to and including this segment."""
        total = self.record.total
        return FileEnd(total.lines, total.bytes, int(total.crc32, 16))


class Segments(Struct, frozen=True):
    """The segments that a run lists."""

    url: str
    """The folder that the segments are in."""
    of_files: Mapping[str, Sequence[Segment]]
    """The segments by file, in the order of their lines."""

    def of(self, name: str) -> Sequence[Segment]:
        """Return the segments of a file of the run."""
        return self.of_files.get(name, ())


_decode_head = msgspec.json.Decoder(SegmentsRecord).decode
_decode_segment = msgspec.json.Decoder(SegmentRecord).decode


def segment_name(name: str, part: int) -> str:
    """Return the name of the segment that holds a part of a file."""
    return f"{Path(name).stem}-{part:06}.jsonl"


def node_segment_name(file: str, epoch: str, number: int) -> str:
    """Return the name of a node's segment: `epoch` is unique to the process, `number` counts its segments."""
    return f"{Path(file).stem}-{epoch}-{number:06}.jsonl"


_SEGMENT_NAME = re.compile(r"(cases|answers|results)-([0-9a-z]+-)?[0-9]{6,}\.jsonl")


def is_segment_name(name: str) -> bool:
    """Return True for the name of a segment, listed or not."""
    return _SEGMENT_NAME.fullmatch(name) is not None


def begin_segments(folder: Path, url: str) -> None:
    """Write the first line of segments.jsonl: the folder or URL for the run's segments. Raises OSError."""
    write_by_rename(folder / SEGMENTS_FILE, encode(SegmentsRecord(url=url)) + b"\n")


def load_segments(folder: Path) -> Segments | None:
    """Return the segments that a run lists; None for a run without a segments.jsonl.

    Raises StorageError, with the number of the line, for a line that cannot be read, for a name that is not that of a
    segment, and for a segment that does not begin where the previous segment of its file ends.
    """
    path = folder / SEGMENTS_FILE
    lines = enumerate(plain_lines(path), start=1)
    _, first = next(lines, (0, None))
    if first is None:
        if path.exists():
            raise StorageError(f"{path}:1: the first line is missing; restore {SEGMENTS_FILE} from a copy")
        return None
    found: dict[str, list[Segment]] = {}
    number = 1
    try:
        head = _decode_head(first)
        check_schema(head.schema, SEGMENTS_SCHEMA)
        for number, line in lines:
            record = _decode_segment(line)
            check_schema(record.schema, SEGMENT_SCHEMA)
            earlier = found.setdefault(record.file, [])
            _check_order(record, earlier[-1].record if earlier else None)
            earlier.append(Segment(record, number, joined(head.url, _checked_name(record))))
    except (ValueError, RecursionError, StorageError) as error:
        raise StorageError(f"{path}:{number}: {reason(error)}") from error
    return Segments(head.url, found)


def _checked_name(record: SegmentRecord) -> str:
    """Return the name of a segment. Raises StorageError for another name, which might lead to any file."""
    name = record.name or segment_name(record.file, record.part)
    if not is_segment_name(name):
        raise StorageError(f"{name!r} is not the name of a segment; restore {SEGMENTS_FILE} from a copy")
    return name


def _check_order(record: SegmentRecord, before: SegmentRecord | None) -> None:
    """Raise StorageError unless a segment begins where `before` ends, ValueError for a malformed CRC-32."""
    part, lines, size = (0, 0, 0) if before is None else (before.part + 1, before.total.lines, before.total.bytes)
    end = (part, lines + record.lines, size + record.bytes)
    if (record.part, record.total.lines, record.total.bytes) != end or min(record.lines, record.bytes) < 0:
        raise StorageError(
            f"part {record.part} of {record.file} does not follow the part that is listed before it; restore "
            f"{SEGMENTS_FILE} from a copy"
        )
    int(record.total.crc32, 16)
