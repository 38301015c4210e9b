"""The order of exit codes is product.md's: 4, 5, 130, then 1, then 3, then 2."""

from tests.rows import make_row

from agentv.scoring.gates import parse_gate
from agentv.scoring.run_verdict import run_verdict
from agentv.scoring.summary import Summary
from agentv.types.failures import Failure
from agentv.types.results import CaseResult

BROKEN = Failure("server_error", "HTTP 503")


def summary_of(*rows: CaseResult) -> Summary:
    summary = Summary()
    for row in rows:
        summary.add(row)
    return summary


GOOD, BAD, ERROR = make_row("a"), make_row("b", score=0.0), make_row("c", score=None, error=BROKEN)


def test_every_row_passed() -> None:
    verdict = run_verdict(summary_of(GOOD), gates=None, state="finished")
    assert (verdict.exit_code, verdict.sentence) == (0, "PASS: 1 of 1 judged row passed (100 %).")


def test_a_failing_row_fails_the_default_gate() -> None:
    verdict = run_verdict(summary_of(GOOD, BAD), gates=None, state="finished")
    assert (verdict.exit_code, verdict.sentence) == (1, "FAIL: 1 of 2 judged rows passed (50 %).")


def test_a_gate_replaces_the_default_one() -> None:
    verdict = run_verdict(summary_of(GOOD, BAD), gates=[parse_gate("pass_rate >= 50%")], state="finished")
    assert (verdict.exit_code, verdict.sentence) == (0, "PASS: pass_rate is 50 %, as >= 50 %.")


def test_no_gate_passes_whatever_was_judged() -> None:
    verdict = run_verdict(summary_of(GOOD, BAD), gates=[], state="finished")
    assert (verdict.exit_code, verdict.sentence) == (0, "PASS: 1 of 2 judged rows passed (50 %).")


def test_a_run_with_rows_without_a_result_is_incomplete_even_when_the_gate_holds() -> None:
    verdict = run_verdict(summary_of(GOOD, ERROR), gates=None, state="finished")
    assert verdict.exit_code == 3
    assert verdict.sentence == "INCOMPLETE: 1 row without a result; the gate holds on the 1 judged."


def test_quality_comes_before_completeness() -> None:
    assert run_verdict(summary_of(BAD, ERROR), gates=None, state="finished").exit_code == 1


def test_tolerated_errors_do_not_make_a_run_incomplete() -> None:
    verdict = run_verdict(summary_of(GOOD, ERROR), gates=None, state="finished", max_errors=1)
    assert (verdict.exit_code, verdict.sentence) == (
        0,
        "PASS: 1 of 1 judged row passed (100 %). 1 row without a result.",
    )


def test_a_run_with_no_judged_row_never_passes_whatever_is_tolerated() -> None:
    for gates in (None, [], [parse_gate("errors <= 5")]):
        assert run_verdict(summary_of(ERROR), gates=gates, state="finished", max_errors=5).exit_code == 3


def test_nothing_selected() -> None:
    assert run_verdict(summary_of(), gates=None, state="finished").exit_code == 5


def test_a_run_that_was_stopped_early_says_why() -> None:
    verdict = run_verdict(summary_of(GOOD), gates=None, state="stopped", reason="1 row did not pass (--fail-fast)")
    assert (verdict.exit_code, verdict.sentence) == (
        2,
        "STOPPED: 1 row did not pass (--fail-fast); 1 row judged.",
    )


def test_a_failed_healthcheck_is_incomplete() -> None:
    verdict = run_verdict(summary_of(), gates=None, state="failed", reason="healthcheck of 'x' failed: exit 1")
    assert (verdict.exit_code, verdict.sentence) == (3, "INCOMPLETE: healthcheck of 'x' failed: exit 1.")


def test_invalid_lines_of_a_dataset_come_before_everything() -> None:
    assert run_verdict(summary_of(BAD, ERROR), gates=None, state="interrupted", invalid_rows=1).exit_code == 4


def test_an_interrupt_comes_before_quality() -> None:
    assert run_verdict(summary_of(BAD), gates=None, state="interrupted").exit_code == 130
    assert run_verdict(summary_of(BAD), gates=None, state="interrupted", signal_number=15).exit_code == 143
