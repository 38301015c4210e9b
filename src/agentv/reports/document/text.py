"""Documents as text for a terminal: tables cut to its width, sentences wrapped, foreign texts behind a gutter."""

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from agentv.reports.document.blocks import (
    BEST_MARK,
    Cell,
    Changes,
    Details,
    Document,
    Excerpt,
    Facts,
    Histogram,
    Item,
    Items,
    Lines,
    Names,
    Phrase,
    RunLine,
    Section,
    Table,
    Tone,
    Value,
    Verdict,
    pieces_of,
    plain,
)
from agentv.reports.document.renderer import Renderer
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, Paint, Signs, sparkline, state_colour, without_colour
from agentv.reports.text.width import clip, clip_middle, display_width, pad, wrap
from agentv.reports.text.width import table as aligned

_WIDTH = 80
_LABEL_WIDTH = 8
_INDENT = 2
_MIN_HEAD_WIDTH = 8
_MAX_WIDTH = 300
"""The width of a line of an excerpt where nothing is wrapped."""
_MAX_COMMENT_LINES = 3
_MIN_BRIEF_WIDTH = 30
_GAP = 2
_MAX_VALUE_WIDTH = 28
_COMMON_CHARS_SHOWN = 8
_COLOURS: dict[Tone, str] = {"good": "green", "bad": "red", "unsure": "bold"}


