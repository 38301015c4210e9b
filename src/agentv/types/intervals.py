"""What a number could as well have been: confidence intervals."""

from typing import Literal, TypeAlias

from msgspec import Struct

IntervalMethod: TypeAlias = Literal[
    "wilson",
    "clustered-wilson",
    "scaled-wilson",
    "student-t",
    "order-statistics",
    "linearized-t",
    "lang-reiczigel",
    "fisher-z",
]
"""How an interval was made: one of those of docs/numbers.md."""

LEVEL = 0.95


class Interval(Struct, frozen=True):
    """A two-sided confidence interval, in the units of its number; `level` of such intervals hold the truth."""

    low: float
    high: float
    method: IntervalMethod
    level: float = LEVEL
