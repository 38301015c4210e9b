"""The cases of a run that fell against its baseline, for the gates that they make fail."""

from collections.abc import Mapping

from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.sides import SCORE, CaseName
from agentv.scoring.gates.failing_cases import MAX_GATE_CASES, ListedCase, ListedCases


def fallen_cases(
    comparison: Comparison, suite: str | None = None, *, only: Mapping[CaseName, int] | None = None
) -> ListedCases:
    """Return the cases that regressed since the baseline, the largest fall first; of one suite if it is named.

    `only` has the cases to return, with the numbers of their failed re-runs; None returns all. The side of the run must
    have the positions of its rows.
    """
    fallen = [
        case
        for case in comparison.changed("regressed")
        if suite in (None, case.pair.after.suite) and (only is None or case.pair.after in only)
    ]
    before, after = comparison.before, comparison.after
    cases = []
    for case in fallen[:MAX_GATE_CASES]:
        position, earlier = after.worst_row(case.pair.after), before.worst_row(case.pair.before)
        results = after.measured_count(SCORE, case.pair.after)
        if position is not None:
            cases.append(
                ListedCase(
                    case.pair.after,
                    position.line - 1,
                    failed=round((1 - case.passed_after) * results),
                    results=results,
                    before=case.before,
                    seq_before=None if earlier is None else earlier.line - 1,
                    reruns=0 if only is None else only[case.pair.after],
                )
            )
    return ListedCases(tuple(cases), len(fallen))
