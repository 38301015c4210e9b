"""Aligned tables of names and values, and items with their reasons, fitted to the terminal."""

from collections.abc import Sequence

from agentv.reports.text.signs import Paint, Signs
from agentv.reports.text.width import clip, display_width, pad, wrap

_SHORTEST_NAME = 8
_REASON_LINES = 3


def table(rows: Sequence[Sequence[str]], width: int | None, paint: Paint) -> list[str]:
    """Return an aligned table: names on the left, cut to fit `width`, values right-aligned; the head is dim.

    If even short names leave no room for the columns, each row becomes a name with its values below.
    """
    if not rows:
        return []
    name_width, *widths = (max(map(display_width, column)) for column in zip(*rows, strict=True))
    if width is not None and _SHORTEST_NAME + sum(widths) + 2 * len(widths) > width:
        return _stacked(rows, width, paint)
    if width is not None:
        name_width = min(name_width, max(width - sum(widths) - 2 * len(widths), _SHORTEST_NAME))
    lines = []
    for name, *cells in rows:
        aligned = [pad(cell, room, right=True) for cell, room in zip(cells, widths, strict=True)]
        lines.append("  ".join([pad(clip(name, name_width, mark=".."), name_width), *aligned]))
    return [paint(lines[0], "dim"), *lines[1:]]


def side_by_side(tables: Sequence[Sequence[Sequence[str]]], width: int | None) -> list[Sequence[Sequence[str]]]:
    """Join tables with the same names side by side, as far as `width` has room; None joins none."""
    joined: list[Sequence[Sequence[str]]] = []
    for rows in filter(None, tables):
        both = [[*left, *right[1:]] for left, right in zip(joined[-1], rows, strict=True)] if joined else []
        if both and width is not None and _width(both) <= width:
            joined[-1] = both
        else:
            joined.append(rows)
    return joined


def _width(rows: Sequence[Sequence[str]]) -> int:
    columns = list(zip(*rows, strict=True))
    return sum(max(map(display_width, column)) for column in columns) + 2 * (len(columns) - 1)


def _stacked(rows: Sequence[Sequence[str]], width: int, paint: Paint) -> list[str]:
    """Return each row as its name and, indented below, as many labelled values per line as fit."""
    (_, *heads), *others = rows
    lines = []
    for name, *cells in others:
        lines.append(paint(clip(name, width, mark=".."), "bold"))
        line = ""
        for head, cell in zip(heads, cells, strict=True):
            value = f"  {head} {cell}"
            if line and display_width(line + value) > width:
                lines.append(line)
                line = ""
            line += value
        lines.append(line)
    return lines


def with_reason(mark: str, head: str, reason: str, width: int | None, signs: Signs) -> list[str]:
    """Return an item with its reason: on the same line, or wrapped below it behind a gutter."""
    if width is None:
        return [f"{mark} {head}  {reason}"]
    lines = wrap(reason, width - 4)
    shown = lines[:_REASON_LINES]
    if len(lines) > len(shown):
        shown[-1] = clip(f"{shown[-1]} {lines[_REASON_LINES]}", width - 4, mark=signs.ellipsis)
    return [f"{mark} {clip(head, width - 2, mark=signs.ellipsis)}", *(f"  {signs.gutter} {line}" for line in shown)]
