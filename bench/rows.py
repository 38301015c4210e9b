"""The results of benchmarks: one row for each measurement, and the table of all rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

HEADINGS = ("benchmark", "work", "ours", "compared with", "theirs", "ratio", "target", "met")

Shown: TypeAlias = Callable[[float], str]
"""Formats a number with its unit."""

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, slots=True)
class AtMost:
    """An upper bound for our number, in the unit of the row."""

    bound: float

    def is_met(self, row: "Row") -> bool:
        """Return True if our number is at most the bound."""
        return row.ours <= self.bound

    def text(self, shown: Shown) -> str:
        """Return the target as text for the table."""
        return f"≤ {shown(self.bound)}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A lower bound for our number, where more is better."""

    bound: float

    def is_met(self, row: "Row") -> bool:
        """Return True if our number is at least the bound."""
        return row.ours >= self.bound

    def text(self, shown: Shown) -> str:
        """Return the target as text for the table."""
        return f"≥ {shown(self.bound)}"


@dataclass(frozen=True, slots=True)
class AtMostTimes:
    """An upper bound for the ratio of our number to the other's."""

    ratio: float

    def is_met(self, row: "Row") -> bool | None:
        """Return True if the ratio is at most the bound; None when there is nothing to compare with."""
        return None if row.ratio is None else row.ratio <= self.ratio

    def text(self, _: Shown) -> str:
        """Return the target as text for the table."""
        return f"≤ {self.ratio:g} times"


Target: TypeAlias = AtMost | AtLeast | AtMostTimes


def duration(seconds: float) -> str:
    """Return seconds as text with three significant digits.

    >>> duration(0.0000804)
    '80.4 µs'
    """
    size, unit = next((each for each in _UNITS if abs(seconds) >= each[0]), _UNITS[-1])
    return f"{float(f'{seconds / size:.3g}'):g} {unit}"


def percent(share: float) -> str:
    """Return a share as text in percent.

    >>> percent(0.9746)
    '97.5 %'
    """
    return f"{100 * share:.3g} %"


def megabytes(count: float) -> str:
    """Return megabytes as text.

    >>> megabytes(104.4)
    '104 MB'
    """
    return f"{round(count)} MB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: our number, and the one that it is compared with. Without a target it is for orientation.

    Both are in seconds, unless `shown` formats another unit.
    """

    work: str
    ours: float
    beside: str = ""
    theirs: float | None = None
    target: Target | None = None
    shown: Shown = duration

    @property
    def ratio(self) -> float | None:
        """Our number divided by the other one."""
        return self.ours / self.theirs if self.theirs else None

    @property
    def verdict(self) -> str:
        """`yes` or `NO` for a target that is met or missed, "" without a target."""
        if self.target is None:
            return ""
        return {True: "yes", False: "NO", None: "not compared"}[self.target.is_met(self)]


def row_of(
    work: str,
    ours: Sequence[float],
    *,
    beside: str = "",
    theirs: Sequence[float] = (),
    target: Target | None = None,
    shown: Shown = duration,
) -> Row:
    """Return the row of the medians over all rounds."""
    other = median(theirs) if theirs else None
    return Row(work=work, ours=median(ours), beside=beside, theirs=other, target=target, shown=shown)


def table(found: Iterable[tuple[str, Row]]) -> str:
    """Return a Markdown table of the rows of named benchmarks, with aligned columns."""
    lines = [HEADINGS, *(_cells(name, row) for name, row in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |" for line in lines
    )


def _cells(name: str, row: Row) -> tuple[str, ...]:
    return (
        name,
        row.work,
        row.shown(row.ours),
        row.beside,
        "" if row.theirs is None else row.shown(row.theirs),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.target is None else row.target.text(row.shown),
        row.verdict,
    )
