"""The blocks of a report: what it says, without how a terminal, a pull request or a page shows it.

A text is a `Phrase`. Words of agentv are plain strings; text from files, models and other people is a `Quote`, which
Markdown puts into code. Each renderer escapes both, so a wrong choice changes the look and not the safety.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.reports.text.amounts import Unit, amount_text, bounds_text
from agentv.reports.text.printable import one_line
from agentv.types.results import RowState

INTERVAL = "95 % CI"
BEST_MARK = "*"

Tone: TypeAlias = Literal["good", "unsure", "bad", "neutral"]


class Quote(Struct, frozen=True):
    """Text that agentv did not write."""

    text: str


Phrase: TypeAlias = str | Quote | tuple[str | Quote, ...]
"""Text on one line; a tuple is joined without blanks."""


class Sentence(Struct, frozen=True):
    """A sentence of a verdict. Its tone is a colour; the mark of a state may stand before it."""

    text: Phrase
    tone: Tone = "neutral"
    mark: RowState | None = None


class Verdict(Struct, frozen=True):
    """The result of a report. A terminal shows it in its place; a page shows all verdicts at its top, the last first.

    What stands last on a terminal is read first, and so is what stands first on a page.
    """

    sentences: tuple[Sentence, ...]


class Facts(Struct, frozen=True):
    """Names with their texts. A fact without a name continues the fact before it."""

    facts: tuple[tuple[str, Phrase], ...]


class Lines(Struct, frozen=True):
    """Sentences, each on a line of its own."""

    lines: tuple[Phrase, ...]


class Value(Struct, frozen=True):
    """A number in a table, with its 95 % interval and further texts."""

    text: Phrase
    interval: str = ""
    details: tuple[str, ...] = ()
    share: float | None = None
    """Drawn as a bar where there is room."""
    is_best: bool = False


Cell: TypeAlias = Phrase | Value


class Table(Struct, frozen=True):
    """A table. The first cell of a row is its name; the others are aligned on the right."""

    heads: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def with_intervals(self) -> "Table":
        """Return the table with the intervals of a column, if it has any, in a column of their own."""
        widened = {index for row in self.rows for index, cell in enumerate(row) if _interval(cell)}

        def line(cells: tuple[Cell, ...], intervals: Iterable[Cell]) -> tuple[Cell, ...]:
            pairs = enumerate(zip(cells, intervals, strict=True))
            return tuple(each for index, pair in pairs for each in (pair if index in widened else pair[:1]))

        rows = tuple(line(row, map(_interval, row)) for row in self.rows)
        return Table(line(self.heads, (INTERVAL,) * len(self.heads)), rows)


def _interval(cell: Cell) -> str:
    return cell.interval if isinstance(cell, Value) else ""


class Excerpt(Struct, frozen=True):
    """The start of a text that agentv did not write, under its name: at most `max_lines` lines.

    With one line, the line breaks of the text are shown as blanks.
    """

    name: str
    text: str
    max_lines: int = 1

    def lines(self) -> tuple[str, ...]:
        """Return the first lines with text, each printable and cut to 2,000 characters, and at most one more."""
        start = self.text[:_MAX_EXCERPT_CHARS]
        lines = [start] if self.max_lines == 1 else start.splitlines()
        found = tuple(filter(None, (one_line(line[:_MAX_LINE_CHARS]) for line in lines)))
        return found[: self.max_lines + 1]


_MAX_LINE_CHARS = 2_000
_MAX_EXCERPT_CHARS = 16_000
"""The number of characters of a text that are cleaned; to clean all of a very long text would be slow."""


class Item(Struct, frozen=True):
    """An item with facts behind its head, and comments below: pairs of a name, which may be empty, and a text.

    `excerpts` follow the comments, and `parts` the excerpts. `brief` is a text behind the facts that may be cut.
    """

    head: Phrase
    facts: tuple[Phrase, ...] = ()
    mark: RowState | None = None
    comments: tuple[tuple[str, str], ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    parts: "tuple[Item, ...]" = ()
    brief: str = ""
    key: str = ""
    """What the item is about; a page shows and hides it together with other elements of the same key."""
    seq: int | None = None
    """The number of the result that the item shows, if it is stored."""


class Items(Struct, frozen=True):
    """A list."""

    items: tuple[Item, ...]
    more: Phrase = ""
    """How many items are left out, and where they are."""


class Names(Struct, frozen=True):
    """The first names of a list under its heading, and the number of all."""

    heading: str
    names: tuple[str, ...]
    total: int

    @property
    def more(self) -> str:
        """How many names are left out; empty if none is."""
        left_out = self.total - len(self.names)
        return f" and {left_out:,} more" if left_out else ""


class Change(Struct, frozen=True):
    """A setting with its two values; None where it is not set."""

    name: str
    before: str | None
    after: str | None


class Changes(Struct, frozen=True):
    """Settings that differ."""

    changes: tuple[Change, ...]


class Histogram(Struct, frozen=True):
    """The numbers of scores in bins of equal width, from 0 to 1."""

    bins: tuple[int, ...]

    @property
    def scale(self) -> str:
        """The number of scores in the largest bin."""
        return f"largest bin: {max(self.bins):,} of {sum(self.bins):,}"

    @property
    def table(self) -> Table:
        """The numbers of the bins."""
        edges = [f"{number / len(self.bins):g}" for number in range(len(self.bins) + 1)]
        rows = zip(pairwise(edges), self.bins, strict=True)
        return Table(("score", "results"), tuple((f"{low} to {high}", f"{count:,}") for (low, high), count in rows))


class Axis(Struct, frozen=True):
    """What an axis of a chart shows, and its unit."""

    name: str
    unit: Unit

    def text(self, value: float | None) -> str:
        """Return a number on this axis."""
        return amount_text(value, self.unit)


class RunPoint(Struct, frozen=True):
    """A value of a line chart with its 95 % interval; None is a gap."""

    name: str
    value: float | None
    bounds: tuple[float, float] | None = None
    date: str = ""
    text: str = ""
    """What a page shows when the pointer is on it."""
    is_changed: bool = False
    """True if a new level begins here."""
    is_edited: bool = False
    """True if it cannot be compared with the points before."""


class RunLine(Struct, frozen=True):
    """Values in their order, from run to run. Text formats show a bar for each."""

    axis: Axis
    points: tuple[RunPoint, ...]

    @property
    def values(self) -> tuple[float | None, ...]:
        """The values without their intervals."""
        return tuple(each.value for each in self.points)

    @property
    def marks(self) -> str:
        """A mark for each value: `^` for a new level, `|` for an edit, else a blank."""
        return "".join("^" if each.is_changed else "|" if each.is_edited else " " for each in self.points)


class ScatterPoint(Struct, frozen=True):
    """A named pair of numbers, with the 95 % interval of `y`."""

    name: str
    x: float
    y: float
    y_bounds: tuple[float, float] | None = None


class Scatter(Struct, frozen=True):
    """Named points with two numbers each."""

    title: str
    corner: str
    """What a point is."""
    x: Axis
    y: Axis
    points: tuple[ScatterPoint, ...]

    @property
    def table(self) -> Table:
        """The numbers of the points, in their order."""
        rows = tuple(
            (Quote(each.name), self.x.text(each.x), Value(self.y.text(each.y), _bounds(each.y_bounds, self.y)))
            for each in self.points
        )
        return Table((self.corner, self.x.name, self.y.name), rows)


QUANTILES = ("5 %", "25 %", "median", "75 %", "95 %")


class Box(Struct, frozen=True):
    """A distribution by its quantiles, in the order of `QUANTILES`."""

    name: str
    quantiles: tuple[float, float, float, float, float]
    median_bounds: tuple[float, float] | None = None


class Boxes(Struct, frozen=True):
    """Distributions of the same amount."""

    title: str
    corner: str
    """What has a distribution."""
    axis: Axis
    boxes: tuple[Box, ...]

    @property
    def table(self) -> Table:
        """The quantiles, a row for each distribution."""
        return Table((self.corner, *QUANTILES), tuple(map(self._row, self.boxes)))

    def _row(self, box: Box) -> tuple[Cell, ...]:
        p5, p25, median, p75, p95 = map(self.axis.text, box.quantiles)
        return Quote(box.name), p5, p25, Value(median, _bounds(box.median_bounds, self.axis)), p75, p95


class CountGrid(Struct, frozen=True):
    """Counts by two verdicts; the counts on the diagonal are those that agree."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def table(self) -> Table:
        """The counts."""
        rows = zip(self.rows, self.counts, strict=True)
        return Table(("", *self.columns), tuple((name, *(f"{each:,}" for each in counts)) for name, counts in rows))


