"""The messages of a node to the driver: lines of the run folder in the order in which they were made, and events."""

from typing import Literal

import msgspec
from msgspec import Struct

from agentv.engine.calling.budget import BudgetStop
from agentv.types.failures import Failure
from agentv.types.protocols import QuotaGrant, QuotaRequest
from agentv.types.records.answer import ResultKey
from agentv.types.records.segment import UploadedSegment

MAX_LINES = 50
"""The maximum number of answers, and of results, in one message."""
MAX_BYTES = 80_000
"""A message is full when its lines have this size: Ray is slower with messages of 100 kB (bench/cluster.py)."""

GATHER_S = 0.05
"""Seconds that a node waits for more lines after the first, so that one message has several."""


class RetryLine(Struct, frozen=True, tag="retry", array_like=True):
    """A failed call of a row, which is repeated."""

    row: ResultKey
    kind: str
    error: str | None
    wait_s: float
    """The time until the call is repeated."""


class LogText(Struct, frozen=True, tag="log", array_like=True):
    """A line of the log of a call in progress."""

    row: ResultKey
    target: str
    text: str


class NoteText(Struct, frozen=True, tag="note", array_like=True):
    """A message for the user."""

    text: str


class StoredLine(Struct, frozen=True, tag="line", array_like=True):
    """An encoded line that the driver writes to a file of the run folder."""

    file: Literal["case", "answer", "result"]
    row: ResultKey
    """The key of the row that the line is of."""
    line: bytes


class EndedRow(Struct, frozen=True, tag="ended", array_like=True):
    """A row that a node has finished and stores itself."""

    row: ResultKey
    error: Failure | None
    """The error of the row if it ended without a score."""


class AnsweredLine(Struct, frozen=True, tag="answered", array_like=True):
    """A copy, for observers, of an answer that a node stores itself. The copy lacks the large parts."""

    answer: bytes


class SegmentLine(Struct, frozen=True, tag="segment", array_like=True):
    """A segment that a node has uploaded, for the driver to list."""

    segment: UploadedSegment
    rows: list[bytes]
    """The results in the segment, encoded by `slim_line`."""


class NodeDone(Struct, frozen=True, tag="done", array_like=True):
    """The last line of a node that stores its rows: all are stored."""


class QuotaLine(Struct, frozen=True, tag="quota", array_like=True):
    """A request for a lease of the driver's quota."""

    number: int
    """The driver's answer is a grant for this number."""
    request: QuotaRequest


class QuotaLoss(Struct, frozen=True, tag="quota_loss", array_like=True):
    """The quota has not answered a node for too long, which ends the run."""

    reason: str


class BudgetLine(Struct, frozen=True, tag="budget", array_like=True):
    """The budget is used up: a node refused a call."""

    stop: BudgetStop


class Crash(Struct, frozen=True, tag="crash", array_like=True):
    """A row that a node could not finish, because of a bug in agentv."""

    row: ResultKey
    message: str


class NotStored(Struct, frozen=True, tag="not_stored", array_like=True):
    """A node could not write to its disk, which ends the run."""

    message: str


Line = (
    StoredLine
    | EndedRow
    | AnsweredLine
    | SegmentLine
    | NodeDone
    | RetryLine
    | LogText
    | NoteText
    | QuotaLine
    | QuotaLoss
    | BudgetLine
    | Crash
    | NotStored
)


class Lines(Struct, frozen=True, array_like=True):
    """One message of a node."""

    lines: list[Line]


encode_lines = msgspec.msgpack.Encoder().encode
decode_lines = msgspec.msgpack.Decoder(Lines).decode
encode_grant = msgspec.msgpack.Encoder().encode
decode_grant = msgspec.msgpack.Decoder(QuotaGrant).decode
