"""Documents as Markdown for a pull request, a comment or a job summary: the verdict first, foreign texts as code."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

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
    Quote,
    RunLine,
    Section,
    Table,
    Value,
    Verdict,
    joined,
    pieces_of,
    plain,
)
from agentv.reports.document.renderer import Renderer
from agentv.reports.text.markup import cell_code, element, inline_code
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, sparkline
from agentv.types.results import RowState

_MAX_QUOTE_CHARS = 300
_MAX_OPEN_ITEMS = 3
"""The number of items with excerpts that are not collapsed, so that a comment fits a screen."""
_LINE_BREAK = "\\\n"
_DASH = "\\-"
"""A dash at the start of a line, which would begin a list."""
_BLOCK_START = re.compile(r"\s*(?:>|[-+=]+(?:\s|$)|\d+[.)](?:\s|$))")
"""The start of a line that would be a quotation, a list or the underline of a heading."""
_PLAIN_WORDS = re.compile(r"(?!www\.)(?:[A-Za-z0-9 .,;:()%+=/'\"?$<>~✓✗·→!-](?!//|www\.))*")
"""Characters that have no meaning in Markdown once `<` and `~` are escaped; not an address either, which is a link."""


def short_code(text: str) -> str:
    """Return a short code span, so that a long text does not fill the comment."""
    return inline_code(text, max_chars=_MAX_QUOTE_CHARS)


def documents_markdown(documents: Sequence[Document]) -> str:
    """Return all documents, with an empty line between their blocks."""
    renderer = MarkdownRenderer()
    return "\n\n".join(text for each in documents for text in renderer.document(each)) + "\n"


class MarkdownRenderer(Renderer[str]):
    """Makes paragraphs of a document."""

    def document(self, document: Document) -> Iterator[str]:
        """Yield the title, the verdicts and the other blocks."""
        title = (" · ", *pieces_of(document.title)) if document.title else ()
        yield f"### {_mark(document.mark)}{_line(('agentv', *title))}"
        for number, verdict in enumerate(document.verdicts):
            if number == 0 and len(verdict.sentences) == 1:
                yield f"**{_line(verdict.sentences[0].text, code=inline_code)}**"
            else:
                yield from self.verdict(verdict)
        for block in document.body:
            yield from self.block(block)

    def verdict(self, verdict: Verdict) -> Iterator[str]:
        """Yield the sentences as a paragraph."""
        yield from _paragraph(f"{_mark(each.mark)}{_line(each.text)}" for each in verdict.sentences)

    def facts(self, facts: Facts) -> Iterator[str]:
        """Yield the facts as a paragraph."""
        yield from _paragraph(_line(joined((name, text), ": ") if name else text) for name, text in facts.facts)

    def lines(self, lines: Lines) -> Iterator[str]:
        """Yield the sentences as a paragraph."""
        yield from _paragraph(map(_line, lines.lines))

    def table(self, table: Table) -> Iterator[str]:
        """Yield the table."""
        wide = table.with_intervals()
        heads, *rows = (list(map(_cell, row)) for row in (wide.heads, *wide.rows))
        lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
        if rows:
            yield "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def items(self, items: Items) -> Iterator[str]:
        """Yield the items as a list, each with its texts below.

        Of many long ones the last are collapsed, and the parts of the first ones have a line of each text.
        """
        first, others = items.items[:_MAX_OPEN_ITEMS], items.items[_MAX_OPEN_ITEMS:]
        if not others or not any(item.excerpts or item.parts for item in items.items):
            yield from _list((*map(_item, items.items), _line(items.more)))
            return
        yield from _list(_item(replace(each, parts=tuple(map(_short_part, each.parts)))) for each in first)
        yield f"<details>{_summary(f'{len(others):,} more')}"
        yield from _list(map(_item, others))
        yield "</details>"
        yield from _list([_line(items.more)])

    def names(self, names: Names) -> Iterator[str]:
        """Yield the heading and the names as a paragraph."""
        yield f"{_line(f'{names.heading}: {names.total:,}')}: {', '.join(map(short_code, names.names))}{names.more}"

    def changes(self, changes: Changes) -> Iterator[str]:
        """Yield the settings as a list."""
        yield from _list(
            f"{inline_code(each.name)}: {_setting(each.before)} -> {_setting(each.after)}" for each in changes.changes
        )

    def run_line(self, line: RunLine) -> Iterator[str]:
        """Yield a bar for each value."""
        yield inline_code(sparkline(line.values, UNICODE))

    def histogram(self, histogram: Histogram) -> Iterator[str]:
        """Yield the bars as code, with their scale."""
        highest = max(histogram.bins)
        if highest:
            heights = [math.ceil(count * len(UNICODE.bars) / highest) for count in histogram.bins]
            bars = "".join(UNICODE.bars[height - 1] if height else " " for height in heights)
            yield f"scores: `0 │{bars}│ 1`, {histogram.scale}"

    def section(self, section: Section) -> Iterator[str]:
        """Yield the title as a heading, then the blocks."""
        if section.title:
            yield f"#### {_line(section.title)}"
        for each in section.blocks:
            yield from self.block(each)

    def details(self, details: Details) -> Iterator[str]:
        """Yield the blocks, collapsed if another command prints them."""
        if details.command:
            yield f"<details>{_summary(details.summary)}"
        for each in details.blocks:
            yield from self.block(each)
        if details.command:
            yield "</details>"


def _paragraph(texts: Iterable[str]) -> Iterator[str]:
    lines = [text for text in texts if text]
    if lines:
        yield _LINE_BREAK.join(lines)


def _list(texts: Iterable[str]) -> Iterator[str]:
    lines = [f"- {text}" for text in texts if text]
    if lines:
        yield "\n".join(lines)


def _item(item: Item) -> str:
    facts = f" {_line(joined(item.facts, ', '))}" if item.facts else ""
    brief = f" {short_code(item.brief)}" if item.brief else ""
    comments = (
        f"{f'{_line(name)}: ' if name else ''}{inline_code(text, max_chars=_MAX_QUOTE_CHARS)}"
        for name, text in item.comments
    )
    excerpts = (_excerpt(each) for each in item.excerpts)
    parts = (_item(each).replace(f"{_LINE_BREAK}  ", f"{_LINE_BREAK}    ") for each in item.parts)
    lines = f"{_LINE_BREAK}  ".join((f"{_mark(item.mark)}{_line(item.head)}{facts}{brief}", *comments, *excerpts))
    return "\n  - ".join((lines, *parts))


def _short_part(part: Item) -> Item:
    """Return a part with the first line of each of its texts."""
    return replace(part, excerpts=tuple(map(_first_line, part.excerpts)))


def _first_line(excerpt: Excerpt) -> Excerpt:
    first, *others = excerpt.lines() or ("",)
    return replace(excerpt, text=f"{first} …" if others else first, max_lines=1)


def _excerpt(excerpt: Excerpt) -> str:
    """Return the lines of an excerpt behind its name, each as code."""
    lines = excerpt.lines()
    shown = [*map(short_code, lines[: excerpt.max_lines]), *(["…"] if len(lines) > excerpt.max_lines else [])]
    return f"{excerpt.name}: {f'{_LINE_BREAK}  '.join(shown)}"


def _mark(state: RowState | None) -> str:
    """Return the mark of a state with a blank; empty for None."""
    return "" if state is None else f"{UNICODE.marks[state].replace('-', _DASH)} "


def _setting(value: str | None) -> str:
    return "none" if value is None else inline_code(value, max_chars=_MAX_QUOTE_CHARS)


def _cell(cell: Cell) -> str:
    if not isinstance(cell, Value):
        return _line(cell, code=cell_code)
    texts = [text for text in map(_cell, (cell.text, *cell.details)) if text]
    shown = "<br>".join(texts)
    return f"**{shown} \\{BEST_MARK}**" if cell.is_best else shown


def _line(phrase: Phrase, *, code: Callable[[str], str] = short_code) -> str:
    """Return a phrase on one line: quotes as code, words as text.

    If a character of the words could be markup, or two quotes have no words between them, all of it is code.
    """
    pieces = [piece for piece in pieces_of(phrase) if piece]
    is_readable = all(isinstance(piece, Quote) or _PLAIN_WORDS.fullmatch(piece) for piece in pieces)
    has_neighbours = any(isinstance(one, Quote) and isinstance(other, Quote) for one, other in pairwise(pieces))
    begins_block = code is not cell_code and _BLOCK_START.match(plain(phrase))
    if not is_readable or has_neighbours or begins_block:
        return code(plain(phrase))
    shown = (code(piece.text) if isinstance(piece, Quote) else _escaped(piece) for piece in pieces)
    return "".join(shown).strip()


def _escaped(words: str) -> str:
    return words.replace("<", "&lt;").replace("~", "\\~")


def _summary(phrase: Phrase) -> str:
    """Return a phrase as HTML; mentions and addresses have no effect in its code either."""
    text = one_line(plain(phrase))
    return element("summary", text if _PLAIN_WORDS.fullmatch(text) else element("code", text)).markup
