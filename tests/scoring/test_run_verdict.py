"""The order of exit codes (docs/reference/gates.md): 4, 5, 130, then 1, then 3, then 2."""

from typing import Any

from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.run_verdict import Ending, ScopedGate, run_verdict
from agentv.types.evaluation import JudgeCall
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult
from agentv.types.results import RunVerdict

BROKEN = Failure("server_error", "HTTP 503")


def summary_of(*rows: CaseResult) -> Summary:
    summary = Summary()
    for row in rows:
        summary.add(row)
    return summary


CALL = JudgeCall(judge="judge", role="sample", reply="{}", score=1.0)
GOOD, BAD, ERROR = make_row("a"), make_row("b", score=0.0), make_row("c", score=None, error=BROKEN)


def verdict_of(*rows: CaseResult, gates: list[str] | None = None, max_errors: int = 0, **ending: Any) -> RunVerdict:
    scoped = None if gates is None else [ScopedGate(parse_gate(gate)) for gate in gates]
    how = Ending(**{"state": "finished", **ending})
    return run_verdict(summary_of(*rows), how, gates=scoped, max_errors=max_errors)


def said(verdict: RunVerdict) -> tuple[int, str]:
    return verdict.exit_code, verdict.sentence


def test_every_row_passed() -> None:
    assert said(verdict_of(GOOD)) == (0, "PASS: 1 of 1 judged result passed (100 %).")


def test_a_failing_row_fails_the_default_gate() -> None:
    assert said(verdict_of(GOOD, BAD)) == (1, "FAIL: 1 of 2 judged results passed (50 %).")


def unverified(row: CaseResult) -> CaseResult:
    (judged,) = row.evaluator_results
    return replace(row, evaluator_results=(replace(judged, status="unverified"),))


def test_unverified_rows_stand_in_every_sentence() -> None:
    good, bad = unverified(GOOD), unverified(BAD)
    assert said(verdict_of(good)) == (0, "PASS: 1 of 1 judged result passed (100 %). 1 result is unverified.")
    assert said(verdict_of(good, bad))[1] == "FAIL: 1 of 2 judged results passed (50 %). 2 results are unverified."
    without = said(verdict_of(good, gates=[]))[1]
    assert without == "NO GATE: 1 of 1 judged result passed (100 %). 1 result is unverified."
    incomplete = "INCOMPLETE: 1 result with an error; the gate holds on the 1 judged result. 1 result is unverified."
    assert said(verdict_of(good, ERROR)) == (3, incomplete)


def test_a_row_with_an_unverified_member_is_unverified() -> None:
    (judged,) = GOOD.evaluator_results
    composite = replace(judged, evaluator_results=(replace(judged, status="unverified"),))
    row = replace(GOOD, evaluator_results=(composite,))
    assert said(verdict_of(row))[1].endswith("1 result is unverified.")


def test_a_gate_replaces_the_default_one() -> None:
    verdict = verdict_of(GOOD, BAD, gates=["pass_rate >= 50%"])
    assert said(verdict) == (0, "PASS: pass_rate is 50 % (point estimate), as required (>= 50 %).")


def test_without_a_gate_nothing_is_called_a_pass() -> None:
    assert said(verdict_of(BAD, gates=[])) == (0, "NO GATE: 0 of 1 judged result passed (0 %).")


def test_a_run_with_unjudged_rows_is_incomplete_even_if_the_gate_holds() -> None:
    sentence = "INCOMPLETE: 1 result with an error; the gate holds on the 1 judged result."
    assert said(verdict_of(GOOD, ERROR)) == (3, sentence)


def test_of_several_gates_all_hold() -> None:
    sentence = "INCOMPLETE: 1 result with an error; all gates hold on the 1 judged result."
    assert said(verdict_of(GOOD, ERROR, gates=["mean >= 0.5", "pass_rate >= 50%"])) == (3, sentence)


def test_quality_comes_before_completeness() -> None:
    assert verdict_of(BAD, ERROR).exit_code == 1


