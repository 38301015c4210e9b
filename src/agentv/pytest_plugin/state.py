"""What the parts of the plug-in share: the names of the marker and the fixture, and the state of a pytest session."""

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

    `without_verdict` counts tests that failed because of a target, a judge or the run, `failed` all other failed tests.
    `has_tests` is True once a test was run, or skipped. `lost` says that a worker of pytest-xdist died, and its tests
    have no result.
    """

    def __init__(self) -> None:
        self.row_source: RowSource | None = None
        self.ended: EndedRun | None = None
        self.has_tests = False
        self.failed = 0
        self.without_verdict = 0
        self.lost: str | None = None


SESSION: pytest.StashKey[SessionState] = pytest.StashKey()
