"""Progress on a terminal: one block that is redrawn, with failures scrolling above it. Imports rich."""

import sys
import threading
from io import TextIOWrapper
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from agentv.reports.live_block import live_block
from agentv.reports.printable import one_line
from agentv.reports.progress import Progress, stopping_text
from agentv.reports.row_text import PLAIN_LABELS, RowLabels, failure_line
from agentv.reports.signs import signs_for
from agentv.reports.text_width import wrap
from agentv.scoring.aggregation import row_state
from agentv.types.events import RowFinished, RunEvent, RunNote, RunStarted, RunStopping
from agentv.types.protocols import Clock
from agentv.types.results import RowState

REFRESHES_PER_SECOND = 8
_ROOM_FOR_ECHO = 3  # a terminal shows Ctrl-C as ^C; a block that this pushes into a new line is not taken off whole

_STYLES: dict[RowState, str] = {"fail": "red", "error": "yellow", "borderline": "yellow"}


class _Block(Live):
    """rich's block, whose thread goes on in silence when the terminal is gone; the next event says so."""

    _gone = False

    def refresh(self) -> None:
        """Draw the block anew."""
        if self._gone:
            return
        try:
            super().refresh()
        except (OSError, ValueError):
            self._gone = True


class LiveScreen:
    """An observer that owns the lower lines of a terminal until it is closed.

    `console` is made from `stream` unless given. A rich thread redraws the block, so the clock runs on while nothing
    happens; without `redraws` that is left to `draw`.
    """

    def __init__(self, stream: TextIO, *, clock: Clock, console: Console | None = None, redraws: bool = True) -> None:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what others print passes through here too
        self._clock = clock
        self._console = console or Console(file=stream, highlight=False, markup=False, emoji=False)
        self._signs = signs_for(stream.encoding)
        self._progress: Progress | None = None
        self._labels = PLAIN_LABELS
        self._lock = threading.Lock()
        self._live = _Block(
            console=self._console,
            get_renderable=self._block,
            refresh_per_second=REFRESHES_PER_SECOND,
            auto_refresh=redraws,
            transient=True,
            # What others say on standard error scrolls above the block, unless it goes elsewhere.
            redirect_stdout=sys.stderr.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )

    def notify(self, event: RunEvent) -> None:
        """Take note of one event."""
        if isinstance(event, RunStarted):
            self._progress = Progress(event, self._clock())
            self._labels = RowLabels.of_run(event)
            # Drawn once before the thread begins: rich does not wait for a first drawing that another thread makes.
            self._live.start(refresh=True)
        elif self._progress is not None:
            with self._lock:
                self._progress.add(event)
        match event:
            case RowFinished(result):
                state = row_state(result)
                if state in _STYLES:
                    line = failure_line(
                        self._signs.marks[state], result, self._labels, signs=self._signs, width=self._width
                    )
                    self._write(line, _STYLES[state])
            case RunNote(message):
                self._say(f"note: {one_line(message)}", "dim")
            case RunStopping():
                self._say(stopping_text(event), "yellow")
            case _:
                pass

    def draw(self) -> None:
        """Draw the block as it is now."""
        self._live.refresh()

    def close(self) -> None:
        """Take the block off the screen and give the cursor back."""
        self._live.stop()
        if self._progress is not None:
            self._console.print()

    @property
    def _width(self) -> int:
        return self._console.width - 1

    def _say(self, line: str, style: str) -> None:
        for text in wrap(self._signs.within(line), self._width):
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