def test_tolerated_errors_do_not_make_a_run_incomplete() -> None:
    verdict = verdict_of(GOOD, ERROR, max_errors=1)
    assert said(verdict) == (0, "PASS: 1 of 1 judged result passed (100 %). 1 result with an error.")


def test_a_run_with_no_judged_row_never_passes_whatever_is_tolerated() -> None:
    for gates in (None, [], ["errors <= 5"]):
        assert verdict_of(ERROR, gates=gates, max_errors=5).exit_code == 3


def test_a_run_that_made_fewer_rows_than_planned_never_passes() -> None:
    assert said(verdict_of(GOOD, planned=4)) == (3, "INCOMPLETE: only 1 of 4 planned results is complete.")


def test_nothing_selected() -> None:
    assert verdict_of().exit_code == 5


def test_a_run_that_was_stopped_early_says_why() -> None:
    verdict = verdict_of(GOOD, state="stopped", reason="1 result did not pass (--fail-fast)", planned=9)
    assert said(verdict) == (2, "STOPPED: 1 result did not pass (--fail-fast); 1 of 9 planned results is complete.")


def test_a_run_that_failed_its_gate_and_ended_early_says_both() -> None:
    verdict = verdict_of(BAD, state="failed", reason="store_error: no space left", planned=50)
    assert verdict.exit_code == 1
    assert verdict.sentence == (
        "FAIL: 0 of 1 judged result passed (0 %). The run ended early: store_error: no space left; "
        "1 of 50 planned results is complete."
    )


def test_a_failed_healthcheck_is_incomplete() -> None:
    verdict = verdict_of(state="failed", reason="the healthcheck of 'x' failed: exit 1")
    assert said(verdict) == (3, "INCOMPLETE: the healthcheck of 'x' failed: exit 1.")


def test_invalid_lines_of_a_dataset_come_before_everything() -> None:
    assert verdict_of(BAD, ERROR, state="interrupted", invalid_rows=1).exit_code == 4


def test_an_interrupt_comes_before_quality_and_says_what_is_kept() -> None:
    assert said(verdict_of(BAD, state="interrupted", planned=20)) == (
        130,
        "INTERRUPTED: 1 of 20 planned results is stored.",
    )
    assert verdict_of(BAD, state="interrupted", signal_number=15).exit_code == 143


def test_a_suites_own_gate_is_measured_on_its_rows() -> None:
    summary = Summary(["evals/s.yaml"])
    summary.add(GOOD)
    summary.add(replace(BAD, slot=replace(BAD.slot, suite="evals/other.yaml")))
    gates = [ScopedGate(parse_gate("pass_rate >= 99%"), "evals/s.yaml"), ScopedGate(parse_gate("pass_rate >= 50%"))]
    verdict = run_verdict(summary, Ending("finished"), gates=gates)
    assert verdict.exit_code == 0
    assert [each.sentence for each in verdict.gates] == [
        "evals/s.yaml: pass_rate is 100 % (point estimate), as required (>= 99 %)",
        "pass_rate is 50 % (point estimate), as required (>= 50 %)",
    ]


def test_a_failing_judge_stands_first_in_a_verdict_that_does_not_pass() -> None:
    failure = Failure("judge_error", "no JSON", stage="evaluator")
    broken = [replace(make_row(f"x{number}", score=None, error=failure)) for number in range(2)]
    judged = [
        replace(row, evaluator_results=(replace(row.evaluator_results[0], judge_calls=(CALL,)),)) for row in (GOOD, BAD)
    ]
    assert said(verdict_of(judged[0], *broken))[1].startswith(
        "INCOMPLETE: the judge failed on 2 of 3 results; 2 results with"
    )
    failed = said(verdict_of(*judged, *broken))[1]
    assert failed.startswith("FAIL: the judge failed on 2 of 4 results; 1 of 2 judged results")
    assert said(verdict_of(*broken))[1].startswith(
        "INCOMPLETE: the judge failed on 2 of 2 results; no result could be judged."
    )
    assert said(verdict_of(judged[0], *broken, max_errors=2))[1].startswith("PASS: 1 of 1 judged result passed")


