"""The cases of a run that fell against its baseline, for the gates that they make fail."""

from collections.abc import Mapping

from agentv.scoring.comparison.case_differences import CaseDifference
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.sides import SCORE
from agentv.scoring.gates import gates
from agentv.scoring.gates.failing_cases import MAX_FAILED_CASES, MAX_NAMED_CASES, ListedCase, ListedCases
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.types.results import CaseId, CaseName


def fallen_cases(
    comparison: Comparison, scoped: ScopedGate, confirmed: Mapping[CaseName, int] | None = None
) -> ListedCases:
    """Return the cases that count against a gate about a baseline, the largest fall first.

    For `not worse`, these are the cases with a lower score, of targets that got worse; for confirmed regressions the
    `confirmed` ones, given with the numbers of failed re-runs; else those that regressed. The side of the run must
    have the positions of its rows.
    """
    confirmed = confirmed or {}
    fallen = sorted(
        (case for case in comparison.cases if scoped.suite in (None, case.pair.after.suite)),
        key=lambda case: case.difference,
    )
    match scoped.gate.name:
        case gates.NOT_WORSE:
            change = comparison.score_change(scoped.suite)
            targets = () if change is None else change.worse_targets
            fallen = [
                case for case in fallen if case.difference < 0 and (not targets or case.pair.after.target in targets)
            ]
        case gates.CONFIRMED:
            fallen = [case for case in fallen if case.pair.after in confirmed]
        case _:
            fallen = [case for case in fallen if case.change == "regressed"]
    by_id: dict[CaseId, list[CaseDifference]] = {}
    for case in fallen:
        by_id.setdefault(CaseId(case.pair.after.suite, case.pair.after.eval_id), []).append(case)
    ids, is_confirmed = list(by_id)[:MAX_NAMED_CASES], scoped.gate.name == gates.CONFIRMED
    shown = (case for each in ids[:MAX_FAILED_CASES] for case in by_id[each])
    listed = (_listed(comparison, case, confirmed.get(case.pair.after, 0) if is_confirmed else 0) for case in shown)
    others = tuple(ids[MAX_FAILED_CASES:])
    return ListedCases(tuple(filter(None, listed)), len(fallen), len(by_id), others=others)


def _listed(comparison: Comparison, case: CaseDifference, reruns: int) -> ListedCase | None:
    """Return a case with the rows to show; None if the run has no row of it."""
    before, after = comparison.before, comparison.after
    position, earlier = after.worst_row(case.pair.after), before.worst_row(case.pair.before)
    if position is None:
        return None
    results = after.measured_count(SCORE, case.pair.after)
    return ListedCase(
        case.pair.after,
        position.line - 1,
        failed=round((1 - case.passed_after) * results),
        results=results,
        before=case.before,
        seq_before=None if earlier is None else earlier.line - 1,
        reruns=reruns,
    )
