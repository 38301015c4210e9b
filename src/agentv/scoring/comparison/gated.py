"""The measurements that gates can check on a run that is compared with an earlier one."""

from collections.abc import Collection
from functools import cached_property
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.comparison.case_differences import Change
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.confirmations import Confirmations
from agentv.scoring.comparison.measured import MeasureDifference
from agentv.scoring.comparison.not_in_baseline import not_in_baseline
from agentv.scoring.comparison.sides import PASSED, SCORE, evaluator_measure, evaluator_of
from agentv.scoring.counting.tallies import Tally
from agentv.scoring.gates.gates import Measurements, ScoreChange
from agentv.scoring.gates.run_verdict import VerdictCounts
from agentv.scoring.statistics.intervals import mean_interval, rate_interval
from agentv.types.summaries import LEVEL, Interval, NotInBaseline

_HALF = 0.5


class Regressions(Protocol):
    """Gives what changed since an earlier run: the number of regressed cases, the finding on the mean score."""

    def regressions(self, suite: str | None = None) -> float | None:
        """Return the number, of one suite if it is named; None if no case is in both runs."""

    def score_change(self, suite: str | None = None) -> ScoreChange | None:
        """Return what was found on the mean score, of one suite if it is named; None if no case is in both runs."""


class MeasurementsWithBaseline(Struct, frozen=True):
    """The measurements of a run, plus the metrics about its baseline."""

    measured: Measurements
    comparison: Regressions | None
    """None for a stored run, whose gates on it are recorded."""
    confirmations: Confirmations | None = None
    """None if no gate asks for confirmed regressions."""
    not_in_baseline: NotInBaseline = NotInBaseline()
    suite: str | None = None
    """The only suite that is measured, None for the whole run."""

    def score_change(self) -> ScoreChange | None:
        """Return what the comparison with the baseline found on the mean score."""
        return None if self.comparison is None else self.comparison.score_change(self.suite)

    def why_not_compared(self) -> str | None:
        """Return why gates for change cannot measure the run, or the suite; None if they can."""
        return self.not_in_baseline.unmeasured.get(self.suite or "")

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a gate's metric."""
        match name:
            case "regressions":
                return None if self.comparison is None else self.comparison.regressions(self.suite)
            case "confirmed_regressions":
                confirmed = None if self.confirmations is None else self.confirmations.confirmed(self.suite)
                return None if confirmed is None else float(len(confirmed))
            case "confirmed_cases":
                confirmed = None if self.confirmations is None else self.confirmations.confirmed(self.suite)
                return None if confirmed is None else float(len({each[:2] for each in confirmed}))
            case "suspected_regressions":
                return None if self.confirmations is None else self.confirmations.suspected(self.suite)
            case _:
                return self.measured.measure(name, argument, field)

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval of a gate's metric."""
        return self.measured.interval(name, argument, field)

    def names(self, kind: str) -> Collection[str]:
        """Return the names of a kind that the run has."""
        return self.measured.names(kind)

    def left_out(self, kind: str, name: str) -> int:
        """Return the number of unmeasured results under that name, such as those with an error."""
        if kind == "confirmed_regressions":
            return 0 if self.confirmations is None else self.confirmations.undecided(self.suite)
        return self.measured.left_out(kind, name)

    def is_estimated(self, name: str) -> bool:
        """Return True if a metric of the run is a sum with estimated parts."""
        return self.measured.is_estimated(name)


class ComparedRun(Struct, frozen=True):
    """A run's counts, plus the metrics about its baseline."""

    counted: VerdictCounts
    comparison: Regressions | None
    confirmations: Confirmations | None = None
    not_in_baseline: NotInBaseline = NotInBaseline()

    @property
    def all(self) -> Tally:
        """The tally over all rows."""
        return self.counted.all

    @property
    def unverified(self) -> int:
        """The number of the run's rows with an unverified verdict of a judge."""
        return self.counted.unverified

    @property
    def reruns(self) -> int:
        """The number of the run's results that were re-run after they had an answer."""
        return self.counted.reruns

    @property
    def rerun_answers(self) -> int:
        """The number of these re-runs."""
        return self.counted.rerun_answers

    @property
    def rescored(self) -> int:
        """How often the run's answers were judged again."""
        return self.counted.rescored

    @property
    def clamped(self) -> int:
        """The number of the run's rows with a judge's number that was clamped to 0..1."""
        return self.counted.clamped

    @property
    def judge_failures(self) -> tuple[int, int]:
        """The number of the run's rows that a judge failed to judge, and of all for which one was called."""
        return self.counted.judge_failures

    def of_suite(self, suite: str) -> Measurements:
        """Return the measurements over one suite's rows, plus its regressions."""
        counted = self.counted.of_suite(suite)
        return MeasurementsWithBaseline(counted, self.comparison, self.confirmations, self.not_in_baseline, suite)

    @property
    def _measured(self) -> MeasurementsWithBaseline:
        return MeasurementsWithBaseline(self.counted, self.comparison, self.confirmations, self.not_in_baseline)

    def score_change(self) -> ScoreChange | None:
        """Return what the comparison with the baseline found on the mean score."""
        return self._measured.score_change()

    def why_not_compared(self) -> str | None:
        """Return why gates for change cannot measure the run; None if they can."""
        return self._measured.why_not_compared()

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a gate's metric."""
        return self._measured.measure(name, argument, field)

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval of a gate's metric."""
        return self.counted.interval(name, argument, field)

    def names(self, kind: str) -> Collection[str]:
        """Return the names of a kind that the run has."""
        return self.counted.names(kind)

    def left_out(self, kind: str, name: str) -> int:
        """Return the number of unmeasured results under that name, such as those with an error."""
        return self._measured.left_out(kind, name)

    def is_estimated(self, name: str) -> bool:
        """Return True if a metric of the run is a sum with estimated parts."""
        return self.counted.is_estimated(name)


