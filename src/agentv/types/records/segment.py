"""Records of the segments of a run: the lines of segments.jsonl, and a segment that a node has uploaded.

A segment is a file or object with a part of the lines of a file of the run.
"""

from msgspec import Struct

from agentv.types.stored import SEGMENT_SCHEMA, SEGMENTS_SCHEMA, always


class SegmentsRecord(Struct, frozen=True, kw_only=True):
    """The first line of segments.jsonl."""

    schema: str = always(SEGMENTS_SCHEMA)
    url: str
    """The folder of the segments: a URL, or a path. A relative path starts from the run's folder."""


class LinesTotal(Struct, frozen=True, kw_only=True):
    """The lines of a file from its start to the end of a segment: number, size in bytes, and CRC-32 in hexadecimal."""

    lines: int
    bytes: int
    crc32: str


class SegmentRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A segment, which is one part of the lines of a file of the run."""

    schema: str = always(SEGMENT_SCHEMA)
    file: str
    part: int
    """The number of the segment, from 0."""
    name: str | None = None
    """The name of the stored file or object; None stands for the default, which follows from `file` and `part`."""
    lines: int
    bytes: int
    """Its size."""
    crc32: str
    total: LinesTotal
    """Covers this part and all before it."""


class UploadedSegment(Struct, frozen=True, kw_only=True):
    """Lines that a node uploads to the folder of the segments.

    They belong to the run only when the driver has listed them in segments.jsonl.
    """

    file: str
    """The file of the run that the lines belong to."""
    name: str
    """The name under which they are uploaded."""
    lines: int
    bytes: int
    crc32: int
    """A number, unlike in a SegmentRecord."""
