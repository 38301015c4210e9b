"""Colours for terminals."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agentv.types.results import RowState

Paint: TypeAlias = Callable[[str, str], str]
"""Colours a text: `paint(text, "red")`. Colours: bold, dim, green, yellow, red."""

_CODES = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31"}
_STATE_COLOURS: dict[RowState, str] = {"pass": "green", "fail": "red", "error": "yellow", "borderline": "yellow"}


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
