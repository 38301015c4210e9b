"""Records of segments.jsonl: where a run's segments are, and what is in each."""

from msgspec import Struct

from agentv.types.records.fields import SEGMENT_SCHEMA, SEGMENTS_SCHEMA, always


class SegmentsRecord(Struct, frozen=True, kw_only=True):
    """The first line of segments.jsonl. `url` is a folder: a path from the run's folder, or a URL."""

    schema: str = always(SEGMENTS_SCHEMA)
    url: str


class LinesTotal(Struct, frozen=True, kw_only=True):
    """The beginning of a file: its number of lines, their size in bytes, and their CRC-32 in hexadecimal."""

    lines: int
    bytes: int
    crc32: str


class SegmentRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A segment: part `part`, from 0, of `file`, with its lines, size and CRC-32; `total` sums up all parts so far.

    `name` is the name of the stored file or object; None stands for the default, which follows from `file` and `part`.
    """

    schema: str = always(SEGMENT_SCHEMA)
    file: str
    part: int
    name: str | None = None
    lines: int
    bytes: int
    crc32: str
    total: LinesTotal


class UploadedSegment(Struct, frozen=True, kw_only=True):
    """Lines of `file` that a node has uploaded to the segments' folder as `name`; they count once they are listed."""

    file: str
    name: str
    lines: int
    bytes: int
    crc32: int
