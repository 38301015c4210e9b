"""The symbols of reports, in Unicode and in ASCII, and the colours of terminals."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from agentv.types.results import GateState, RowState

Paint: TypeAlias = Callable[[str, str], str]
"""Colours a text: `paint(text, "red")`. Colours: bold, dim, green, yellow, red."""

_CODES = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31"}
_STATE_COLOURS: dict[RowState, str] = {"pass": "green", "fail": "red", "error": "yellow", "borderline": "yellow"}


STATES_OF_GATES: Mapping[GateState, RowState] = {
    "passed": "pass",
    "failed": "fail",
    "undecided": "error",
    "not_evaluated": "skipped",
}
"""The state of a row whose mark a gate has."""


class Signs(Struct, frozen=True):
    """A set of symbols."""

    marks: Mapping[RowState, str]
    bars: str
    """They rise from left to right."""
    full: str
    """The body of a progress bar."""
    head: str
    """The tip of a progress bar."""
    box: tuple[str, str, str, str, str]
    """The top corners, the side and the bottom corners of a frame."""
    rule: str
    times: str
    dot: str
    ellipsis: str
    gutter: str
    is_ascii: bool = False

    def escape_unsupported(self, text: str) -> str:
        """Return `text`; if these signs are ASCII, with every character outside ASCII escaped.

        The dot between the names of a case, target and prompt becomes the dot of these signs, and `…` their ellipsis.
        """
        if not self.is_ascii:
            return text
        return (
            text.replace(" · ", f" {self.dot} ")
            .replace("…", self.ellipsis)
            .encode("ascii", "backslashreplace")
            .decode()
        )


UNICODE = Signs(
    marks={"pass": "✓", "borderline": "~", "fail": "✗", "error": "!", "skipped": "-"},
    bars="▁▂▃▄▅▆▇█",
    full="━",
    head="╸",
    box=("╭", "╮", "│", "╰", "╯"),
    rule="─",
    times="×",  # noqa: RUF001 - the sign of multiplication is meant
    dot="·",
    ellipsis="…",
    gutter="│",
)
ASCII = Signs(
    marks={"pass": "+", "borderline": "~", "fail": "x", "error": "!", "skipped": "-"},
    bars=".:-=+*%#",
    full="=",
    head=">",
    box=("+", "+", "|", "+", "+"),
    rule="-",
    times="x",
    dot="|",
    ellipsis="...",
    gutter="|",
    is_ascii=True,
)


def signs_for(encoding: str | None) -> Signs:
    """Return the Unicode signs if the encoding can represent them, else the ASCII ones."""
    try:
        "".join((*UNICODE.marks.values(), *UNICODE.box, UNICODE.bars)).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


GAP = "·"
_ASCII_GAP = "_"


def sparkline(values: Sequence[float | None], signs: Signs) -> str:
    """Return a bar for each value, scaled from the lowest to the highest; None is shown as a gap."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    gap = _ASCII_GAP if signs.is_ascii else GAP
    return "".join(gap if value is None else _bar(value, low, high, signs.bars) for value in values)


def _bar(value: float, low: float, high: float, bars: str) -> str:
    if high - low <= abs(high) * 1e-9:
        return bars[len(bars) // 2]
    return bars[round((value - low) / (high - low) * (len(bars) - 1))]


def in_colour(text: str, colour: str) -> str:
    """Return the text with the escape sequences for a colour."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def without_colour(text: str, _colour: str) -> str:
    """Return the text unchanged."""
    return text


def choose_paint(*, is_terminal: bool, env: Mapping[str, str]) -> Paint:
    """Return `in_colour` for a terminal, unless NO_COLOR is set or TERM is dumb; else `without_colour`."""
    coloured = is_terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
    return in_colour if coloured else without_colour


def state_colour(state: RowState) -> str:
    """Return the colour of a result's state."""
    return _STATE_COLOURS.get(state, "dim")
