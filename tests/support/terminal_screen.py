"""The visible screen of a terminal after some output."""

from collections.abc import Mapping

import pyte


class TerminalScreen:
    """A terminal of a given size, with the lines that scrolled out of it at its top."""

    def __init__(self, columns: int, lines: int = 24) -> None:
        self._screen = pyte.HistoryScreen(columns, lines, history=10_000)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, output: bytes) -> None:
        """Show the output of a program, with each newline as a return and a newline, as the system sends it."""
        self._stream.feed(output)

    @property
    def shows_cursor(self) -> bool:
        """True if the cursor is visible."""
        return not self._screen.cursor.hidden

    def lines(self) -> list[str]:
        """Return all lines from the first to the last that is not blank, without blanks at their ends."""
        rows = [*self._screen.history.top, *(self._screen.buffer[number] for number in range(self._screen.lines))]
        shown = [self._line(row) for row in rows]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def _line(self, row: Mapping[int, pyte.screens.Char]) -> str:
        # A wide letter is followed by an empty cell.
        return "".join(row[column].data for column in range(self._screen.columns)).rstrip()