def _bounds(bounds: tuple[float, float] | None, axis: Axis) -> str:
    return "" if bounds is None else bounds_text(*bounds, axis.unit)


class Section(Struct, frozen=True):
    """Blocks under a title, which may be empty. On a terminal no empty line is between them."""

    title: Phrase
    blocks: "tuple[Block, ...]"


class Details(Struct, frozen=True):
    """Blocks that a page shows on demand."""

    summary: Phrase
    blocks: "tuple[Block, ...]"
    command: str = ""
    """A terminal shows this command instead, which prints the blocks; without one, text formats show the blocks."""


Plot: TypeAlias = Histogram | RunLine | Scatter | Boxes | CountGrid
Block: TypeAlias = Verdict | Facts | Lines | Table | Items | Names | Changes | Plot | Section | Details


class Document(Struct, frozen=True):
    """A report."""

    title: Phrase
    blocks: tuple[Block, ...]
    is_titled: bool = True
    """False if a terminal omits the title, because the command line above it says the same."""
    mark: RowState | None = None
    """The state whose mark stands before the title of a pull request comment."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts in the order of a page, the last one first."""
        return tuple(reversed([each for each in self.blocks if isinstance(each, Verdict)]))

    @property
    def headline(self) -> Phrase:
        """The first sentence on a page; the title if there is none, or several that are equally important."""
        first = self.verdicts[0].sentences if self.verdicts else ()
        return first[0].text if len(first) == 1 else self.title

    @property
    def body(self) -> tuple[Block, ...]:
        """All blocks but the verdicts, which a page shows at its top."""
        return tuple(each for each in self.blocks if not isinstance(each, Verdict))


def pieces_of(phrase: Phrase) -> tuple[str | Quote, ...]:
    """Return the pieces of a phrase."""
    return phrase if isinstance(phrase, tuple) else (phrase,)


def plain(phrase: Phrase) -> str:
    """Return the text of a phrase, which is not escaped."""
    return "".join(each.text if isinstance(each, Quote) else each for each in pieces_of(phrase))


def joined(phrases: tuple[Phrase, ...], separator: str) -> tuple[str | Quote, ...]:
    """Return phrases as one, with a separator between them."""
    pieces = [piece for phrase in phrases for piece in (separator, *pieces_of(phrase))]
    return tuple(pieces[1:])
