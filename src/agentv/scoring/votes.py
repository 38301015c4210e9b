"""Several opinions on one thing made into one: how judges vote, and how far they were apart."""

import statistics
from collections.abc import Sequence
from typing import Literal, TypeAlias

from agentv.scoring.aggregation import verdict_of, weighted_mean
from agentv.types.json_value import JsonObject

Vote: TypeAlias = Literal["mean", "median", "majority", "min"]


def combine(values: Sequence[float], vote: Vote) -> float:
    """Return the opinions' common value on 0..1. `majority`: 1.0 when more than half say `pass`, else 0.0."""
    match vote:
        case "mean":
            return weighted_mean((1.0, value) for value in values)
        case "median":
            return float(statistics.median(values))
        case "min":
            return min(values)
        case "majority":
            passing = sum(verdict_of(value) == "pass" for value in values)
            return 1.0 if 2 * passing > len(values) else 0.0


def spread(values: Sequence[float]) -> JsonObject:
    """Return how far several opinions are apart: each of them, their range, and their standard deviation (n)."""
    return {"values": list(values), "min": min(values), "max": max(values), "stdev": statistics.pstdev(values)}
