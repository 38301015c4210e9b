"""The style of text on standard output: width, character set and colour."""

import os
import shutil
import sys
from io import TextIOWrapper

from msgspec import Struct
from msgspec.structs import replace

from agentv.reports.run.case_view import CaseView
from agentv.reports.run.run_view import RunView
from agentv.reports.text.signs import Paint, Signs, choose_paint, signs_for


class TerminalStyle(Struct, frozen=True):
    """The layout of text on standard output. `width` None: not a terminal, so nothing is wrapped or cut."""

    width: int | None
    signs: Signs
    paint: Paint

    def of_run(self) -> RunView:
        """Return the view of runs in this style."""
        return RunView(self.width, self.signs, self.paint)

    def of_case(self, view: CaseView) -> CaseView:
        """Return a view of a case in this style."""
        return replace(view, width=self.width, signs=self.signs, paint=self.paint)


def terminal_style() -> TerminalStyle:
    """Return the style of standard output.

    From this call on, a character that standard output cannot encode is escaped instead of raising an error.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    is_terminal = sys.stdout.isatty()
    return TerminalStyle(
        width=shutil.get_terminal_size().columns if is_terminal else None,
        signs=signs_for(sys.stdout.encoding),
        paint=choose_paint(is_terminal=is_terminal, env=os.environ),
    )
