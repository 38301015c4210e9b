"""The state of one pytest session, and names, which the parts of the plug-in share."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentv.pytest_plugin.rows import EndedRun, RowSource

MARKER = "agentv"
FIXTURE = "agentv"
JUDGE_ERROR = "judge error"
"""The category, in the summary of pytest, of tests whose judge failed in `agentv.check`."""


class SessionState:
    """The state of one pytest session: the source of its rows, None until a test requests one, and counts of tests.

    `failed` counts failed tests, `without_verdict` the tests whose target or judge failed.
    """

    def __init__(self) -> None:
        self.row_source: RowSource | None = None
        self.ended: EndedRun | None = None
        self.failed = 0
        self.without_verdict = 0


SESSION: pytest.StashKey[SessionState] = pytest.StashKey()
