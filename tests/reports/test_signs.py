"""When there is colour."""

from collections.abc import Mapping

import pytest

from agentv.reports.text.signs import choose_paint


@pytest.mark.parametrize(
    ("is_terminal", "env", "shown"),
    [
        (True, {}, "\x1b[31mx\x1b[0m"),
        (True, {"TERM": "xterm-256color", "NO_COLOR": ""}, "\x1b[31mx\x1b[0m"),
        (True, {"NO_COLOR": "1"}, "x"),
        (True, {"TERM": "dumb"}, "x"),
        (False, {}, "x"),
    ],
)
def test_colour_is_for_terminals_whose_owner_wants_it(is_terminal: bool, env: Mapping[str, str], shown: str) -> None:
    assert choose_paint(is_terminal=is_terminal, env=env)("x", "red") == shown