class ComparedPairs:
    """The cases of a comparison, counted by their result in the later run for the verdict.

    These are the cases judged in both runs, or all judged cases of the later run if the runs are not paired.
    """

    unverified = reruns = rerun_answers = rescored = clamped = 0
    judge_failures = (0, 0)
    """All are always 0: the reports of the two runs give these numbers."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self.all = Tally()
        for _, score, _, passed in comparison.cases.values():
            self.all.add("pass" if passed > _HALF else "fail", score)
        for pair in comparison.pairs_with_errors:
            if comparison.before.mean(SCORE, pair.before) is None or comparison.after.mean(SCORE, pair.after) is None:
                self.all.add("error", None)
        if not comparison.is_paired:
            self._add_samples()

    def _add_samples(self) -> None:
        """Count the later side's judged cases if both sides have scores, and each side's cases with an error."""
        before, after = self._comparison.before, self._comparison.after
        is_scored = self._comparison.score is not None
        for name in after.names() if is_scored else ():
            score, passed = after.mean(SCORE, name), after.mean(PASSED, name)
            if score is not None:
                self.all.add("pass" if (passed or 0.0) > _HALF else "fail", score)
        for side in (before, after):
            for name in side.names():
                if side.error_count(name):
                    self.all.add("error", None)

    @cached_property
    def not_in_baseline(self) -> NotInBaseline:
        """The cases of the later run that the earlier one does not have; none if the runs are not paired."""
        if not self._comparison.is_paired:
            return NotInBaseline()
        return replace(not_in_baseline(self._comparison), selectors=())  # the options of `agentv run`

    def of_suite(self, suite: str) -> Measurements:
        """Raise NotImplementedError: a comparison has no gates of suites."""
        raise NotImplementedError(suite)

    def score_change(self) -> ScoreChange | None:
        """Return what the comparison found on the mean score."""
        return self._comparison.score_change()

    def why_not_compared(self) -> str | None:
        """Return why gates for change cannot measure the later run; None if they can."""
        return self.not_in_baseline.unmeasured.get("")

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of one of COMPARE_METRICS, None when there is nothing to measure."""
        found = self._comparison
        match name:
            case "regressions" | "improvements":
                change: Change = "regressed" if name == "regressions" else "improved"
                return float(found.changed_count(change)) if found.cases else None
            case "mean" | "pass_rate":
                measured = found.score if name == "mean" else found.passed
                return None if measured is None else measured.after
            case "mean_difference" | "pass_rate_difference":
                measured = found.score if name == "mean_difference" else found.passed
                return None if measured is None else measured.difference
            case _:
                each = self._evaluator(argument)
                return None if each is None else each.difference if field == "difference" else each.after

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval over cases; None with fewer than two cases, and for a metric without one."""
        found = self._comparison
        match name:
            case "mean":
                return None if found.score is None else mean_interval(found.score.moments_after)
            case "pass_rate":
                return None if found.passed is None else rate_interval(found.passed.moments_after)
            case "mean_difference" | "pass_rate_difference":
                measured = found.score if name == "mean_difference" else found.passed
                return None if measured is None else measured.interval_at(LEVEL)
            case _:
                each = self._evaluator(argument)
                if each is None:
                    return None
                return each.interval_at(LEVEL) if field == "difference" else mean_interval(each.moments_after)

    def names(self, kind: str) -> Collection[str]:  # noqa: ARG002 - evaluators alone have names here
        """Return the evaluators that both runs have."""
        return [name for each in self._comparison.evaluators if (name := evaluator_of(each.measure)) is not None]

    def left_out(self, kind: str, name: str) -> int:  # noqa: ARG002 - part of the protocol
        """Return 0: only cases judged in both runs are compared, and the report lists the others."""
        return 0

    def is_estimated(self, name: str) -> bool:  # noqa: ARG002 - part of the protocol
        """Return False: no metric of a comparison is a cost."""
        return False

    def _evaluator(self, name: str | None) -> MeasureDifference | None:
        wanted = evaluator_measure(name or "")
        return next((each for each in self._comparison.evaluators if each.measure == wanted), None)
