"""The cases of rows that did not pass, as a run lists them."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from agentv.scoring.gates.failing_cases import FailingCases
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseOutcome


def listed(rows: Sequence[CaseResult], *, question: str = "", expected: str = "") -> Mapping[str, Any]:
    """Return the fields of a report that name the cases of these rows; each case has this question and expectation."""
    failing = FailingCases(())
    for number, row in enumerate(rows):
        failing.add(replace(row, seq=number), has_trials=True)
    found = failing.of_run()
    cases = tuple(
        CaseOutcome(rows[each.seq], question, expected, failed=each.failed, results=each.results)
        for each in found.cases
    )
    return {"cases": cases, "cases_total": found.total, "cases_distinct": found.distinct or 0}
