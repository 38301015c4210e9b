"""A sheet as plain text, as wide as the terminal is."""

from collections.abc import Iterator

from agentv.reports.paint import Paint, without_colour
from agentv.reports.printable import one_line
from agentv.reports.sheet import Finding, Part, Sheet
from agentv.reports.signs import UNICODE, Signs
from agentv.reports.table import table
from agentv.reports.text_width import wrap

_REASON_LINES = 3


def sheet_text(sheet: Sheet, *, width: int | None = 80, signs: Signs = UNICODE, paint: Paint = without_colour) -> str:
    """Return the sheet; tables are cut to `width`, sentences wrapped. `width` None: nothing is."""
    lines = [*(paint(line, "bold") for line in _wrapped(sheet.title, width)), *_wrapped(sheet.sentence, width)]
    for part in sheet.parts:
        lines.append("")
        lines.extend(_part(part, width, paint))
    return signs.within("\n".join(lines) + "\n")


def _part(part: Part, width: int | None, paint: Paint) -> Iterator[str]:
    if part.title:
        yield paint(one_line(part.title), "bold")
    yield from table([[one_line(cell) for cell in row] for row in part.rows], width, paint)
    for finding in part.findings:
        yield from _finding(finding, width)
    for note in (*part.notes, part.left_out):
        yield from _wrapped(note, width)


def _finding(finding: Finding, width: int | None) -> Iterator[str]:
    yield from _wrapped(finding.head, width)
    for who, what in finding.said:
        told = _wrapped(f"{who}: {what}", None if width is None else width - 2)
        yield from (f"  {line}" for line in told[:_REASON_LINES])


def _wrapped(text: str, width: int | None) -> list[str]:
    shown = one_line(text)
    if not shown:
        return []
    return [shown] if width is None else wrap(shown, width)
