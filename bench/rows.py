"""What a benchmark found: one row for each thing measured, and the table of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

HEADINGS = ("benchmark", "work", "ours", "compared with", "theirs", "ratio", "target", "met")

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, slots=True)
class AtMost:
    """A target for what ours takes, in seconds."""

    seconds: float

    def is_met(self, row: "Row") -> bool:
        """Whether ours takes no longer."""
        return row.ours <= self.seconds

    def __str__(self) -> str:
        return f"≤ {duration(self.seconds)}"


@dataclass(frozen=True, slots=True)
class AtMostTimes:
    """A target for how many times as long as what it is compared with ours takes."""

    ratio: float

    def is_met(self, row: "Row") -> bool:
        """Whether ours takes no longer; false as well where there is nothing to compare with."""
        return row.ratio is not None and row.ratio <= self.ratio

    def __str__(self) -> str:
        return f"≤ {self.ratio:g} times"


Target: TypeAlias = AtMost | AtMostTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing measured: seconds of ours, and of what it is compared with. Without a target it is for orientation."""

    work: str
    ours: float
    beside: str = ""
    theirs: float | None = None
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as long as the other ours takes."""
        return self.ours / self.theirs if self.theirs else None


def row_of(
    work: str,
    ours: Sequence[float],
    *,
    beside: str = "",
    theirs: Sequence[float] = (),
    target: Target | None = None,
) -> Row:
    """Return the row of the medians over all rounds."""
    return Row(work=work, ours=median(ours), beside=beside, theirs=median(theirs) if theirs else None, target=target)


def duration(seconds: float) -> str:
    """Return seconds as people read them, three digits that count.

    >>> duration(0.0000804)
    '80.4 µs'
    """
    size, unit = next((each for each in _UNITS if abs(seconds) >= each[0]), _UNITS[-1])
    return f"{float(f'{seconds / size:.3g}'):g} {unit}"


def table(found: Iterable[tuple[str, Row]]) -> str:
    """Return a Markdown table of the rows of named benchmarks, its columns in line for those who read it as it is."""
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
        duration(row.ours),
        row.beside,
        "" if row.theirs is None else duration(row.theirs),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.target is None else str(row.target),
        "" if row.target is None else ("yes" if row.target.is_met(row) else "NO"),
    )
