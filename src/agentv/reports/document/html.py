"""Documents as one self-contained page, which makes no requests and needs no script."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources

from agentv.reports.document.blocks import (
    BEST_MARK,
    Block,
    Boxes,
    Cell,
    Changes,
    CountGrid,
    Details,
    Document,
    Excerpt,
    Facts,
    Histogram,
    Item,
    Items,
    Lines,
    Names,
    RunLine,
    Scatter,
    Section,
    Sentence,
    Table,
    Tone,
    Value,
    Verdict,
    joined,
    plain,
)
from agentv.reports.document.plots import (
    boxes_svg,
    count_grid_svg,
    histogram_svg,
    run_line_legend,
    run_line_svg,
    scatter_legend,
    scatter_svg,
)
from agentv.reports.document.renderer import Renderer
from agentv.reports.text.amounts import count_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Child, Html, element, join, verbatim
from agentv.reports.text.printable import one_line, printable
from agentv.reports.text.signs import UNICODE

_MAX_COMMENT_CHARS = 4_000
_MAX_NAME_CHARS = 500
_MAX_NARROW_COLUMNS = 3
CHARTS = (Histogram, Scatter, Boxes, CountGrid)
"""The blocks of which several stand next to each other."""
_TONES_BY_WEIGHT: tuple[Tone, ...] = ("bad", "unsure", "good", "neutral")


def documents_html(documents: Sequence[Document]) -> str:
    """Return all documents as one page."""
    shown = [element("article", *HtmlRenderer().document(each)) for each in documents]
    first = documents[0] if documents else Document("nothing to show", ())
    title = dict.fromkeys((plain(first.headline), plain(first.title), "agentv"))
    return page(" · ".join(title), shown or [element("p", "There is nothing to show.")])


def page(title: str, parts: Sequence[Html | None], *, script: str | None = None) -> str:
    """Return a page. Its policy allows its own style and script and nothing else."""
    ending = None if script is None else verbatim("script", script)
    body = element("body", element("main", *parts), ending)
    return f"<!doctype html>\n{element('html', _head(title, _style(), script), body, lang='en').markup}\n"


@cache
def _style() -> str:
    return resources.files("agentv.reports.document").joinpath("report.css").read_text("utf-8")


def _head(title: str, style: str, script: str | None) -> Html:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        verbatim("style", style),
    )


def _policy(style: str, script: str | None) -> str:
    allowed = "'none'" if script is None else f"'{_digest(script)}'"
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {allowed}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _sentence(sentence: Sentence, tag: str) -> Html:
    mark = "" if sentence.mark is None else f"{UNICODE.marks[sentence.mark]} "
    return element(tag, f"{mark}{plain(sentence.text)}", class_=sentence.tone, dir="auto")


class HtmlRenderer(Renderer[Html]):
    """Makes elements of a document.

    `level` is that of the headings of sections; that of the headline is above it. `row_address` returns the address of
    the result with a number, to which items that show a stored result then lead; `more_address` lists those that are
    left out.
    """

    def __init__(
        self, level: int = 2, *, row_address: Callable[[int], str] | None = None, more_address: str | None = None
    ) -> None:
        self._level = level
        self._row_address = row_address
        self._more_address = more_address

    def document(self, document: Document) -> Iterator[Html]:
        """Yield the band with the verdicts and the first facts, then the other blocks."""
        first, *others = document.body or (None,)
        facts = first if isinstance(first, Facts) else None
        yield self._band(document, facts)
        for block in others if facts else document.body:
            yield from self.block(block)

    def _band(self, document: Document, facts: Facts | None) -> Html:
        """Return the header: the headline, the other sentences of all verdicts, and the first facts."""
        sentences = [each for verdict in document.verdicts for each in verdict.sentences]
        headline, title = plain(document.headline), plain(document.title)
        others = [each for each in sentences if plain(each.text) != headline]
        tone = min((each.tone for each in sentences), key=_TONES_BY_WEIGHT.index, default="neutral")
        return element(
            "header",
            element("p", "agentv" if title in ("", headline) else f"agentv · {title}", class_="eyebrow"),
            element(f"h{self._level - 1}", headline, dir="auto"),
            element("ul", *(_sentence(each, "li") for each in others), class_="gates") if others else None,
            *(self.facts(facts) if facts else ()),
            class_=f"verdict {tone}",
        )

    def verdict(self, verdict: Verdict) -> Iterator[Html]:
        """Yield the sentences in their colours."""
        yield from (_sentence(each, "p") for each in verdict.sentences)

    def facts(self, facts: Facts) -> Iterator[Html]:
        """Yield the facts as a list of definitions."""
        pairs = (element("div", element("dt", name), element("dd", plain(text))) for name, text in facts.facts)
        yield element("dl", *pairs, class_="facts")

    def lines(self, lines: Lines) -> Iterator[Html]:
        """Yield a box with a paragraph for each sentence."""
        shown = [element("p", plain(line), dir="auto") for line in lines.lines if line]
        if shown:
            yield element("div", *shown, class_="lines")

    def table(self, table: Table) -> Iterator[Html]:
        """Yield the table with row headers; on a narrow page, the cells of a wide one stand below each other."""
        if table.rows:
            is_wide = len(table.heads) > _MAX_NARROW_COLUMNS
            names = [_cell_name(each) if is_wide else None for each in table.heads[1:]]
            head = element("tr", *map(_head_cell, table.heads))
            rows = (_row(cells, names) for cells in table.rows)
            shown = element("table", element("thead", head), element("tbody", *rows))
            yield element("div", shown, class_="scroll stacks" if is_wide else "scroll", tabindex="0")

    def items(self, items: Items) -> Iterator[Html]:
        """Yield each item with its comments, then the number of those that are left out."""
        yield from (_item(each, self._row_address) for each in items.items)
        if items.more:
            link = element("a", "list in Rows", href=self._more_address) if self._more_address else None
            yield element("p", plain(items.more), ", or " if link else None, link)

    def names(self, names: Names) -> Iterator[Html]:
        """Yield the heading and the names as a paragraph."""
        yield element("p", f"{names.heading}: {names.total:,}: {', '.join(names.names)}{names.more}", dir="auto")

    def changes(self, changes: Changes) -> Iterator[Html]:
        """Yield the settings as a table."""
        rows = tuple((each.name, _setting(each.before), _setting(each.after)) for each in changes.changes)
        yield from self.table(Table(("", "before", "after"), rows))

    def histogram(self, histogram: Histogram) -> Iterator[Html]:
        """Yield the histogram as a chart."""
        if any(histogram.bins):
            title = f"scores of {count_text(sum(histogram.bins), 'result')}"
            yield self._figure(title, histogram_svg(histogram), table=histogram.table)

    def run_line(self, line: RunLine) -> Iterator[Html]:
        """Yield the values as a line chart; nothing without a value."""
        drawn = run_line_svg(line)
        if drawn is not None:
            yield self._figure("", drawn, run_line_legend(line))

    def chart(self, chart: Scatter | Boxes | CountGrid) -> Iterator[Html]:
        """Yield the chart with its numbers as a table below."""
        match chart:
            case Scatter():
                yield self._figure(chart.title, scatter_svg(chart), scatter_legend(chart), table=chart.table)
            case Boxes():
                yield self._figure(chart.title, boxes_svg(chart), table=chart.table)
            case CountGrid():
                yield self._figure(chart.title, count_grid_svg(chart), table=chart.table)

    def _figure(self, title: str, *parts: Html | None, table: Table | None = None) -> Html:
        """Return a chart with its title above; its numbers are below it as a table, collapsed."""
        caption = element("figcaption", title) if title else None
        numbers = None if table is None else element("details", element("summary", "Numbers"), *self.table(table))
        return element("figure", caption, *parts, numbers)

    def section(self, section: Section) -> Iterator[Html]:
        """Yield a section with the title and the blocks; charts stand next to each other."""
        title = element(f"h{self._level}", plain(section.title)) if section.title else None
        inside = list(self._inside(section.blocks))
        has_charts = len(inside) > 1 and all(isinstance(each, CHARTS) for each in section.blocks)
        yield element("section", title, *([element("div", *inside, class_="figures")] if has_charts else inside))

    def details(self, details: Details) -> Iterator[Html]:
        """Yield the blocks, collapsed."""
        yield element("details", element("summary", plain(details.summary)), *self._inside(details.blocks))

    def _inside(self, blocks: Sequence[Block]) -> Iterator[Html]:
        inner = HtmlRenderer(self._level + 1, row_address=self._row_address, more_address=self._more_address)
        return (part for each in blocks for part in inner.block(each))


def _setting(value: str | None) -> str:
    return "none" if value is None else one_line(value)


def _item(item: Item, row_address: Callable[[int], str] | None) -> Html:
    mark = element("span", UNICODE.marks[item.mark], class_=f"badge {item.mark}") if item.mark else None
    facts = element("small", f" {plain(joined(item.facts, ', '))}") if item.facts else None
    comments = [
        element(
            "dd",
            element("small", f"{name}: ") if name else None,
            shortened(text, max_chars=_MAX_COMMENT_CHARS),
            dir="auto",
        )
        for name, text in item.comments
    ]
    name: Child = shortened(plain(item.head), max_chars=_MAX_NAME_CHARS)
    if row_address is not None and item.seq is not None:
        name = element("a", name, href=row_address(item.seq))
    head = (mark, " " if mark else None, name, facts)
    brief = element("dd", shortened(item.brief, max_chars=_MAX_COMMENT_CHARS), dir="auto") if item.brief else None
    parts = (element("dd", _item(each, row_address)) for each in item.parts)
    below = [each for each in (brief, *comments, *map(_excerpt, item.excerpts), *parts) if each is not None]
    key = item.key or None
    if not below:
        return element("p", *head, class_="item", dir="auto", data_case=key)
    return element("dl", element("dt", *head, dir="auto"), *below, class_="item", data_case=key)


def _excerpt(excerpt: Excerpt) -> Html:
    text = shortened(printable(excerpt.text), max_chars=_MAX_COMMENT_CHARS)
    return element("dd", element("small", excerpt.name), element("div", text, dir="auto"), class_="excerpt")


def _row(cells: Sequence[Cell], names: Sequence[str | None]) -> Html:
    """Return a row; with names of columns, each cell has the name of its own, which a narrow page shows."""
    first, *others = cells
    shown = (element("td", _cell(cell), data_head=name) for cell, name in zip(others, names, strict=True))
    return element("tr", element("th", _cell(first), scope="row"), *shown)


def _head_cell(cell: Cell) -> Html:
    return element("th", _cell(cell), scope="col") if cell else element("td")


def _cell_name(cell: Cell) -> str:
    return plain(cell.text if isinstance(cell, Value) else cell)


def _cell(cell: Cell) -> Html | str:
    if not isinstance(cell, Value):
        return plain(cell)
    shown = plain(cell.text)
    text = element("b", f"{shown} {BEST_MARK}") if cell.is_best else element("span", shown)
    texts = (element("small", each) for each in (cell.interval, *cell.details) if each)
    return join((text, _share_bar(cell.share), *texts))


def _share_bar(share: float | None) -> Html | None:
    """Return a thin bar filled up to a share.

    It is drawn without style attributes, which the page's Content-Security-Policy forbids.
    """
    if share is None:
        return None
    filled = element("rect", width=f"{100 * share:.2f}", height="4", class_="filled")
    empty = element("rect", width="100", height="4", class_="empty")
    return element(
        "svg", empty, filled, viewBox="0 0 100 4", preserveAspectRatio="none", class_="share", aria_hidden="true"
    )
