"""The cases that count against a gate, with the numbers of their trials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.stored import make_result

from agentv.scoring.gates.failing_cases import FailingCases
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult

SLOT = make_result().slot


def trial(number: int, *, state: str) -> CaseResult:
    fields = {"slot": replace(SLOT, trial=number), "seq": number, "status": state, "evaluator_results": ()}
    if state == "error":
        return make_result(**fields, score=None, verdict=None, error=Failure("server_error", "HTTP 503"))
    return make_result(**fields, score=float(state == "pass"), verdict=state)


@pytest.mark.parametrize(
    ("gate", "states", "expected"),
    [
        ("errors <= 0", ["pass", "error", "fail"], (1, 3)),
        ("errors <= 0", ["error", "error", "error"], (3, 3)),
        ("error_rate <= 10%", ["pass", "error"], (1, 2)),
        ("pass_rate >= 90%", ["pass", "error", "fail"], (1, 2)),
    ],
)
def test_a_gate_counts_the_trials_that_it_measures(gate: str, states: list[str], expected: tuple[int, int]) -> None:
    failing = FailingCases([ScopedGate(parse_gate(gate))])
    for number, state in enumerate(states):
        failing.add(trial(number, state=state), has_trials=True)
    (case,) = failing.of_gate(0).cases
    assert (case.failed, case.results) == expected


def case(name: str, trial: int, state: str, score: float, line: int) -> CaseResult:
    slot = replace(SLOT, eval_id=name, trial=trial)
    return replace(
        trial_of(state), slot=slot, seq=100 * line + trial, line=line, score=None if state == "error" else score
    )


def trial_of(state: str) -> CaseResult:
    return trial(0, state=state)


CASES = [
    case("error", 0, "error", 0.0, 1),
    case("close", 0, "borderline", 0.7, 2),
    case("late", 0, "fail", 0.2, 9),
    case("early", 0, "fail", 0.2, 3),
    case("mixed", 0, "pass", 1.0, 4),
    case("mixed", 1, "borderline", 0.7, 4),
    case("mixed", 2, "fail", 0.4, 4),
    case("mixed", 3, "fail", 0.1, 4),
    case("fine", 0, "pass", 1.0, 5),
]


@given(st.permutations(CASES))
def test_a_run_lists_fails_then_borderlines_then_errors_whatever_finished_first(rows: list[CaseResult]) -> None:
    failing = FailingCases(())
    for row in rows:
        failing.add(row, has_trials=True)
    found = failing.of_run()
    assert [each.name.eval_id for each in found.cases] == ["mixed", "early", "late", "close", "error"]
    assert (found.total, found.distinct) == (5, 5)
    mixed = found.cases[0]
    assert (mixed.failed, mixed.results, mixed.seq) == (3, 4, 402)  # the first trial that failed


@given(st.permutations(range(30)))
def test_the_ten_worst_cases_do_not_depend_on_the_order(order: list[int]) -> None:
    failing = FailingCases(())
    for number in order:
        failing.add(case(f"case-{number}", 0, "fail", number % 3 / 10, number), has_trials=False)
    found = failing.of_run()
    assert [each.name.eval_id for each in found.cases] == [f"case-{number}" for number in range(0, 30, 3)]
    assert found.total == 30


def test_only_a_gate_on_all_results_is_whole() -> None:
    gates = [ScopedGate(parse_gate(each)) for each in ("pass_rate >= 90%", "tag(a).pass_rate >= 90%", "mean >= 0.9")]
    failing = FailingCases([*gates, ScopedGate(parse_gate("pass_rate >= 90%"), suite=SLOT.suite)])
    failing.add(trial(0, state="fail"), has_trials=False)
    assert [failing.of_gate(index).is_whole_run for index in range(4)] == [True, False, False, False]
