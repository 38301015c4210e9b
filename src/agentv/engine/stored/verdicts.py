"""The verdict of a stored run: computed from its rows, and compared with the one that the run recorded at its end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.running.notes import RecordedReport
from agentv.scoring.comparison.gated import ComparedRun, RecordedRegressions
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.run_verdict import (
    INCOMPLETE,
    SIGNALLED,
    Counted,
    Ending,
    ScopedGate,
    run_verdict,
    summary_for,
)
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState, RunState, RunVerdict

_NOT_RECORDED = "an older agentv did not record why"


class StoredCounts(Struct):
    """The counts of a stored run's results; `invalid_rows` are lines of a dataset that could not be read."""

    summary: Summary
    has_trials: bool
    invalid_rows: int = 0

    def add(self, row: CaseResult) -> None:
        """Count a row."""
        self.summary.add(row, has_trials=self.has_trials)
        self.invalid_rows += row.error is not None and row.error.stage == "load"

    @property
    def by_state(self) -> Mapping[str, int]:
        """The number of rows in each state."""
        counts = self.summary.all.counts
        return {state: counts[state] for state in get_args(RowState)}


class StoredVerdict(Struct, frozen=True):
    """What decides the verdict of a stored run, beside its rows. `are_given` says that no target was called."""

    state: RunState
    planned: int | None
    gates: Sequence[ScopedGate] | None
    max_errors: int
    recorded: RecordedReport | None = None
    order: PlanOrder = PlanOrder()
    reason: str | None = None
    """Why the run did not finish, if its plan says so."""
    are_given: bool = False

    def count(self, rows: Iterable[CaseResult], *, has_trials: bool) -> StoredCounts:
        """Return the counts of rows."""
        summary = summary_for(self.gates, has_targets=has_trials, are_given=self.are_given, order=self.order)
        counts = StoredCounts(summary, has_trials)
        for row in rows:
            counts.add(row)
        return counts

    def of(self, counts: StoredCounts) -> RunVerdict:
        """Return the verdict on counted rows."""
        summary = counts.summary
        # An unreadable line of a log is an error like any other; one of a dataset makes the run invalid.
        ending = self._ending(0 if self.are_given else counts.invalid_rows)
        if self.state == "finished" and self.planned and not summary.all.rows:
            ending = replace(ending, state="failed", reason="none of its planned results is stored")
        return run_verdict(self._counted(summary), ending, gates=self.gates, max_errors=self.max_errors)

    def _ending(self, invalid_rows: int) -> Ending:
        ending = Ending(
            state=self.state,
            reason=self.reason,
            planned=self.planned,
            invalid_rows=invalid_rows,
            noun="line" if self.are_given else "result",
        )
        recorded = self.recorded
        if recorded is None or recorded.ended is None:
            return ending
        is_known = recorded.has_gates or self.state == "finished"
        signal_number = _signal_of(recorded.verdict, ending)
        return replace(
            ending,
            reason=recorded.reason if is_known else _NOT_RECORDED,
            signal_number=signal_number,
            is_judge_stop=recorded.is_judge_stop,
        )

    @property
    def is_comparable(self) -> bool:
        """True if the run recorded its verdict with these gates, and has seen every row."""
        recorded = self.recorded
        if recorded is None or recorded.ended is None:
            return False
        if recorded.has_gates:
            return recorded.counts is not None
        expressions = None if self.gates is None else [each.gate.expression for each in self.gates]
        known = [each.expression for each in recorded.verdict.gates]
        return self.state == "finished" and expressions in (None, known)

    def difference(self, counts: StoredCounts) -> "VerdictDifference | None":
        """Return the difference between the recorded verdict and the one that the rows give, None if there is none.

        Numbers are compared, not sentences: rows by state, outcomes of gates, exit code.
        """
        if self.recorded is None or not self.is_comparable:
            return None
        found, recorded = self.of(counts), self.recorded.verdict
        before = self.recorded.counts
        numbers = (*_counted_differently(counts.by_state, before or {}), *_decided_differently(found, recorded))
        if not numbers and found.exit_code == recorded.exit_code:
            return None
        return VerdictDifference(found, recorded, numbers, _are_only_missing(counts.by_state, before or {}))

    def _counted(self, summary: Summary) -> Counted:
        """Return a summary, with the regressions as recorded: the baseline is not part of the run."""
        recorded = () if self.recorded is None else self.recorded.verdict.gates
        pairs = zip(self.gates or (), recorded, strict=False)
        regressions = {scoped.suite: result.value for scoped, result in pairs if scoped.gate.name == "regressions"}
        return ComparedRun(summary, RecordedRegressions(regressions)) if regressions else summary


class VerdictDifference(Struct, frozen=True):
    """A verdict that the rows give, another one that was recorded, and the numbers in which they differ.

    `is_only_missing` is True if rows are missing and the others may be as recorded.
    """

    found: RunVerdict
    recorded: RunVerdict
    numbers: tuple[str, ...]
    is_only_missing: bool

    @property
    def sentence(self) -> str:
        """Both verdicts, and the numbers that differ."""
        found, recorded = (f"{each.sentence} (exit code {each.exit_code})" for each in (self.found, self.recorded))
        numbers = f" Different: {', '.join(self.numbers)}." if self.numbers else ""
        return (
            f"the stored results do not give the recorded verdict. They give: {found}; recorded at the end: "
            f"{recorded}.{numbers}"
        )

    @property
    def verdict(self) -> RunVerdict:
        """The verdict of a run whose rows are not those that it was judged by."""
        return RunVerdict(INCOMPLETE, f"INCOMPLETE: {self.sentence}", self.found.gates)


def _signal_of(recorded: RunVerdict, ending: Ending) -> int:
    """Return the signal that interrupted a run, which only its exit code records."""
    number = recorded.exit_code - SIGNALLED
    return number if number > 0 else ending.signal_number


def _counted_differently(found: Mapping[str, int], recorded: Mapping[str, int]) -> Iterator[str]:
    for state, count in recorded.items():
        if found.get(state) != count:
            yield f"{state} {found.get(state, 0):,} (recorded {count:,})"


def _decided_differently(found: RunVerdict, recorded: RunVerdict) -> Iterator[str]:
    for ours, theirs in zip(found.gates, recorded.gates, strict=False):
        if ours.passed != theirs.passed:
            was, is_now = ("passed" if each.passed else "failed" for each in (theirs, ours))
            yield f"gate {ours.expression!r} {is_now} (recorded {was})"


def _are_only_missing(found: Mapping[str, int], recorded: Mapping[str, int]) -> bool:
    is_within = all(count <= recorded.get(state, 0) for state, count in found.items())
    return is_within and sum(found.values()) < sum(recorded.values())
