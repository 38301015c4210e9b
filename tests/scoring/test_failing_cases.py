"""The cases that count against a gate, with the numbers of their trials."""

import pytest
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
