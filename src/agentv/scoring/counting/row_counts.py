"""Counts of finished rows, in constant memory except for four bytes per duration, eight with its case."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from agentv.scoring.counting.case_sums import case_of
from agentv.scoring.counting.groups import Groups
from agentv.scoring.counting.row_kinds import RowKind, kind_of
from agentv.scoring.counting.tallies import JUDGED_STATES, Tally, TargetTally
from agentv.scoring.keys.digests import DigestMap
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState

_CODES: Mapping[RowState, int] = {"pass": 0, "borderline": 1, "fail": 2}


class TrialVerdicts:
    """The first verdict of each case, and the cases that have another verdict as well."""

    def __init__(self) -> None:
        self._first = DigestMap("B")
        self._flaky: dict[tuple[str, str, str], None] = {}

    def add(self, slot: ResultKey, state: RowState) -> None:
        """Add the verdict of one trial; a row without a verdict is ignored."""
        code = _CODES.get(state)
        if code is None:
            return
        key = (slot.suite, slot.eval_id, slot.target)
        if self._first.setdefault("\0".join(key), code) != code:
            self._flaky[key] = None

    @property
    def flaky(self) -> tuple[str, ...]:
        """The cases with different verdicts, as `id (target)`, in the order in which they were found."""
        return tuple(f"{case} ({target})" for _, case, target in self._flaky)


HISTOGRAM_BINS = 10
_BIN_EDGES = tuple(n / HISTOGRAM_BINS for n in range(1, HISTOGRAM_BINS))
MAX_FAILING = 10
_COUNTED_AT_ONCE = 256
"""Rows waiting to be counted, grouped by kind: rules judge any number of rows in only a few ways."""


class RowCounts:
    """Counts of rows: of all, and by target, evaluator and group. `by`, `named`, `has_targets` as for Summary.

    Rows that are the only ones of their cases are counted by kind until `settle`.
    """

    def __init__(self, by: Iterable[str], named: Collection[tuple[str, str]], *, has_targets: bool) -> None:
        self._has_targets = has_targets
        self._waiting: list[RowKind] = []
        self.all = Tally()
        self.histogram = [0] * HISTOGRAM_BINS
        self.failing: list[CaseResult] = []
        self.failing_total = 0
        self.targets: dict[str, TargetTally] = {}
        self.evaluators: dict[tuple[str, str], Tally] = {}
        self.groups = Groups(by, named)
        self.trials = TrialVerdicts()

    def add(self, result: CaseResult, *, has_trials: bool) -> None:
        """Count one finished row."""
        state = row_state(result)
        case = case_of(result.slot) if has_trials or self._has_targets else None
        target = self.targets.get(result.slot.target)
        if target is None:
            target = self.targets[result.slot.target] = TargetTally()
        target.add(result, state, case)
        if has_trials:
            self.trials.add(result.slot, state)
        if state not in ("pass", "skipped"):
            self.failing_total += 1
            if len(self.failing) < MAX_FAILING:
                self.failing.append(result)
        kind = kind_of(result, state)
        if case is None:
            self._waiting.append(kind)
            if len(self._waiting) == _COUNTED_AT_ONCE:
                self.settle()
        else:
            self.settle()
            self._count(kind, 1, case, has_trials=has_trials)

    def settle(self) -> None:
        """Count the waiting rows. All sums are exact, so that the time of the call changes nothing."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for kind, rows in Counter(waiting).items():
                self._count(kind, rows, None, has_trials=False)

    def _count(self, kind: RowKind, rows: int, case: int | None, *, has_trials: bool) -> None:
        """Count rows of one kind. Without `has_trials` their case is shared with other targets only."""
        self.all.add(kind.state, kind.score, rows, case)
        self.targets[kind.target].rows.add(kind.state, kind.score, rows, case if has_trials else None)
        self.groups.add(kind, rows, case)
        for name, type_, state, score in kind.scored_evaluators():
            self._tally_of(name, type_).add(state, score, rows, case)
        if kind.state in JUDGED_STATES and kind.score is not None:
            self.histogram[bisect_right(_BIN_EDGES, kind.score)] += rows

    def _tally_of(self, name: str, type_: str) -> Tally:
        tally = self.evaluators.get((name, type_))
        if tally is None:  # `setdefault` would make one each time
            tally = self.evaluators[name, type_] = Tally()
        return tally
