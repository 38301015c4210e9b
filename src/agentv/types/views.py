"""Short text and HTML of results, for `print` and for notebooks. The HTML is escaped and has no script."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

MAX_LINES = 20
_WIDTH = 300

COLOURS = {"pass": "#1a7f37", "borderline": "#9a6700", "fail": "#cf222e", "error": "#8250df"}


class Line(Struct, frozen=True):
    """One judgement in a view: its state (`pass`, `borderline`, `fail`, `error`, …), name, score 0..1, and reason."""

    state: str
    name: str
    score: float | None = None
    reason: str = ""
    note: str = ""
    """A text after the score, such as the score on the criterion's own scale."""
    texts: tuple[tuple[str, str], ...] = ()
    """Further texts with their names, such as the answer; only the HTML has them."""


class View(Struct, frozen=True):
    """A heading with its state, and lines under it."""

    state: str
    heading: str
    lines: tuple[Line, ...] = ()
    more: int = 0
    """The number of lines that are left out."""


def view_of(state: str, heading: str, lines: Iterable[Line], *, total: int | None = None) -> View:
    """Return a view with the first MAX_LINES lines. `total` is the number of lines if `lines` does not have all."""
    listed = tuple(lines)
    shown = listed[:MAX_LINES]
    return View(state, heading, shown, more=(len(listed) if total is None else total) - len(shown))


def one_line(text: str) -> str:
    """Return a text on one line, truncated if it is long, with control characters as escapes."""
    words = " ".join(text.split())
    printable = "".join(each if each.isprintable() else repr(each)[1:-1] for each in words)
    return printable if len(printable) <= _WIDTH else f"{printable[: _WIDTH - 1]}…"


def score_text(score: float | None) -> str:
    """Return a score with two decimals; `-` for None. A score below 1 is never shown as 1.00."""
    if score is None:
        return "-"
    return "0.99" if 0.99 < score < 1 else f"{score:.2f}"  # noqa: PLR2004 - 0.999 would be rounded up


def view_text(view: View) -> str:
    """Return a view as text: the heading, and a line for each judgement."""
    widths = [max((len(cell) for cell in column), default=0) for column in zip(*map(_cells, view.lines), strict=True)]
    lines = [one_line(view.heading)]
    for line in view.lines:
        state, name, score = (cell.ljust(width) for cell, width in zip(_cells(line), widths, strict=True))
        lines.append(f"  {state}  {score}  {name}  {one_line(line.reason)}".rstrip())
    if view.more:
        lines.append(f"  … and {view.more} more")
    return "\n".join(lines)


def _cells(line: Line) -> tuple[str, str, str]:
    return line.state, one_line(line.name), _score_cell(line)


def _score_cell(line: Line) -> str:
    note = f" ({line.note})" if line.note else ""
    return f"{score_text(line.score)}{note}"


def escape(text: str) -> str:
    """Return a text with `&`, `<`, `>` and quotes as HTML entities."""
    from html import escape as html_escape  # noqa: PLC0415 - loads two thousand entities, and few processes show HTML

    return html_escape(text)


def view_html(view: View) -> str:
    """Return a view as HTML: the heading, and a table with a row for each judgement."""
    heads = list(dict.fromkeys(name for line in view.lines for name, text in line.texts if text))
    rows = [_html_cells(line, heads) for line in view.lines]
    more = f"<p>… and {view.more} more</p>" if view.more else ""
    table = _table(("verdict", "score", "name", *heads, "reason"), rows) if rows else ""
    return f"<div><p>{_marked(view.state, one_line(view.heading))}</p>{table}{more}</div>"


def _html_cells(line: Line, heads: Sequence[str]) -> tuple[str, ...]:
    texts = dict(line.texts)
    said = (texts.get(head, "") for head in heads)
    cells = (_score_cell(line), *map(one_line, (line.name, *said, line.reason)))
    return (_marked(line.state), *map(escape, cells))


def table_html(heading: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a heading and a table of texts as HTML."""
    cells = [[escape(cell) for cell in row] for row in rows]
    return f"<div><p><b>{escape(heading)}</b></p>{_table(head, cells)}</div>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML. `head` has plain texts, which are escaped here; the cells in `rows` are HTML already."""
    titles = "".join(f"<th style='text-align:left'>{escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td style={_LEFT}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


_LEFT = "'text-align:left'"


def _marked(state: str, text: str | None = None) -> str:
    colour = COLOURS.get(state)
    shown = escape(state if text is None else text)
    return f"<b style='color:{colour}'>{shown}</b>" if colour else f"<b>{shown}</b>"


def reason_of(reasoning: str | None, misses: Sequence[str], error: str | None = None) -> str:
    """Return the reason of a judgement: its error, else the reasoning, else the misses."""
    return error or reasoning or "; ".join(misses)
