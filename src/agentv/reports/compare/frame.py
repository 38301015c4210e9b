"""The cases of a comparison as the columns of a data frame."""

from agentv.reports.run.data_frame import Cell
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.explanations import Explain


def comparison_columns(comparison: Comparison, explain: Explain) -> dict[str, list[Cell]]:
    """Return the columns of all paired cases by name, with the texts of both sides."""
    cases = list(comparison.cases)
    names, told = [case.pair.after for case in cases], explain(cases)
    return {
        "suite": [name.suite for name in names],
        "case": [name.eval_id for name in names],
        "target": [name.target for name in names],
        "prompt": [name.prompt for name in names],
        "change": [case.change for case in cases],
        "score_before": [case.before for case in cases],
        "score_after": [case.after for case in cases],
        "difference": [case.difference for case in cases],
        "question": [each.question or None for each in told],
        "expected": [each.expected or None for each in told],
        "answer_before": [each.before.answer for each in told],
        "answer_after": [each.after.answer for each in told],
        "reason_before": [each.before.reason for each in told],
        "reason_after": [each.after.reason for each in told],
    }
