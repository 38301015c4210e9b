"""Usage and price of model calls, and the bounds within which a cost or a count of tokens is known."""

import math
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from operator import eq
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

MAX_COST_USD: Final = 1e9
MAX_TOKENS: Final = 10**15
NO_COST: Final = math.inf
"""In place of a number that cannot be a cost. A sum that contains it is not a cost either."""
NO_COUNT: Final = 2**53
"""In place of a number that cannot be a count of tokens. A sum that contains it is above MAX_TOKENS, too."""

COST_NOTE: Final = f"a cost in its responses counts as unknown: it is not from 0 to {MAX_COST_USD:,.0f} dollars"
USAGE_NOTE: Final = f"a usage in its responses counts as unknown: a token count is not from 0 to {MAX_TOKENS:,}"

AMOUNT_NOTES: Final = (COST_NOTE, USAGE_NOTE)

StoredCost: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_COST_USD)]
"""A cost as read from a file, in dollars."""

StoredCount: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
"""A count of tokens as read from a file."""


class Usage(Struct, frozen=True, gc=False):
    """The tokens of one or more requests to a model."""

    input: StoredCount = 0
    output: StoredCount = 0
    cached_input: StoredCount = 0
    """A part of `input`."""
    reasoning: StoredCount = 0
    """A part of `output`."""
    total: StoredCount = 0
    requests: StoredCount = 0
    """The number of these requests."""

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of each field."""
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached_input=self.cached_input + other.cached_input,
            reasoning=self.reasoning + other.reasoning,
            total=self.total + other.total,
            requests=self.requests + other.requests,
        )


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the sum of the usages that are not None; None if there are none."""
    known = [usage for usage in usages if usage is not None]
    return sum(known[1:], start=known[0]) if known else None


def read_cost(value: object) -> float | None:
    """Return a number of dollars; None for a value that is no number, NO_COST for a number that cannot be a cost."""
    if isinstance(value, bool) or not isinstance(value, int | float | Real | Decimal):
        return None
    try:
        cost = float(value)
    except (OverflowError, ValueError):  # an integer of 400 digits, a signalling NaN
        return NO_COST
    return cost if 0 <= cost <= MAX_COST_USD else NO_COST


def read_count(value: object) -> int:
    """Return a count of tokens; 0 for NaN and what is no number, NO_COUNT for a number that cannot be a count."""
    if isinstance(value, bool) or not isinstance(value, int | float | Integral):
        return 0
    count = value if isinstance(value, int | float) else int(value)
    if isinstance(count, float) and math.isnan(count):
        return 0
    return int(count) if 0 <= count <= MAX_TOKENS and count % 1 == 0 else NO_COUNT


def known_cost(value: object) -> float | None:
    """Return a cost in dollars; None if it is unknown, as one that is negative, not finite or above MAX_COST_USD."""
    cost = read_cost(value)
    return None if cost == NO_COST else cost


def known_usage(usage: Usage | None) -> Usage | None:
    """Return a usage; None if one of its counts cannot be one, since the others would then be misleading."""
    if usage is None:
        return None
    given = (usage.input, usage.output, usage.cached_input, usage.reasoning, usage.total, usage.requests)
    if {*map(type, given)} == {int} and min(given) >= 0 and max(given) <= MAX_TOKENS:
        return usage
    counts = tuple(map(read_count, given))
    is_known = max(counts) <= MAX_TOKENS and all(map(eq, given, given))  # NaN is unequal to itself
    return Usage(*counts) if is_known else None


class Price(Struct, frozen=True):
    """The price of a model, in dollars per million tokens."""

    input_per_million: float
    output_per_million: float

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of `usage`, in dollars."""
        return (usage.input * self.input_per_million + usage.output * self.output_per_million) / 1_000_000
