"""What finished rows come to, counted one by one: in constant memory but for four bytes a duration, and its case."""

from bisect import bisect_right
from collections.abc import Collection, Iterable

from agentv.scoring.aggregation import row_state
from agentv.scoring.case_sums import case_of
from agentv.scoring.groups import Groups, evaluator_state
from agentv.scoring.tallies import JUDGED_STATES, Tally
from agentv.scoring.target_tally import TargetTally
from agentv.scoring.trial_verdicts import TrialVerdicts
from agentv.types.evaluation import EvaluatorResult
from agentv.types.results import CaseResult, RowState

HISTOGRAM_BINS = 10
_BIN_EDGES = tuple(n / HISTOGRAM_BINS for n in range(1, HISTOGRAM_BINS))
FAILING_KEPT = 10


class RowCounts:
    """Counts of rows: all of them, and by target, evaluator and group. `by`, `kept`, `has_targets` as for Summary."""

    def __init__(self, by: Iterable[str], kept: Collection[tuple[str, str]], *, has_targets: bool) -> None:
        self._has_targets = has_targets
        self.all = Tally()
        self.histogram = [0] * HISTOGRAM_BINS
        self.failing: list[CaseResult] = []
        self.failing_total = 0
        self.targets: dict[str, TargetTally] = {}
        self.evaluators: dict[tuple[str, str], Tally] = {}
        self.groups = Groups(by, kept)
        self.trials = TrialVerdicts()

    def add(self, result: CaseResult, *, has_trials: bool) -> None:
        """Count one finished row."""
        state = row_state(result)
        case = case_of(result.slot) if has_trials or self._has_targets else None
        self.all.add(state, result.score, case)
        self.groups.add(result, state, case)
        for evaluator in result.evaluator_results:
            self._tally_of(evaluator).add(evaluator_state(evaluator), evaluator.score, case)
        target = self.targets.get(result.slot.target)
        if target is None:  # not by `setdefault`, which would make one for every row
            target = self.targets[result.slot.target] = TargetTally()
        target.add(result, state, case, has_trials=has_trials)
        if has_trials:
            self.trials.add(result.slot, state)
        self._show(result, state)

    def _tally_of(self, evaluator: EvaluatorResult) -> Tally:
        name = (evaluator.name, evaluator.type)
        tally = self.evaluators.get(name)
        if tally is None:
            tally = self.evaluators[name] = Tally()
        return tally

    def _show(self, result: CaseResult, state: RowState) -> None:
        """Take a row into the histogram and the list of failing rows."""
        if state in JUDGED_STATES and result.score is not None:
            self.histogram[bisect_right(_BIN_EDGES, result.score)] += 1
        if state not in ("pass", "skipped"):
            self.failing_total += 1
            if len(self.failing) < FAILING_KEPT:
                self.failing.append(result)
