"""The cases of a run in progress: each is reported once, when all of its results are there."""

import math
from collections.abc import Iterator

from msgspec import Struct, field

from agentv.scoring.gates.failing_cases import case_name, shown_first
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunStarted
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseId, CaseName

_MAX_OPEN = 10_000


class FinishedCase(Struct, frozen=True):
    """A case that did not pass: as a whole, or with one prompt and target."""

    result: CaseResult
    """Of its results, the first trial of the worst state."""
    passed: int = 0
    results: int = 1
    """The number of its results, `passed` of which passed."""
    failed: tuple[CaseName, ...] = ()
    """Its prompts and targets that did not pass; empty if the case is only one prompt and target of a case."""


class _OpenCase(Struct):
    """A case with unfinished results."""

    results: int = 0
    passed: int = 0
    shown: CaseResult | None = None
    """The result to show, None if all passed so far."""
    failed: dict[CaseName, None] = field(default_factory=dict)

    def add(self, result: CaseResult) -> None:
        self.results += 1
        state = row_state(result)
        if state in ("pass", "skipped"):
            self.passed += 1
            return
        self.failed[case_name(result)] = None
        self.shown = result if self.shown is None else min(self.shown, result, key=shown_first)


class FinishedCases(Struct):
    """Groups results by case; where the number of results of a case is unknown, by case, prompt and target.

    At most 10,000 cases are open at once: further ones are reported result by result.
    """

    size: int = 1
    """The number of results of each."""
    is_by_case: bool = False
    open: dict[CaseId | CaseName, _OpenCase] = field(default_factory=dict)

    @classmethod
    def of_run(cls, started: RunStarted) -> "FinishedCases":
        """Return the groups of a run that begins."""
        cells = math.prod(max(1, len(names)) for names in (started.targets, started.prompts))
        size = cells * started.trials
        if cells > 1 and started.cases is not None and started.planned == started.cases * size:
            return cls(size, is_by_case=True)
        return cls(started.trials)

    def add(self, result: CaseResult) -> FinishedCase | None:
        """Add a result; return its case if it was the last one of a case that did not pass."""
        if self.size == 1:
            return _alone(result)
        cell = case_name(result)
        name = CaseId(cell.suite, cell.eval_id) if self.is_by_case else cell
        case = self.open.get(name)
        if case is None:
            if len(self.open) >= _MAX_OPEN:
                return _alone(result)
            case = self.open[name] = _OpenCase()
        case.add(result)
        if case.results < self.size:
            return None
        del self.open[name]
        return self._outcome(case)

    def unfinished(self) -> Iterator[FinishedCase]:
        """Yield the open cases that did not pass so far, and forget all of them."""
        cases, self.open = self.open, {}
        yield from filter(None, map(self._outcome, cases.values()))

    def _outcome(self, case: _OpenCase) -> FinishedCase | None:
        if case.shown is None:
            return None
        return FinishedCase(case.shown, case.passed, case.results, tuple(case.failed) if self.is_by_case else ())


def _alone(result: CaseResult) -> FinishedCase | None:
    return None if row_state(result) in ("pass", "skipped") else FinishedCase(result)
