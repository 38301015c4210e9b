"""The parts of a format for documents: one method for each kind of block."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar, assert_never

from agentv.reports.document.blocks import (
    Bars,
    Block,
    Changes,
    Details,
    Facts,
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

    def block(self, block: Block) -> Iterable[Part]:
        """Return the parts of a block."""
        match block:
            case Verdict():
                return self.verdict(block)
            case Facts():
                return self.facts(block)
            case Lines():
                return self.lines(block)
            case Table():
                return self.table(block)
            case Items():
                return self.items(block)
            case Names():
                return self.names(block)
            case Changes():
                return self.changes(block)
            case Bars():
                return self.bars(block)
            case Section():
                return self.section(block)
            case Details():
                return self.details(block)
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
    def section(self, section: Section) -> Iterable[Part]:
        """Return blocks under a title."""

    @abstractmethod
    def details(self, details: Details) -> Iterable[Part]:
        """Return blocks that are not shown at first."""
