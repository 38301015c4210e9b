"""A small report of tables and findings, rendered as text, Markdown or HTML."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentv.reports.html.parts import asset, page_head, scrolled_table
from agentv.reports.text.markup import Html, cell_code, element, inline_code, join
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, Paint, Signs, without_colour
from agentv.reports.text.width import table, wrap


class Finding(Struct, frozen=True):
    """A finding with comments, each a pair of source and text."""

    head: str
    comments: tuple[tuple[str, str], ...] = ()


class Part(Struct, frozen=True):
    """A titled part. The first of `rows` names the columns; `findings` follow, then `notes`.

    `left_out` is a text about the omitted findings: how many, and where to see them.
    """

    title: str
    rows: tuple[tuple[str, ...], ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str = ""


class Sheet(Struct, frozen=True):
    """A report: its subject, its result in one sentence, and its parts."""

    title: str
    sentence: str
    parts: tuple[Part, ...]


def sheet_html(sheets: Sequence[Sheet]) -> str:
    """Return all sheets as one self-contained page, which makes no requests."""
    shown = [_sheet_element(each) for each in sheets] or [element("p", "There is nothing to show.")]
    body = element("body", element("main", *shown))
    title = sheets[0].title if sheets else "nothing to show"
    head = page_head(f"{title} · agentv", style=asset("report.css"))
    return f"<!doctype html>\n{element('html', head, body, lang='en').markup}\n"


def _sheet_element(sheet: Sheet) -> Html:
    band = element(
        "header",
        element("p", sheet.title, class_="eyebrow"),
        element("h1", sheet.sentence, dir="auto"),
        class_="verdict neutral",  # a measurement is neither good nor bad
    )
    return element("article", band, *map(_part_element, sheet.parts))


def _part_element(part: Part) -> Html:
    return element("section", element("h2", part.title) if part.title else None, join(_contents(part)))


def _contents(part: Part) -> Iterator[Html]:
    if part.rows:
        yield scrolled_table(part.rows[0], part.rows[1:])
    for finding in part.findings:
        comments = [element("dd", element("small", f"{name}: "), text, dir="auto") for name, text in finding.comments]
        yield element("dl", element("dt", finding.head, dir="auto"), *comments)
    for note in (*part.notes, part.left_out):
        if note:
            yield element("p", note)


_MAX_COMMENT_CHARS = 300


def sheet_markdown(sheets: Sequence[Sheet]) -> str:
    """Return all sheets as Markdown, for a job summary, a comment or a file."""
    return "\n\n".join(block for sheet in sheets for block in _markdown_sheet(sheet)) + "\n"


def _markdown_sheet(sheet: Sheet) -> Iterator[str]:
    yield f"### {inline_code(sheet.title)}"
    yield f"**{inline_code(sheet.sentence)}**"
    for part in sheet.parts:
        yield from _markdown_part(part)


def _markdown_part(part: Part) -> Iterator[str]:
    if part.title:
        yield f"**{inline_code(part.title)}**"
    if part.rows:
        head, *rows = part.rows
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *([cell_code(cell) for cell in row] for row in rows)]
        yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    items = [
        "\\\n  ".join([f"- {inline_code(each.head)}", *(_comment(*comment) for comment in each.comments)])
        for each in part.findings
    ]
    items += [f"- {inline_code(note)}" for note in (*part.notes, part.left_out) if note]
    if items:
        yield "\n".join(items)


def _comment(name: str, text: str) -> str:
    return inline_code(f"{name}: {text}", max_chars=_MAX_COMMENT_CHARS)


_MAX_COMMENT_LINES = 3


def sheet_text(sheet: Sheet, *, width: int | None = 80, signs: Signs = UNICODE, paint: Paint = without_colour) -> str:
    """Return the sheet as text, with tables cut to `width` and sentences wrapped; None does not cut or wrap."""
    lines = [*(paint(line, "bold") for line in _wrapped(sheet.title, width)), *_wrapped(sheet.sentence, width)]
    for part in sheet.parts:
        lines.append("")
        lines.extend(_text_part(part, width, paint))
    return signs.escape_unsupported("\n".join(lines) + "\n")


def _text_part(part: Part, width: int | None, paint: Paint) -> Iterator[str]:
    if part.title:
        yield paint(one_line(part.title), "bold")
    yield from table([[one_line(cell) for cell in row] for row in part.rows], width, paint)
    for finding in part.findings:
        yield from _finding(finding, width)
    for note in (*part.notes, part.left_out):
        yield from _wrapped(note, width)


def _finding(finding: Finding, width: int | None) -> Iterator[str]:
    yield from _wrapped(finding.head, width)
    for name, text in finding.comments:
        lines = _wrapped(f"{name}: {text}", None if width is None else width - 2)
        yield from (f"  {line}" for line in lines[:_MAX_COMMENT_LINES])


def _wrapped(text: str, width: int | None) -> list[str]:
    shown = one_line(text)
    if not shown:
        return []
    return [shown] if width is None else wrap(shown, width)
