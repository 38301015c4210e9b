"""Where the results of a run can be sent: what every destination has in common."""

from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from agentv.telemetry.sending.post import Refused
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

Sendable = TypeVar("Sendable")
"""What one result is for a destination."""


class Omitted(Struct, frozen=True):
    """A result that a destination has no place for."""

    why: str
    """Such as `no trace id`."""


class Delivered(Struct, frozen=True):
    """A destination has taken a request, except perhaps some of its records."""

    dropped: int = 0
    lost: int = 0
    """The results of which every record was dropped."""
    reason: str | None = None
    """Why records were dropped, in the destination's own words."""


class Destination(Protocol, Generic[Sendable]):
    """Takes the results of a run in batches, over one or several channels. What is sent twice counts once there."""

    name: str
    """The first word of the end line."""
    title: str
    """The name within a sentence."""
    shown: str
    """The address in messages."""
    option: str
    """The options that name this destination again; no secret is in them."""
    channels: Mapping[str, str]
    """Each channel by its name, with a key for what is sent over it; no secret is in it. The first one counts, and the
    others are left out if they are refused as unsupported.
    """
    secrets: tuple[str, ...]
    """Redacted from the destination's own words."""
    record: str
    """What is dropped, in the singular."""
    max_results: int
    """The most results of one request."""
    wants_cases: bool
    """True if a result is sent with the question of its case."""

    def prepare(self, row: CaseResult, run_name: str | None, case: CaseRecord | None, /) -> Sendable | Omitted:
        """Return what a result is for this destination."""

    def send(self, channel: str, items: Sequence[Sendable], /) -> Delivered | Refused:
        """Send what was prepared, at least one item, and wait for the answer."""
