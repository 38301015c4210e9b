"""The block that is redrawn while a run goes on, as plain text of an exact width."""

from collections import Counter
from datetime import datetime

from agentv.reports.amounts import percent_text
from agentv.reports.printable import one_line
from agentv.reports.progress import Progress, judged, plan_text
from agentv.reports.signs import Signs
from agentv.reports.text_width import clip, display_width, pad
from agentv.types.results import RowState

_NAME_WIDTH = 16
_SHORTEST_BAR = 4
_MOST_TARGETS = 8
_STATES: tuple[RowState, ...] = ("pass", "borderline", "fail", "error")


def live_block(progress: Progress, now: datetime, *, width: int, signs: Signs) -> list[str]:
    """Return the frame with a bar per target and a line of pace; every line is `width` cells wide."""
    run = f"run {progress.started.run_id.rpartition('-')[2]}"
    inner = width - 4
    shown = list(progress.by_target.items())[:_MOST_TARGETS]
    names = [clip(one_line(name), _NAME_WIDTH, mark=signs.ellipsis) for name, _ in shown]
    widest = max(map(display_width, names), default=0)
    planned = progress.planned_per_target
    rows = [
        _target_row(pad(name, widest), counts, planned, inner, signs=signs)
        for name, (_, counts) in zip(names, shown, strict=True)
    ]
    hidden = len(progress.by_target) - len(shown)
    if hidden > 0:
        rows.append(f"and {hidden} more targets")
    rows.append(progress.pace_text(now, signs))
    top_left, top_right, side, bottom_left, bottom_right = signs.box
    hint = "Ctrl-C stops cleanly; finished rows are kept"
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


def _target_row(label: str, counts: Counter[str], planned: int | None, width: int, *, signs: Signs) -> str:
    done = counts.total()
    states = " ".join(f"{signs.marks[state]} {counts[state]}" for state in _STATES)
    rate = percent_text(counts["pass"] / judged(counts)) if judged(counts) else "-"
    if not planned:
        return f"{label}  {done:,}  {states}  pass {rate}"
    share = min(done / planned, 1.0)
    right = f"{share:4.0%}  {done}/{planned}  {states}  pass {rate}"
    bar_width = width - display_width(label) - display_width(right) - 3
    bar = _bar(share, bar_width, signs) if bar_width >= _SHORTEST_BAR else ""
    return f"{label} {bar}  {right}" if bar else f"{label}  {right}"


def _bar(share: float, width: int, signs: Signs) -> str:
    filled = int(share * width)
    head = signs.head if 0 < share < 1 else ""
    return pad((signs.full * max(filled - len(head), 0) + head)[:width], width)
