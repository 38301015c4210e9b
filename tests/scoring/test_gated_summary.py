"""Groups that gates name are counted, however many other groups there are."""

from datetime import UTC, datetime

from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.counting.groups import MAX_GROUPS, OTHERS
from agentv.scoring.counting.judged_summary import MAX_CRITERIA
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.metrics import STREAM_METRICS
from agentv.scoring.gates.run_verdict import ScopedGate, judged_summary_for, summary_for
from agentv.types.criteria.aggregated_result import AggregatedEvaluationResult
from agentv.types.criteria.evaluation_input import EvaluationInput
from agentv.types.criteria.judged_lines import JudgedLine
from agentv.types.evaluation import EvaluationResult

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def criterion(number: int) -> EvaluationResult:
    return EvaluationResult(f"c{number}", None, 0.5)


def test_a_criterion_named_by_a_gate_always_has_its_own_tally() -> None:
    gate = parse_gate(f"criterion(c{MAX_GROUPS + 5}).mean >= 0.5")
    summary = summary_for([ScopedGate(gate, "evals/s.yaml"), ScopedGate(gate)], has_targets=False)
    for number in range(MAX_GROUPS + 10):
        row = make_row(f"r{number}")
        (judged,) = row.evaluator_results
        summary.add(replace(row, evaluator_results=(replace(judged, results=(criterion(number),)),)))
    assert OTHERS in summary.names("criterion")
    assert gate.check(summary).passed
    assert gate.check(summary.of_suite("evals/s.yaml")).passed


def test_so_is_one_of_a_stream() -> None:
    gate = parse_gate(f"criterion(c{MAX_CRITERIA + 5}).mean >= 0.5", STREAM_METRICS)
    summary = judged_summary_for([ScopedGate(gate)])
    for number in range(MAX_CRITERIA + 10):
        judged = AggregatedEvaluationResult(0.5, (criterion(number),), 1, 1, NOW, EvaluationInput("x"), verdict="fail")
        summary.add(JudgedLine("log", number, NOW, judged))
    assert OTHERS in summary.names("criterion")
    assert gate.check(summary).passed