class TextRenderer(Renderer[str]):
    """Makes lines of a document. `width` None: nothing is wrapped or cut."""

    def __init__(self, width: int | None = _WIDTH, signs: Signs = UNICODE, paint: Paint = without_colour) -> None:
        self.width = width
        self.signs = signs
        self.paint = paint

    def render(self, documents: Sequence[Document]) -> str:
        """Return all documents, with an empty line between them and between their blocks."""
        return "\n".join("\n\n".join(self._blocks(each)) + "\n" for each in documents)

    def _blocks(self, document: Document) -> Iterator[str]:
        shown = ["\n".join(lines) for block in document.blocks if (lines := list(self.block(block)))]
        if document.is_titled:
            title = "\n".join(self.paint(line, "bold") for line in self._wrapped(document.title))
            # The first block belongs to the title, as the blocks of a section do.
            shown[:1] = ["\n".join((title, *shown[:1]))]
        yield from shown

    def verdict(self, verdict: Verdict) -> Iterator[str]:
        """Yield the sentences in their colours."""
        for each in verdict.sentences:
            mark = "" if each.mark is None else f"{self.signs.marks[each.mark]} "
            yield from (self._painted(line, each.tone) for line in self._wrapped((mark, *pieces_of(each.text))))

    def facts(self, facts: Facts) -> Iterator[str]:
        """Yield the names in a column, and the texts behind them."""
        for name, phrase in facts.facts:
            label = self._clean(name)
            if len(label) >= _LABEL_WIDTH:
                yield from self._wrapped((f"{label}: ", *pieces_of(phrase)))
            else:
                first, *others = self._wrapped(phrase, " " * _LABEL_WIDTH) or [""]
                yield f"{label:<{_LABEL_WIDTH}}{first[_LABEL_WIDTH:]}".rstrip()
                yield from others

    def lines(self, lines: Lines) -> Iterator[str]:
        """Yield the sentences."""
        for phrase in lines.lines:
            yield from self._wrapped(phrase)

    def table(self, table: Table) -> Iterator[str]:
        """Yield the aligned rows; the head is dim."""
        wide = table.with_intervals()
        cells = [[self._cell(cell) for cell in row] for row in (wide.heads, *wide.rows)]
        yield from aligned(cells, self.width, self.paint, mark=self.signs.ellipsis) if table.rows else ()

    def items(self, items: Items) -> Iterator[str]:
        """Yield each item with its comments behind a gutter."""
        for item in items.items:
            yield from self._item(item)
        if items.more:
            yield self._clean(items.more)  # not wrapped: a command is to be copied

    def _item(self, item: Item) -> Iterator[str]:
        yield from self._item_head(item)
        for name, text in item.comments:
            yield from self._comment(f"{name}: {text}" if name else text)
        name_width = max((len(each.name) for each in item.excerpts), default=0)
        for excerpt in item.excerpts:
            yield from self._excerpt(excerpt, name_width)
        inner = TextRenderer(None if self.width is None else max(self.width - _INDENT, 1), self.signs, self.paint)
        width = max((display_width(inner._clean(each.head)) for each in item.parts), default=0)
        for part in item.parts:
            head = pad(inner._clean(part.head), width) if part.facts else part.head
            yield from (f"{' ' * _INDENT}{line}" for line in inner._item(replace(part, head=head)))

    def names(self, names: Names) -> Iterator[str]:
        """Yield the heading, and the names below."""
        yield from self._wrapped(f"{names.heading}: {names.total:,}")
        yield from self._wrapped(f"{', '.join(names.names)}{names.more}", "  ")

    def changes(self, changes: Changes) -> Iterator[str]:
        """Yield each setting with both values, cut if long; if they start alike, from shortly before they differ."""
        for change in changes.changes:
            values = ["none" if each is None else self._clean(each) for each in (change.before, change.after)]
            if self.width is not None:
                common = _common_start(*values)
                if common > _MAX_VALUE_WIDTH // 2 and max(map(display_width, values)) > _MAX_VALUE_WIDTH:
                    values = [f"{self.signs.ellipsis}{value[common - _COMMON_CHARS_SHOWN :]}" for value in values]
                values = [self._clipped(value, _MAX_VALUE_WIDTH) for value in values]
            yield from self._wrapped(f"{change.name}: {' -> '.join(values)}", "  ")

    def run_line(self, line: RunLine) -> Iterator[str]:
        """Yield a bar for each value and the marks below; only the last ones if not all fit."""
        room = (_WIDTH if self.width is None else self.width) - _LABEL_WIDTH
        indent = " " * _LABEL_WIDTH
        yield f"{indent}{sparkline(line.values[-room:], self.signs)}"
        if marks := line.marks[-room:].rstrip():
            yield f"{indent}{marks}"

    def histogram(self, histogram: Histogram) -> Iterator[str]:
        """Yield the bars on a line with their scale; on a narrow terminal, the bars are thin and above it."""
        highest = max(histogram.bins)
        if not highest:
            return
        is_narrow = self.width is not None and self.width < _WIDTH
        heights = [math.ceil(count * len(self.signs.bars) / highest) for count in histogram.bins]
        bars = "".join((self.signs.bars[height - 1] if height else " ") * (1 if is_narrow else 3) for height in heights)
        shown = f"scores  0 {self.signs.gutter}{bars}{self.signs.gutter} 1"
        yield from (shown, f"        {histogram.scale}") if is_narrow else (f"{shown}   {histogram.scale}",)

    def section(self, section: Section) -> Iterator[str]:
        """Yield the title and the blocks, with no empty line between them."""
        yield from (self.paint(line, "bold") for line in self._wrapped(section.title))
        for each in section.blocks:
            yield from self.block(each)

    def details(self, details: Details) -> Iterator[str]:
        """Yield the command that prints the details, or without one the blocks."""
        if details.command:
            yield from self._wrapped(f"Details: {details.command}")
            return
        for each in details.blocks:
            yield from self.block(each)

    def _clean(self, phrase: Phrase) -> str:
        return self.signs.escape_unsupported(one_line(plain(phrase)))

    def _cell(self, cell: Cell) -> str:
        if isinstance(cell, Value):
            mark = BEST_MARK if cell.is_best else ""
            return " ".join(filter(None, map(self._clean, (cell.text, mark, *cell.details))))
        return self._clean(cell)

    def _painted(self, line: str, tone: Tone) -> str:
        return self.paint(line, _COLOURS[tone]) if tone in _COLOURS else line

    def _wrapped(self, phrase: Phrase, indent: str = "") -> list[str]:
        shown = self._clean(phrase)
        if not shown:
            return []
        lines = [shown] if self.width is None else wrap(shown, max(self.width - len(indent), 1))
        return [f"{indent}{line}" for line in lines]

    def _clipped(self, text: str, width: int) -> str:
        return clip(text, width, mark=self.signs.ellipsis)

    def _item_head(self, item: Item) -> Iterator[str]:
        """Yield the head with the facts, wrapped and not cut: the end of a name may be what tells it from others."""
        facts = "".join(f"  {self._clean(each)}" for each in item.facts)
        text = self._clean(item.head)
        mark, colour = ("", "") if item.mark is None else (f"{self.signs.marks[item.mark]} ", state_colour(item.mark))
        first, *others = self._head_lines(f"{text}{facts}", self._clean(item.brief), display_width(mark))
        yield f"{self.paint(mark[:1], colour)}{mark[1:]}{first}"
        yield from (f"{' ' * _INDENT}{line}" for line in others)

    def _head_lines(self, head: str, brief: str, mark_width: int) -> list[str]:
        """Return a head, wrapped, and a text behind it that is cut; below it if less than 30 cells are left for it."""
        if self.width is None:
            return [f"{head}  {brief}" if brief else head]
        room = self.width - mark_width - display_width(head) - _GAP
        if brief and room >= min(_MIN_BRIEF_WIDTH, display_width(brief)):
            return [f"{head}  {self._clipped(brief, room)}"]
        inner = max(self.width - _INDENT, 1)
        lines = wrap(head, inner) if room < -_GAP else [head]
        return [*lines, self._clipped(brief, inner)] if brief else lines

    def _excerpt(self, excerpt: Excerpt, name_width: int) -> Iterator[str]:
        """Yield the lines of an excerpt behind its name and a gutter."""
        room = _MAX_WIDTH if self.width is None else max(self.width - name_width - 2 * _INDENT - 1, _MIN_HEAD_WIDTH)
        lines = [self.signs.escape_unsupported(line) for line in excerpt.lines()]
        if excerpt.max_lines == 1:
            lines = [clip_middle(line, room, mark=self.signs.ellipsis) for line in lines]
        elif self.width is not None:
            lines = [piece for line in lines for piece in wrap(line, room)]
        more = lines[excerpt.max_lines :]
        lines = lines[: excerpt.max_lines]
        if more:
            lines[-1] = self._clipped(f"{lines[-1]} {more[0]}", min(room, display_width(lines[-1]) + _INDENT))
        for number, line in enumerate(lines):
            name = "" if number else excerpt.name
            yield f"  {name:{name_width}} {self.signs.gutter} {self._clipped(line, room)}"

    def _comment(self, text: str) -> Iterator[str]:
        shown, gutter = self._clean(text), f"  {self.signs.gutter} "
        if self.width is None:
            yield f"{gutter}{shown}"
            return
        room = self.width - len(gutter)
        lines = wrap(shown, room)
        if len(lines) > _MAX_COMMENT_LINES:
            last = f"{lines[_MAX_COMMENT_LINES - 1]} {lines[_MAX_COMMENT_LINES]}"
            lines[_MAX_COMMENT_LINES - 1 :] = [self._clipped(last, room)]
        yield from (f"{gutter}{line}" for line in lines)


def _common_start(one: str, other: str) -> int:
    """Return the number of characters with which both texts start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))
