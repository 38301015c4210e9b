"""A sheet as one HTML file, with the style of the page of a run and without a script."""

from collections.abc import Iterator, Sequence

from agentv.reports.markup import Html, element, join
from agentv.reports.page_parts import asset, page_head, scrolled_table
from agentv.reports.sheet import Part, Sheet


def sheet_html(sheets: Sequence[Sheet]) -> str:
    """Return all sheets as one page: it works from a disk and asks nobody for anything."""
    shown = [_sheet(each) for each in sheets] or [element("p", "There is nothing to show.")]
    body = element("body", element("main", *shown))
    title = sheets[0].title if sheets else "nothing to show"
    head = page_head(f"{title} · agentv", style=asset("report.css"))
    return f"<!doctype html>\n{element('html', head, body, lang='en').markup}\n"


def _sheet(sheet: Sheet) -> Html:
    band = element(
        "header",
        element("p", sheet.title, class_="eyebrow"),
        element("h1", sheet.sentence, dir="auto"),
        class_="verdict told",  # a measurement, neither good nor bad
    )
    return element("article", band, *map(_part, sheet.parts))


def _part(part: Part) -> Html:
    return element("section", element("h2", part.title) if part.title else None, join(_contents(part)))


def _contents(part: Part) -> Iterator[Html]:
    if part.rows:
        yield scrolled_table(part.rows[0], part.rows[1:])
    for finding in part.findings:
        said = [element("dd", element("small", f"{who}: "), what, dir="auto") for who, what in finding.said]
        yield element("dl", element("dt", finding.head, dir="auto"), *said)
    for note in (*part.notes, part.left_out):
        if note:
            yield element("p", note)
