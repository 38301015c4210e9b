"""The parts of a format for documents: one method for each kind of block."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, assert_never

from agentv.reports.document.blocks import (
    Block,
    Boxes,
    Changes,
    CountGrid,
    Details,
    Facts,
    Histogram,
    Items,
    Lines,
    Names,
    Plot,
    RunLine,
    Scatter,
    Section,
    Table,
    Verdict,
)

Part = TypeVar("Part")


class Renderer(ABC, Generic[Part]):
    """Makes parts of a report, such as lines or elements, of its blocks."""

    def block(self, block: Block) -> Iterator[Part]:
        """Yield the parts of a block."""
        match block:
            case Verdict():
                yield from self.verdict(block)
            case Facts():
                yield from self.facts(block)
            case Lines():
                yield from self.lines(block)
            case Table():
                yield from self.table(block)
            case Items():
                yield from self.items(block)
            case Names():
                yield from self.names(block)
            case Changes():
                yield from self.changes(block)
            case Histogram() | RunLine() | Scatter() | Boxes() | CountGrid():
                yield from self.plot(block)
            case Section():
                yield from self.section(block)
            case Details():
                yield from self.details(block)
            case _:
                assert_never(block)

    def plot(self, plot: Plot) -> Iterator[Part]:
        """Yield the parts of a plot."""
        match plot:
            case Histogram():
                yield from self.histogram(plot)
            case RunLine():
                yield from self.run_line(plot)
            case _:
                yield from self.chart(plot)

    @abstractmethod
    def verdict(self, verdict: Verdict) -> Iterable[Part]:
        """Return a verdict that is not at the top of a document."""

    @abstractmethod
    def facts(self, facts: Facts) -> Iterable[Part]:
        """Return names with their texts."""

    @abstractmethod
    def lines(self, lines: Lines) -> Iterable[Part]:
        """Return sentences."""

    @abstractmethod
    def table(self, table: Table) -> Iterable[Part]:
        """Return a table; nothing without rows."""

    @abstractmethod
    def items(self, items: Items) -> Iterable[Part]:
        """Return a list of items with comments."""

    @abstractmethod
    def names(self, names: Names) -> Iterable[Part]:
        """Return a heading with names."""

    @abstractmethod
    def changes(self, changes: Changes) -> Iterable[Part]:
        """Return settings that differ."""

    @abstractmethod
    def histogram(self, histogram: Histogram) -> Iterable[Part]:
        """Return a histogram; nothing without scores."""

    @abstractmethod
    def run_line(self, line: RunLine) -> Iterable[Part]:
        """Return values from run to run."""

    def chart(self, chart: Scatter | Boxes | CountGrid) -> Iterable[Part]:
        """Return the numbers of a chart as a table, for a format that cannot draw it."""
        return self.table(chart.table)

    @abstractmethod
    def section(self, section: Section) -> Iterable[Part]:
        """Return blocks under a title."""

    @abstractmethod
    def details(self, details: Details) -> Iterable[Part]:
        """Return blocks that are not shown at first."""
