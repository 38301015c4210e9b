"""Colour, for terminals only."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agentv.types.results import RowState

Paint: TypeAlias = Callable[[str, str], str]
"""Gives a text a colour: `paint(text, "red")`. Colours: bold, dim, green, yellow, red."""

_CODES = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31"}
_STATE_COLOURS: dict[RowState, str] = {"pass": "green", "fail": "red", "error": "yellow", "borderline": "yellow"}


def in_colour(text: str, colour: str) -> str:
    """Return text that a terminal shows in a colour."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def without_colour(text: str, _colour: str) -> str:
    """Return the text as it is."""
    return text


def choose_paint(*, is_terminal: bool, env: Mapping[str, str]) -> Paint:
    """Return how text is coloured: on a terminal, unless NO_COLOR says something or TERM is dumb."""
    coloured = is_terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
    return in_colour if coloured else without_colour


def state_colour(state: RowState) -> str:
    """Return the colour that a row's state is shown in."""
    return _STATE_COLOURS.get(state, "dim")
