"""The end of a session: the verdict of its run, and the exit code of pytest."""

from pathlib import Path
from typing import Any

import pytest

from agentv.pytest_plugin.rows import EndedRun
from agentv.pytest_plugin.state import JUDGE_ERROR, SessionState
from agentv.scoring.gates.run_verdict import GATE_FAILED, INCOMPLETE


def end_run(session: SessionState, pytest_session: pytest.Session, exit_status: int) -> int:
    """End the run of a session, and return the exit code of pytest."""
    if session.rows is None:
        return exit_status
    reason = pytest_session.shouldfail or pytest_session.shouldstop
    session.ended = session.rows.end(
        interrupted=exit_status == pytest.ExitCode.INTERRUPTED, early=f"pytest stopped: {reason}" if reason else None
    )
    if session.ended is None:
        return exit_status
    return exit_code(session.ended, exit_status, failed=session.failed, broken=session.broken)


def exit_code(ended: EndedRun, exit_status: int, *, failed: int, broken: int) -> int:
    """Return the exit code of a session by the rules of a verdict (docs/reference/gates.md).

    Return pytest's `exit_status` if pytest itself failed. Otherwise, return 1 if tests or a gate failed, and 3 if tests
    have no verdict because of a `broken` target or judge, or if the run failed.
    """
    if exit_status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return exit_status
    if failed or (ended.has_gates and ended.report.exit_code == GATE_FAILED):
        return GATE_FAILED
    return INCOMPLETE if broken or ended.report.state == "failed" else exit_status


def print_ending(reporter: Any, ended: EndedRun) -> None:
    """Print the tests without a working judge, the verdict of the run and its folder."""
    report = ended.report
    broken = reporter.getreports(JUDGE_ERROR)
    if broken:
        reporter.write_sep("=", "JUDGE ERRORS")
        for each in broken:
            reporter.write_sep("_", each.head_line or each.nodeid)
            reporter.write_line(each.longreprtext)
    reporter.write_sep("=", "agentv")
    reporter.write_line(report.verdict.sentence)
    for note in report.notes:
        reporter.write_line(f"note: {note}")
    if report.folder is not None:
        root = reporter.config.rootpath
        folder = Path(report.folder)
        reporter.write_line(f"run: {folder.relative_to(root) if folder.is_relative_to(root) else folder}")
