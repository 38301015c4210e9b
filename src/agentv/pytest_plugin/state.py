"""The state of one pytest session, and names, which the parts of the plug-in share."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentv.pytest_plugin.rows import EndedRun, Rows

MARKER = "agentv"
FIXTURE = "agentv"
JUDGE_ERROR = "judge error"
"""The category, in the summary of pytest, of tests whose judge failed in `agentv.check`."""


class SessionState:
    """The state of one pytest session: its run, None until a test requests a row, and the counts of its tests."""

    def __init__(self) -> None:
        self.rows: Rows | None = None
        self.ended: EndedRun | None = None
        self.failed = 0
        self.broken = 0


SESSION: pytest.StashKey[SessionState] = pytest.StashKey()
