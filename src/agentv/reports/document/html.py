"""Documents as one self-contained page, which makes no requests and needs no script."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources

from agentv.reports.document.blocks import (
    BEST_MARK,
    Bars,
    Block,
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
    Section,
    Sentence,
    Table,
    Tone,
    Value,
    Verdict,
    joined,
    plain,
)
from agentv.reports.document.renderer import Renderer
from agentv.reports.text.amounts import count_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Html, element, join, verbatim
from agentv.reports.text.printable import one_line, printable
from agentv.reports.text.signs import UNICODE, sparkline

_BAR_WIDTH = 36
_BAR_GAP = 4
_CHART_HEIGHT = 96
_MAX_COMMENT_CHARS = 4_000
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
    """Makes elements of a document. `level` is that of the headings of sections."""

    def __init__(self, level: int = 2) -> None:
        self._level = level

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
            element("h1", headline, dir="auto"),
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
        """Yield the table in a box that scrolls horizontally, with row headers."""
        head = element("tr", *(element("th", _cell(text), scope="col") for text in table.heads))
        body = [
            element("tr", element("th", _cell(first), scope="row"), *(element("td", _cell(cell)) for cell in cells))
            for first, *cells in table.rows
        ]
        shown = element("table", element("thead", head), element("tbody", *body))
        if body:
            yield element("div", shown, class_="scroll", tabindex="0")

    def items(self, items: Items) -> Iterator[Html]:
        """Yield each item with its comments, then the number of those that are left out."""
        yield from map(_item, items.items)
        if items.more:
            yield element("p", plain(items.more))

    def names(self, names: Names) -> Iterator[Html]:
        """Yield the heading and the names as a paragraph."""
        yield element("p", f"{names.heading}: {names.total:,}: {', '.join(names.names)}{names.more}", dir="auto")

    def changes(self, changes: Changes) -> Iterator[Html]:
        """Yield the settings as a table."""
        rows = tuple((each.name, _setting(each.before), _setting(each.after)) for each in changes.changes)
        yield from self.table(Table(("", "before", "after"), rows))

    def bars(self, bars: Bars) -> Iterator[Html]:
        """Yield the bars as text."""
        yield element("p", sparkline(bars.values, UNICODE))

    def histogram(self, histogram: Histogram) -> Iterator[Html]:
        """Yield the histogram as a chart."""
        if any(histogram.bins):
            yield _chart(histogram.bins)

    def section(self, section: Section) -> Iterator[Html]:
        """Yield a section with the title and the blocks."""
        title = element(f"h{self._level}", plain(section.title)) if section.title else None
        yield element("section", title, *self._inside(section.blocks))

    def details(self, details: Details) -> Iterator[Html]:
        """Yield the blocks, collapsed."""
        yield element("details", element("summary", plain(details.summary)), *self._inside(details.blocks))

    def _inside(self, blocks: Sequence[Block]) -> Iterator[Html]:
        inner = HtmlRenderer(self._level + 1)
        return (part for each in blocks for part in inner.block(each))


def _setting(value: str | None) -> str:
    return "none" if value is None else one_line(value)


def _item(item: Item) -> Html:
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
    head = element("dt", mark, f" {plain(item.head)}" if mark else plain(item.head), facts, dir="auto")
    brief = element("dd", shortened(item.brief, max_chars=_MAX_COMMENT_CHARS), dir="auto") if item.brief else None
    parts = (element("dd", _item(each)) for each in item.parts)
    return element("dl", head, brief, *comments, *map(_excerpt, item.excerpts), *parts)


def _excerpt(excerpt: Excerpt) -> Html:
    text = shortened(printable(excerpt.text), max_chars=_MAX_COMMENT_CHARS)
    return element("dd", element("small", excerpt.name), element("div", text, dir="auto"), class_="excerpt")


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


def _chart(bins: Sequence[int]) -> Html:
    """Return the histogram of scores as SVG."""
    highest = max(bins)
    step = _BAR_WIDTH + _BAR_GAP
    bars = [_bar(index, count, len(bins), highest) for index, count in enumerate(bins)]
    marks = [
        element("text", f"{index / len(bins):g}", x=str(index * step), y=str(_CHART_HEIGHT + 34), class_="tick")
        for index in range(len(bins) + 1)
    ]
    description = f"Scores of {count_text(sum(bins), 'scored result')} in ten bins: {', '.join(map(str, bins))}"
    return element(
        "svg",
        element("title", description),
        *bars,
        *marks,
        viewBox=f"-12 0 {len(bins) * step + 24} {_CHART_HEIGHT + 40}",
        role="img",
        class_="histogram",
    )


def _bar(index: int, count: int, bins: int, highest: int) -> Html:
    """Return a bar with its count above, in the colour of the verdict for its scores."""
    height = max(_CHART_HEIGHT * count / highest, 1.5 if count else 0)
    left, top = index * (_BAR_WIDTH + _BAR_GAP), _CHART_HEIGHT + 18 - height
    middle = (index + 0.5) / bins
    band = "pass" if middle > 0.8 else "borderline" if middle > 0.6 else "fail"  # noqa: PLR2004 - the bands of verdicts
    return join(
        (
            element(
                "rect", x=str(left), y=f"{top:.1f}", width=str(_BAR_WIDTH), height=f"{height:.1f}", rx="2", class_=band
            ),
            element("text", f"{count:,}", x=str(left + _BAR_WIDTH / 2), y=f"{top - 5:.1f}", class_="count")
            if count
            else None,
        )
    )
