"""Groups that gates name are counted, however many other groups there are."""

from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.counting.groups import MAX_GROUPS, MAX_STREAM_GROUPS, OTHERS
from agentv.scoring.gates.gates import STREAM_METRICS, parse_gate
from agentv.scoring.gates.run_verdict import ScopedGate, stream_summary_for, summary_for
from agentv.types.evaluation import EvaluationResult
from agentv.types.records.result import CaseResult


def criterion(number: int) -> EvaluationResult:
    return EvaluationResult(f"c{number}", None, 0.5)


def row_with(result: EvaluationResult) -> CaseResult:
    row = make_row(result.criterion_name)
    (judged,) = row.evaluator_results
    return replace(row, evaluator_results=(replace(judged, results=(result,)),))


def test_a_criterion_named_by_a_gate_always_has_its_own_tally() -> None:
    gate = parse_gate(f"criterion(c{MAX_GROUPS + 5}).mean >= 0.5")
    summary = summary_for([ScopedGate(gate, "evals/s.yaml"), ScopedGate(gate)], has_shared_cases=False)
    for number in range(MAX_GROUPS + 10):
        summary.add(row_with(criterion(number)))
    assert OTHERS in summary.names("criterion")
    assert gate.check(summary).passed
    assert gate.check(summary.of_suite("evals/s.yaml")).passed


def test_so_is_one_of_a_stream() -> None:
    gate = parse_gate(f"criterion(c{MAX_STREAM_GROUPS + 5}).mean >= 0.5", STREAM_METRICS)
    summary = stream_summary_for([ScopedGate(gate)])
    for number in range(MAX_STREAM_GROUPS + 10):
        summary.add(row_with(criterion(number)), has_trials=False)
    assert OTHERS in summary.names("criterion")
    assert gate.check(summary).passed
