"""Progress on a terminal: a redrawn block with failures scrolling above it. Imports rich."""

import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from io import TextIOWrapper
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from agentv.reports.progress.case_line import CaseLines
from agentv.reports.progress.finished_cases import FinishedCase, FinishedCases
from agentv.reports.progress.notes import ShownNotes
from agentv.reports.progress.progress import Progress, judged, plan_text, stopping_text
from agentv.reports.text.amounts import count_text, percent_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Signs, signs_for
from agentv.reports.text.width import clip, clip_names, display_width, pad, wrap
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent, RunNote, RunStarted, RunStopping
from agentv.types.protocols import Clock
from agentv.types.results import RowState

_NAME_WIDTH = 16
_MIN_BAR_WIDTH = 4
# On a narrow terminal, these are omitted one after another until the line fits.
_COLUMNS_TO_OMIT = ("share", "done", "pass rate")
_PACE_PARTS_TO_OMIT = ("rate", "retries", "workers")
_MAX_TARGETS = 8
_STATES: tuple[RowState, ...] = ("pass", "borderline", "fail", "error")
_CTRL_C_WHILE_STOPPING = {True: "Ctrl-C cancels running cases", False: "Ctrl-C again exits at once"}
"""What Ctrl-C does while the run is stopping; the key is True if it still finishes its running cases (`drains`)."""


def live_block(progress: Progress, now: datetime, *, width: int, signs: Signs) -> list[str]:
    """Return a frame with a bar per target and a status line; every line is `width` cells wide."""
    run = f"run {progress.started.run_id.rpartition('-')[2]}"
    inner = width - 4
    shown = list(progress.by_target.items())[:_MAX_TARGETS]
    rows = _target_rows(shown, progress.planned_per_target, inner, signs)
    hidden = len(progress.by_target) - len(shown)
    if hidden > 0:
        rows.append(f"and {count_text(hidden, 'more target')}")
    rows.append(_status_line(progress.pace(now), inner, signs))
    top_left, top_right, side, bottom_left, bottom_right = signs.box
    ctrl_c = "Ctrl-C stops cleanly" if progress.stopping is None else _CTRL_C_WHILE_STOPPING[progress.stopping.drains]
    hint = f"{ctrl_c}; resume: agentv resume {progress.started.run_id.rpartition('-')[2]}"
    return [
        top_left + _edge(plan_text(progress.started, signs), run, width - 2, signs) + top_right,
        *(f"{side} {pad(clip(row, inner, mark=signs.ellipsis), inner)} {side}" for row in rows),
        bottom_left + _edge(hint, "", width - 2, signs) + bottom_right,
    ]


def _edge(left: str, right: str, width: int, signs: Signs) -> str:
    """Return the edge of a frame with a text at each end."""
    end = f" {right} " if right else ""
    start = f" {clip(left, max(width - display_width(end) - 3, 1), mark=signs.ellipsis)} "
    return start + signs.rule * (width - display_width(start) - display_width(end)) + end


def _status_line(parts: dict[str, str], width: int, signs: Signs) -> str:
    """Return the status line; on a narrow terminal, without the least important parts."""
    between = f" {signs.dot} "
    lines = [between.join(parts.values())]
    shorter = {name: text.removeprefix("about ") for name, text in parts.items()}
    lines.append(between.join(shorter.values()))
    for name in _PACE_PARTS_TO_OMIT:
        shorter.pop(name, None)
        lines.append(between.join(shorter.values()))
    return next((line for line in lines if display_width(line) <= width), lines[-1])


