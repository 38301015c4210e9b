"""The end of a session: the verdict of its run, and the exit code of pytest."""

from pathlib import Path
from typing import Any

import pytest

from agentv.pytest_plugin.rows import EndedRun, SessionEnding
from agentv.pytest_plugin.state import JUDGE_ERROR, SessionState
from agentv.scoring.gates.run_verdict import GATE_FAILED, INCOMPLETE


def end_run(session: SessionState, pytest_session: pytest.Session, exit_status: int) -> int:
    """End the run of a session, and return the exit code of pytest."""
    if session.row_source is None:
        return exit_status
    reason = pytest_session.shouldfail or pytest_session.shouldstop
    session.ended = session.row_source.end(
        SessionEnding(
            interrupted=exit_status == pytest.ExitCode.INTERRUPTED,
            stop_reason=f"pytest stopped: {reason}" if reason else None,
            lost=session.lost,
        )
    )
    if session.ended is None:
        return exit_status
    return exit_code(session.ended, exit_status, failed=session.failed, without_verdict=session.without_verdict)


def exit_code(ended: EndedRun, exit_status: int, *, failed: int, without_verdict: int) -> int:
    """Return the exit code of a session from the outcome of its tests and its run (docs/how-to/pytest.md).

    `failed` and `without_verdict` are numbers of tests. Return pytest's `exit_status` if pytest was interrupted or
    itself failed. Otherwise, return 1 if tests or a gate failed, and 3 if tests have no verdict, if the run failed, or
    if no result was judged by which a gate could be decided.
    """
    if exit_status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return exit_status
    if failed or (ended.has_gates and ended.report.exit_code == GATE_FAILED):
        return GATE_FAILED
    is_undecided = ended.has_gates and ended.report.exit_code == INCOMPLETE
    return INCOMPLETE if without_verdict or ended.report.state == "failed" or is_undecided else exit_status


def print_ending(reporter: Any, ended: EndedRun) -> None:
    """Print the tests whose judge failed in `agentv.check`, the verdict of the run and its folder."""
    report = ended.report
    judge_errors = reporter.getreports(JUDGE_ERROR)
    if judge_errors:
        reporter.write_sep("=", "JUDGE ERRORS")
        for test in judge_errors:
            reporter.write_sep("_", test.head_line or test.nodeid)
            reporter.write_line(test.longreprtext)
    reporter.write_sep("=", "agentv")
    reporter.write_line(_no_result_counts(ended) or report.verdict.sentence)
    for note in report.notes:
        reporter.write_line(f"note: {note}")
    if report.folder is not None:
        root = reporter.config.rootpath
        folder = Path(report.folder)
        reporter.write_line(f"run: {folder.relative_to(root) if folder.is_relative_to(root) else folder}")


def _no_result_counts(ended: EndedRun) -> str | None:
    """Return a sentence for a run without a gate whose results were all skipped; None for any other run.

    The exit code of pytest then is that of the tests alone, whereas such a run of `agentv run` is incomplete.
    """
    report = ended.report
    others = {state for state, count in report.counts.items() if count} - {"skipped"}
    if ended.has_gates or others or report.state != "finished" or not report.counts.get("skipped"):
        return None
    return "NO GATE: no result counts; each was skipped, or its test expected that it does not pass."
