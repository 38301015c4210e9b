"""Choose the observer that displays a run, from `--display` and the output stream."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from agentv.reports.text.printable import one_line
from agentv.types.errors import UnknownNameError
from agentv.types.events import Observer, RunEvent, RunNote
from agentv.types.protocols import Clock

if TYPE_CHECKING:
    from agentv.reports.run.report_json import ToRecord


DISPLAYS = ("auto", "live", "plain", "json", "none")
_TICK_S = 1.0


class NullObserver:
    """An observer that prints only problems, to standard error."""

    event_types = (RunNote,)

    def notify(self, event: RunEvent) -> None:
        """Print the message of a problem; ignore any other event."""
        if isinstance(event, RunNote) and event.is_problem:
            sys.stderr.write(f"note: {one_line(event.message)}\n")

    def close(self) -> None:
        """Do nothing."""


def choose_display(display: str, *, is_terminal: bool, env: Mapping[str, str]) -> str:
    """Resolve `auto`: live on a terminal that can redraw, plain elsewhere and in CI; return other displays unchanged.

    Raises UnknownNameError for an unknown display.
    """
    if display not in DISPLAYS:
        raise UnknownNameError("display", display, known=DISPLAYS)
    if display != "auto":
        return display
    in_ci = env.get("CI", "").lower() not in ("", "0", "false")
    return "live" if is_terminal and not in_ci and env.get("TERM") != "dumb" else "plain"


def make_observer(
    display: str, stream: TextIO, *, is_terminal: bool, env: Mapping[str, str], clock: Clock, to_record: "ToRecord"
) -> Observer:
    """Return the observer of a display that writes to `stream`. Modules of other displays are not imported."""
    match choose_display(display, is_terminal=is_terminal, env=env):
        case "live":
            from agentv.reports.progress.live import LiveScreen  # noqa: PLC0415

            return LiveScreen(stream, clock=clock)
        case "json":
            from agentv.reports.progress.json_lines import JsonLines  # noqa: PLC0415

            return JsonLines(stream, to_record=to_record)
        case "none":
            return NullObserver()
        case _:
            from agentv.reports.progress.progress import PlainLines  # noqa: PLC0415
            from agentv.reports.text.printable import is_github  # noqa: PLC0415

            return PlainLines(stream, clock=clock, github=is_github(env), tick_s=_TICK_S)
