"""How far a judge that is asked again has come, on one line of standard error."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from agentv.reports.amounts import clock_text
from agentv.reports.signs import signs_for
from agentv.reports.text_width import clip
from agentv.types.events import RowFinished, RunEvent

_REDRAWN_EVERY_S = 0.1
_TOLD_EVERY_S = 30.0


class AskedLine:
    """An observer that counts verdicts: a line that is redrawn on a terminal, elsewhere a new one each 30 seconds.

    `planned` verdicts are asked for; `now` counts seconds.
    """

    def __init__(self, stream: TextIO, planned: int, *, now: Callable[[], float]) -> None:
        self._stream, self._planned, self._now = stream, planned, now
        self._signs = signs_for(stream.encoding)
        self._is_redrawn = stream.isatty()
        self._done = 0
        self._began = self._shown_at = now()

    def notify(self, event: RunEvent) -> None:
        """Count a verdict, and tell of it when it is time to."""
        if not isinstance(event, RowFinished):
            return
        self._done += 1
        if self._now() - self._shown_at >= (_REDRAWN_EVERY_S if self._is_redrawn else _TOLD_EVERY_S):
            self._shown_at = self._now()
            self._show()

    def close(self) -> None:
        """Leave the terminal's line as it was."""
        if self._is_redrawn:
            self._write("\r\x1b[K")

    def _show(self) -> None:
        gone_s = self._now() - self._began
        left_s = gone_s / self._done * max(self._planned - self._done, 0)
        told = (
            f"{self._done:,} of {self._planned:,} asked",
            f"{self._done / gone_s:.1f}/s",
            clock_text(gone_s),
            f"about {clock_text(left_s)} left",
        )
        text = f" {self._signs.dot} ".join(told)
        if self._is_redrawn:
            self._write(f"\r{clip(text, shutil.get_terminal_size().columns - 1, mark=self._signs.ellipsis)}\x1b[K")
        else:
            self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a screen that nobody reads any more is no loss
            self._stream.write(text)
            self._stream.flush()