def _target_rows(
    targets: Sequence[tuple[str, Counter[str]]], planned: int | None, width: int, signs: Signs
) -> list[str]:
    """Return a line per target: name, bar, and counts in columns. The bar fills the remaining width."""
    max_name_width = max(_NAME_WIDTH, width // 4)
    whole = [one_line(signs.escape_unsupported(name)) for name, _ in targets]
    names = clip_names(whole, max_name_width, mark=signs.ellipsis)
    table = [_cells(counts, planned, signs) for _, counts in targets]
    column_names = table[0] if table else ()
    widths = {name: max(display_width(cells[name]) for cells in table) for name in column_names}
    name_width = max(map(display_width, names), default=0)
    for name in _COLUMNS_TO_OMIT:
        if name_width + sum(widths.values()) + len(widths) <= width:
            break
        widths.pop(name, None)
    bar_width = width - name_width - sum(widths.values()) - len(widths) - 1
    rows = []
    for name, (_, counts), cells in zip(names, targets, table, strict=True):
        bar = f" {_bar(counts.total() / planned, bar_width, signs)}" if planned and bar_width >= _MIN_BAR_WIDTH else ""
        columns = " ".join(pad(cells[column], column_width) for column, column_width in widths.items())
        rows.append(f"{pad(name, name_width)}{bar} {columns}")
    return rows


def _cells(counts: Counter[str], planned: int | None, signs: Signs) -> dict[str, str]:
    """Return the columns of a target by name, in display order."""
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


REFRESHES_PER_SECOND = 8
_ROOM_FOR_ECHO = 3  # a terminal echoes Ctrl-C as ^C; if that wraps a line, the block is not fully erased

_STYLES: dict[RowState, str] = {"fail": "red", "error": "yellow", "borderline": "yellow"}


class _Block(Live):
    """A rich block whose thread ignores a closed terminal; writing the next event raises the error."""

    _is_closed = False

    def refresh(self) -> None:
        """Redraw the block."""
        if self._is_closed:
            return
        try:
            super().refresh()
        except (OSError, ValueError):
            self._is_closed = True


class LiveScreen:
    """An observer that shows the live block on the lower lines of a terminal until it is closed.

    `console` defaults to one on `stream`. A rich thread redraws the block, so that the clock advances between events;
    without `redraws`, call `draw`.
    """

    needs_whole_rows = False

    def __init__(self, stream: TextIO, *, clock: Clock, console: Console | None = None, redraws: bool = True) -> None:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # text that other code prints is redirected here
        self._clock = clock
        self._console = console or Console(file=stream, highlight=False, markup=False, emoji=False)
        self._signs = signs_for(stream.encoding)
        self._progress: Progress | None = None
        self._lines: CaseLines | None = None
        self._cases = FinishedCases()
        self._notes = ShownNotes()
        self._lock = threading.Lock()
        self._live = _Block(
            console=self._console,
            get_renderable=self._block,
            refresh_per_second=REFRESHES_PER_SECOND,
            auto_refresh=redraws,
            transient=True,
            # If standard error is a terminal, text that other code prints to either stream scrolls above the block.
            redirect_stdout=sys.stderr.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )

    def notify(self, event: RunEvent) -> None:
        """Process one event."""
        if isinstance(event, RunStarted):
            self._progress = Progress(event, self._clock())
            self._lines, self._cases = CaseLines(event, self._signs), FinishedCases.of_run(event)
            # Draw once before the thread starts: a print during the thread's first drawing would show the block twice.
            self._live.start(refresh=True)
        elif self._progress is not None:
            with self._lock:
                self._progress.add(event)
        is_note = self._notes.shows(event)
        match event:
            case RowFinished(result):
                self._write_cases(filter(None, [self._cases.add(result)]))
            case RowKept(result):
                self._cases.add(result)
            case RunEnded():
                self._write_cases(self._cases.unfinished())
            case RunNote(message) if is_note:
                self._print(f"note: {one_line(message)}", "dim")
            case RunStopping():
                self._print(stopping_text(event), "yellow")
            case _:
                pass

    def _write_cases(self, cases: Iterable[FinishedCase]) -> None:
        if self._lines is None:
            return
        for case in cases:
            state = row_state(case.result)
            for line in self._lines.lines(self._signs.marks[state], case, self._width):
                self._write(line, _STYLES[state])

    @property
    def shown_notes(self) -> Collection[str]:
        """The notes that were printed."""
        return self._notes.messages

    def draw(self) -> None:
        """Redraw the block now."""
        self._live.refresh()

    def close(self) -> None:
        """Erase the block and show the cursor again."""
        self._live.stop()
        if self._progress is not None:
            self._console.print()

    @property
    def _width(self) -> int:
        return self._console.width - 1

    def _print(self, line: str, style: str) -> None:
        for text in wrap(self._signs.escape_unsupported(line), self._width):
            self._write(text, style)

    def _write(self, text: str, style: str) -> None:
        encoding = self._console.encoding
        safe = text.encode(encoding, "backslashreplace").decode(encoding)
        self._console.print(Text(safe, style=style), no_wrap=True, overflow="ignore", crop=False)

    def _block(self) -> Text:
        if self._progress is None:
            return Text("")
        with self._lock:
            lines = live_block(
                self._progress, self._clock(), width=self._console.width - _ROOM_FOR_ECHO, signs=self._signs
            )
        return Text("\n".join(lines), no_wrap=True)
