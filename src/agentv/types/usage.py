"""Usage and price of model calls."""

from collections.abc import Iterable

from msgspec import Struct


class Usage(Struct, frozen=True, gc=False):
    """The tokens of one or more requests to a model; `requests` is the number of these requests.

    `cached_input` is a part of `input`, `reasoning` a part of `output`.
    """

    input: int = 0
    output: int = 0
    cached_input: int = 0
    reasoning: int = 0
    total: int = 0
    requests: int = 0

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


class Price(Struct, frozen=True):
    """The price of a model, in dollars per million tokens."""

    input_per_million: float
    output_per_million: float

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of `usage`, in dollars."""
        return (usage.input * self.input_per_million + usage.output * self.output_per_million) / 1_000_000
