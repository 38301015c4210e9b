"""The block that is redrawn while a run goes on, as plain text of an exact width."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from agentv.reports.amounts import count_text, percent_text
from agentv.reports.printable import one_line
from agentv.reports.progress import Progress, judged, plan_text
from agentv.reports.signs import Signs
from agentv.reports.text_width import clip, display_width, pad
from agentv.types.results import RowState

_NAME_WIDTH = 16
_SHORTEST_BAR = 4
_LEFT_OUT_FIRST = ("share", "done", "pass rate")
_PACE_LEFT_OUT_FIRST = ("rate", "retries", "workers")
_MOST_TARGETS = 8
_STATES: tuple[RowState, ...] = ("pass", "borderline", "fail", "error")
_CTRL_C = {True: "Ctrl-C gives up what is under way", False: "Ctrl-C again leaves at once"}


def live_block(progress: Progress, now: datetime, *, width: int, signs: Signs) -> list[str]:
    """Return the frame with a bar per target and a line of pace; every line is `width` cells wide."""
    run = f"run {progress.started.run_id.rpartition('-')[2]}"
    inner = width - 4
    shown = list(progress.by_target.items())[:_MOST_TARGETS]
    rows = _target_rows(shown, progress.planned_per_target, inner, signs)
    hidden = len(progress.by_target) - len(shown)
    if hidden > 0:
        rows.append(f"and {count_text(hidden, 'more target')}")
    rows.append(_pace(progress.pace(now), inner, signs))
    top_left, top_right, side, bottom_left, bottom_right = signs.box
    ctrl_c = "Ctrl-C stops cleanly" if progress.stopping is None else _CTRL_C[progress.stopping.drains]
    hint = f"{ctrl_c}; agentv resume {progress.started.run_id.rpartition('-')[2]} goes on"
    return [
        top_left + _edge(plan_text(progress.started, signs), run, width - 2, signs) + top_right,
        *(f"{side} {pad(clip(row, inner, mark=signs.ellipsis), inner)} {side}" for row in rows),
        bottom_left + _edge(hint, "", width - 2, signs) + bottom_right,
    ]


def _edge(left: str, right: str, width: int, signs: Signs) -> str:
    """Return a frame's edge with a text at either end."""
    end = f" {right} " if right else ""
    start = f" {clip(left, max(width - display_width(end) - 3, 1), mark=signs.ellipsis)} "
    return start + signs.rule * (width - display_width(start) - display_width(end)) + end


def _pace(parts: dict[str, str], width: int, signs: Signs) -> str:
    """Return the line of pace; on a narrow terminal without what matters least."""
    between = f" {signs.dot} "
    lines = [between.join(parts.values())]
    shorter = {name: text.removeprefix("about ") for name, text in parts.items()}
    lines.append(between.join(shorter.values()))
    for name in _PACE_LEFT_OUT_FIRST:
        shorter.pop(name, None)
        lines.append(between.join(shorter.values()))
    return next((line for line in lines if display_width(line) <= width), lines[-1])


def _target_rows(
    targets: Sequence[tuple[str, Counter[str]]], planned: int | None, width: int, signs: Signs
) -> list[str]:
    """Return a line for each target: name, bar, and the counts in columns. The bar takes what room is left."""
    most = max(_NAME_WIDTH, width // 4)
    names = [clip(one_line(signs.within(name)), most, mark=signs.ellipsis) for name, _ in targets]
    table = [_cells(counts, planned, signs) for _, counts in targets]
    widths = {name: max(display_width(cells[name]) for cells in table) for name in (table[0] if table else ())}
    name_width = max(map(display_width, names), default=0)
    for name in _LEFT_OUT_FIRST:
        if name_width + sum(widths.values()) + len(widths) <= width:
            break
        widths.pop(name, None)
    bar_width = width - name_width - sum(widths.values()) - len(widths) - 1
    rows = []
    for name, (_, counts), cells in zip(names, targets, table, strict=True):
        bar = f" {_bar(counts.total() / planned, bar_width, signs)}" if planned and bar_width >= _SHORTEST_BAR else ""
        columns = " ".join(pad(cells[column], room) for column, room in widths.items())
        rows.append(f"{pad(name, name_width)}{bar} {columns}")
    return rows


def _cells(counts: Counter[str], planned: int | None, signs: Signs) -> dict[str, str]:
    """Return the columns of a target by name, in the order of showing."""
    done = counts.total()
    rate = percent_text(counts["pass"] / judged(counts)) if judged(counts) else "-"
    share = {"share": f"{done * 100 // planned:3} % "} if planned else {}
    of_all = f"/{planned:,}" if planned else ""
    states: dict[str, str] = {state: f"{signs.marks[state]} {counts[state]:,}" for state in _STATES}
    return {**share, "done": f"{done:,}{of_all} ", **states, "pass rate": f" pass {rate}"}


def _bar(share: float, width: int, signs: Signs) -> str:
    filled = int(min(share, 1.0) * width)
    head = signs.head if filled and share < 1 else ""
    return pad(signs.full * (filled - len(head)) + head, width)
