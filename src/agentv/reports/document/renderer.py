"""The parts of a format for documents: one method for each kind of block."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, assert_never

from agentv.reports.document.blocks import (
    Bars,
    Block,
    Changes,
    Details,
    Facts,
    Histogram,
    Items,
    Lines,
    Names,
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
            case Bars():
                yield from self.bars(block)
            case Histogram():
                yield from self.histogram(block)
            case Section():
                yield from self.section(block)
            case Details():
                yield from self.details(block)
            case _:
                assert_never(block)

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
    def bars(self, bars: Bars) -> Iterable[Part]:
        """Return a series of bars."""

    @abstractmethod
    def histogram(self, histogram: Histogram) -> Iterable[Part]:
        """Return a histogram; nothing without scores."""

    @abstractmethod
    def section(self, section: Section) -> Iterable[Part]:
        """Return blocks under a title."""

    @abstractmethod
    def details(self, details: Details) -> Iterable[Part]:
        """Return blocks that are not shown at first."""