def test_an_undecided_gate_makes_a_run_incomplete() -> None:
    sentence = "mean is 1, as required (>= 0.5)"
    undecided = "pass_hat(3) could not be measured (no case has 3 judged trials), so 'pass_hat(3) >= 0.5' is undecided"
    verdict = verdict_of(GOOD, gates=["mean >= 0.5", "pass_hat(3) >= 0.5"])
    assert said(verdict) == (3, f"INCOMPLETE: {undecided}.")
    assert [(each.state, each.sentence) for each in verdict.gates] == [("passed", sentence), ("undecided", undecided)]


WITHOUT_TAG = "the selection leaves out tag 'refund'"


def test_a_gate_that_is_not_evaluated_neither_passes_nor_fails() -> None:
    left = ScopedGate(parse_gate("tag(refund).mean >= 0.9"), not_evaluated=WITHOUT_TAG)
    verdict = run_verdict(summary_of(GOOD, BAD), Ending("finished"), gates=[left, ScopedGate(parse_gate("mean >= 0"))])
    said_of_it = f"tag(refund).mean >= 0.9 ({WITHOUT_TAG})"
    assert said(verdict) == (0, f"PASS: mean is 0.5, as required (>= 0). Not evaluated: {said_of_it}.")
    assert [each.state for each in verdict.gates] == ["not_evaluated", "passed"]
    assert not verdict.gates[0].passed


def test_if_no_gate_is_evaluated_every_judged_result_must_pass() -> None:
    left = ScopedGate(parse_gate("tag(refund).mean >= 0.9"), not_evaluated=WITHOUT_TAG)
    verdict = run_verdict(summary_of(GOOD, BAD), Ending("finished"), gates=[left])
    assert verdict.exit_code == 1
    assert verdict.sentence.startswith("FAIL: 1 of 2 judged results passed (50 %). Not evaluated: tag(refund)")


def test_a_suite_without_an_evaluated_gate_must_pass_completely() -> None:
    summary = Summary(["evals/s.yaml", "evals/t.yaml"])
    summary.add(replace(BAD, slot=replace(BAD.slot, suite="evals/s.yaml")))
    summary.add(replace(GOOD, slot=replace(GOOD.slot, suite="evals/t.yaml")))
    gates = [
        ScopedGate(parse_gate("tag(refund).mean >= 0.9"), "evals/s.yaml", not_evaluated=WITHOUT_TAG),
        ScopedGate(parse_gate("mean >= 0.9"), "evals/t.yaml"),
    ]
    verdict = run_verdict(summary, Ending("finished"), gates=gates)
    assert verdict.exit_code == 1
    assert "evals/s.yaml: pass_rate is 0 % (point estimate), not >= 100 %" in verdict.sentence


def test_a_scoped_gate_is_the_same_after_storing() -> None:
    for gate in (
        ScopedGate(parse_gate("mean >= 0.5")),
        ScopedGate(parse_gate("mean >= 0.5"), "evals/s.yaml", not_evaluated=WITHOUT_TAG),
    ):
        assert ScopedGate.from_json(gate.to_json()) == gate


def test_reruns_and_rescored_answers_stand_in_every_sentence() -> None:
    again = replace(make_row("b"), generation=1, rerun="failed")
    judged_again = replace(GOOD, rescored=2)
    reruns = "1 result was re-run; first answers count."
    assert said(verdict_of(GOOD, BAD, again)) == (1, f"FAIL: 1 of 2 judged results passed (50 %). {reruns}")
    both = f"{reruns} Answers were rescored 2 times."
    assert said(verdict_of(judged_again, again)) == (0, f"PASS: 1 of 1 judged result passed (100 %). {both}")
    incomplete = f"INCOMPLETE: 1 result with an error; the gate holds on the 1 judged result. {both}"
    assert said(verdict_of(judged_again, ERROR, again)) == (3, incomplete)
    assert said(verdict_of(replace(GOOD, rescored=1)))[1].endswith("Answers were rescored 1 time.")
