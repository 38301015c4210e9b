"""Common parts of the stored records: schema names, bounds of scores, fields that are always written."""

from itertools import repeat
from typing import Annotated, Final, TypeAlias, TypeVar, overload

import msgspec
from msgspec import Meta

T = TypeVar("T")

RUN_SCHEMA: Final = "agentv-run-1"
EVENT_SCHEMA: Final = "agentv-event-1"
CASE_SCHEMA: Final = "agentv-case-1"
ANSWER_SCHEMA: Final = "agentv-answer-1"
RESULT_SCHEMA: Final = "agentv-result-1"
LABEL_SCHEMA: Final = "agentv-label-1"
REVIEW_SCHEMA: Final = "agentv-review-1"
CATEGORY_SCHEMA: Final = "agentv-category-1"
SEGMENTS_SCHEMA: Final = "agentv-segments-1"
SEGMENT_SCHEMA: Final = "agentv-segment-1"

TOLERANCE: Final = 1e-9
"""The tolerance for rounding errors of a score beyond 0 or 1."""

StoredScore: TypeAlias = Annotated[float, Meta(ge=-TOLERANCE, le=1 + TOLERANCE)]
"""A score as read from a file: 0 to 1."""

MAX_DURATION_MS: Final = 10**12
"""The longest duration, 31 years. A current time in milliseconds since 1970 exceeds it."""

StoredDuration: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_DURATION_MS)]
"""A duration in milliseconds as read from a file."""

StoredGeneration: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
"""A generation as read from a file: an integer of 32 bits."""


def always(default: T) -> T:
    """Return a field that is written even if it has its default value.

    `omit_defaults` leaves out a declared default, but not the result of a factory. The factory is implemented in C,
    because every record calls several (bench/echo_cases.py).
    """
    return msgspec.field(default_factory=repeat(default).__next__)


@overload
def rounded_ms(value: float) -> float: ...
@overload
def rounded_ms(value: None) -> None: ...
@overload
def rounded_ms(value: float | None) -> float | None: ...
def rounded_ms(value: float | None) -> float | None:
    """Return a duration in milliseconds rounded to the microsecond, as it is stored."""
    return None if value is None else round(value, 3)


def known_duration(value: object) -> float | None:
    """Return a duration in milliseconds; None for one that is negative, not finite or above MAX_DURATION_MS."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_DURATION_MS else None


def to_ms(seconds: float) -> float:
    """Return a finite number of seconds in milliseconds, rounded to the microsecond, as it is stored.

    A clock that was set back gives 0, one that was set far ahead the longest duration that is read again.
    For whole microseconds the result is that of `round` with digits, which is slower: it formats and parses a text
    (bench/echo_cases.py).
    """
    return min(max(round(seconds * 1_000_000) / 1000, 0.0), float(MAX_DURATION_MS))
