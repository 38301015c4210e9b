"""The cases of a run in progress: each is reported once, when all of its trials are finished."""

from collections.abc import Iterator

from msgspec import Struct, field

from agentv.scoring.gates.failing_cases import case_name, shown_first
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseName, CaseOutcome

_MAX_OPEN = 10_000


class _OpenCase(Struct):
    """A case with unfinished trials."""

    results: int = 0
    failed: int = 0
    shown: CaseResult | None = None
    """The result to show, None if all passed so far."""

    def add(self, result: CaseResult) -> None:
        self.results += 1
        state = row_state(result)
        if state in ("pass", "skipped"):
            return
        self.failed += 1
        self.shown = result if self.shown is None else min(self.shown, result, key=shown_first)

    def outcome(self) -> CaseOutcome | None:
        if self.shown is None:
            return None
        return CaseOutcome(self.shown, failed=self.failed, results=self.results)


class FinishedCases(Struct):
    """Groups results by case, target and prompt; `trials` is the number of results of each.

    At most 10,000 cases are open at once: further ones are reported result by result.
    """

    trials: int = 1
    open: dict[CaseName, _OpenCase] = field(default_factory=dict)

    def add(self, result: CaseResult) -> CaseOutcome | None:
        """Add a result; return its case if it was the last one of a case that did not pass."""
        if self.trials == 1:
            return _alone(result)
        name = case_name(result)
        case = self.open.get(name)
        if case is None:
            if len(self.open) >= _MAX_OPEN:
                return _alone(result)
            case = self.open[name] = _OpenCase()
        case.add(result)
        if case.results < self.trials:
            return None
        del self.open[name]
        return case.outcome()

    def unfinished(self) -> Iterator[CaseOutcome]:
        """Yield the open cases that did not pass so far, and forget all of them."""
        cases, self.open = self.open, {}
        yield from filter(None, (case.outcome() for case in cases.values()))


def _alone(result: CaseResult) -> CaseOutcome | None:
    return None if row_state(result) in ("pass", "skipped") else CaseOutcome(result)
