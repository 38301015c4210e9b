"""The progress line of `agentv judge check`."""

import io

import pytest
from tests.reports.rows import PASSED

from agentv.cli.labels.judging import ProgressLine
from agentv.types.events import RowBegun, RowFinished


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Stream(io.StringIO):
    encoding = "utf-8"

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "start"),
    [
        (True, "\r1 of 60 verdicts · 0.1/s · 00:10 · about 09:50 left\x1b[K\r2 of 60 verdicts · 0.1/s · 00:20"),
        (False, "3 of 60 verdicts · 0.1/s · 00:30 · about 09:30 left\n"),
    ],
)
def test_a_terminal_is_redrawn_and_a_log_gets_a_line_each_half_minute(is_terminal: bool, start: str) -> None:
    clock, stream = Clock(), Stream(is_terminal=is_terminal)
    line = ProgressLine(stream, 60, now=clock)
    for _ in range(3):
        clock.seconds += 10
        line.notify(RowBegun(PASSED.slot))
        line.notify(RowFinished(PASSED))
    line.notify(RowFinished(PASSED))  # at the same moment: nothing new is shown
    assert stream.getvalue().startswith(start)
    assert ("4 of 60" in stream.getvalue(), stream.getvalue().count("verdicts")) == (False, 3 if is_terminal else 1)
    line.close()
    assert stream.getvalue().endswith("\r\x1b[K") is is_terminal
