"""Counts of a group of rows, with how sure its rate and its mean are."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from agentv.scoring.case_sums import CaseSums
from agentv.scoring.statistics.intervals import mean_interval, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.dataclass import dataclass
from agentv.types.intervals import Interval
from agentv.types.results import RowState

_NOTHING = ClusterMoments.of_passes(0, 0)
JUDGED_STATES: tuple[RowState, ...] = ("pass", "borderline", "fail")


@dataclass(slots=True)
class SingleRows:
    """Judged rows that are the only ones of their cases."""

    rows: int = 0
    passed: int = 0
    score_sum: float = 0.0
    squares: float = 0.0
    cubes: float = 0.0

    def add(self, rows: int, score: float, *, passed: bool) -> None:
        """Count so many rows of one score."""
        self.rows += rows
        self.passed += rows * passed
        self.score_sum += rows * score
        self.squares += rows * score * score
        self.cubes += rows * score * score * score


@dataclass(slots=True)
class _Sums:
    """Rows by state, the sum of their scores, and what is known of those that are alone."""

    counts: Counter[str] = field(default_factory=Counter)
    score_sum: float = 0.0
    single: SingleRows = field(default_factory=SingleRows)

    def add(self, waiting: Iterable[tuple[RowState, float | None]]) -> None:
        """Count rows that are the only ones of their cases, equal ones as one."""
        for (state, score), rows in Counter(waiting).items():
            self.counts[state] += rows
            if score is not None and state in JUDGED_STATES:
                self.score_sum += rows * score
                self.single.add(rows, score, passed=state == "pass")

    def copy(self) -> "_Sums":
        """Return sums that may be added to while these stay as they are."""
        return _Sums(self.counts.copy(), self.score_sum, replace(self.single))


_ADDED_AT_ONCE = 32
"""Rows that wait to be counted: equal ones, as a rule's are, are then counted as one."""


@dataclass(slots=True)
class Tally:
    """Counts and score sum of one group of rows. Only where cases have several rows is anything kept by case."""

    cases: CaseSums | None = None
    whole_passes: ClusterMoments = _NOTHING
    whole_scores: ClusterMoments = _NOTHING
    _sums: _Sums = field(default_factory=_Sums)
    _waiting: list[tuple[RowState, float | None]] = field(default_factory=list)

    def add(self, state: RowState, score: float | None, case: int | None = None) -> None:
        """Count one row. `case` (case_sums.case_of) says that its case may have other rows in this group."""
        if case is None:
            self._waiting.append((state, score))
            if len(self._waiting) == _ADDED_AT_ONCE:
                self._sums.add(self._waiting)
                self._waiting.clear()
            return
        self._sums.counts[state] += 1
        if score is None or state not in JUDGED_STATES:
            return
        self._sums.score_sum += score
        if self.cases is None:
            self.cases = CaseSums()
        self.cases.add(case, passed=state == "pass", score=score)

    def _now(self) -> _Sums:
        """Return the sums of all rows so far. Nobody who asks changes in which order rows are added up."""
        if not self._waiting:
            return self._sums
        sums = self._sums.copy()
        sums.add(self._waiting)
        return sums

    @property
    def counts(self) -> Counter[str]:
        """How many rows are in each state."""
        return self._now().counts

    @property
    def score_sum(self) -> float:
        """The sum of the judged rows' scores."""
        return self._now().score_sum

    @property
    def single(self) -> SingleRows:
        """The judged rows that are the only ones of their cases."""
        return self._now().single

    def add_whole(self, rows: Sequence[tuple[RowState, float | None]]) -> None:
        """Count all rows of a case that has no others in this group: sums are kept, and nothing of the case."""
        judged = [(state, score) for state, score in rows if score is not None and state in JUDGED_STATES]
        self._sums.counts.update(state for state, _ in rows)
        if not judged:
            return
        passed, total = sum(state == "pass" for state, _ in judged), math.fsum(score for _, score in judged)
        self._sums.score_sum += total
        self.whole_passes += ClusterMoments.of_clusters([(len(judged), passed)])
        self.whole_scores += ClusterMoments.of_clusters([(len(judged), total)])

    @property
    def rows(self) -> int:
        """All rows."""
        return self.counts.total()

    @property
    def judged(self) -> int:
        """Rows that were cleanly judged: the denominator of every rate and mean."""
        return sum(self.counts[state] for state in JUDGED_STATES)

    @property
    def mean(self) -> float | None:
        """Mean score of the judged rows."""
        return self.score_sum / self.judged if self.judged else None

    @property
    def pass_rate(self) -> float | None:
        """Share of the judged rows whose verdict is pass."""
        return self.counts["pass"] / self.judged if self.judged else None

    @property
    def error_rate(self) -> float | None:
        """Share of all rows that have no result."""
        return self.counts["error"] / self.rows if self.rows else None

    def passes(self) -> ClusterMoments:
        """Return what an interval of the pass rate needs."""
        alone = ClusterMoments.of_passes(self.single.rows, self.single.passed)
        repeated = ClusterMoments.of_clusters((case.rows, case.passed) for case in self.cases or ())
        return alone + repeated + self.whole_passes

    def scores(self) -> ClusterMoments:
        """Return what an interval of the mean needs."""
        single = self.single
        alone = ClusterMoments.of_rows(single.rows, single.score_sum, single.squares, single.cubes)
        repeated = ClusterMoments.of_clusters((case.rows, case.score_sum) for case in self.cases or ())
        return alone + repeated + self.whole_scores

    @property
    def pass_rate_interval(self) -> Interval | None:
        """95 % interval of the pass rate; None with fewer than two cases."""
        return rate_interval(self.passes())

    @property
    def mean_interval(self) -> Interval | None:
        """95 % interval of the mean; None with fewer than two cases."""
        return mean_interval(self.scores())


def pooled(tallies: Sequence[Tally], metric: str) -> float | None:
    """Return `mean`, `pass_rate` or `error_rate` over the rows of all tallies together; None without any."""
    if metric == "error_rate":
        errors, rows = sum(tally.counts["error"] for tally in tallies), sum(tally.rows for tally in tallies)
        return errors / rows if rows else None
    total = sum(tally.counts["pass"] if metric == "pass_rate" else tally.score_sum for tally in tallies)
    judged = sum(tally.judged for tally in tallies)
    return total / judged if judged else None


def pooled_interval(tallies: Sequence[Tally], metric: str) -> Interval | None:
    """Return the 95 % interval of `mean` or `pass_rate` over the rows of tallies that share no case."""
    moments = pooled_moments(tallies, metric)
    return rate_interval(moments) if metric == "pass_rate" else mean_interval(moments)


def pooled_moments(tallies: Sequence[Tally], metric: str) -> ClusterMoments:
    """Return what an interval of `mean` or `pass_rate` needs, over the rows of tallies that share no case."""
    return sum((tally.passes() if metric == "pass_rate" else tally.scores() for tally in tallies), _NOTHING)
