"""A sheet as Markdown: text of strangers stands in code spans alone."""

from collections.abc import Iterator, Sequence

from agentv.reports.markdown_code import cell_code, inline_code
from agentv.reports.sheet import Part, Sheet

_LONGEST_REASON = 300


def sheet_markdown(sheets: Sequence[Sheet]) -> str:
    """Return sheets for a job's summary, a comment or a file."""
    return "\n\n".join(block for sheet in sheets for block in _sheet(sheet)) + "\n"


def _sheet(sheet: Sheet) -> Iterator[str]:
    yield f"### {inline_code(sheet.title)}"
    yield f"**{inline_code(sheet.sentence)}**"
    for part in sheet.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    if part.title:
        yield f"**{inline_code(part.title)}**"
    if part.rows:
        head, *rows = part.rows
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *([cell_code(cell) for cell in row] for row in rows)]
        yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    items = [
        "\\\n  ".join([f"- {inline_code(each.head)}", *(_said(*said) for said in each.said)]) for each in part.findings
    ]
    items += [f"- {inline_code(note)}" for note in (*part.notes, part.left_out) if note]
    if items:
        yield "\n".join(items)


def _said(who: str, what: str) -> str:
    return inline_code(f"{who}: {what}", longest=_LONGEST_REASON)
