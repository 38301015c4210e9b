"""Counts of a group of rows, with how sure its rate and its mean are."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

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


COUNTED_AT_ONCE = 32
"""Rows that wait to be counted: equal ones, as a rule's are, are then counted as one."""


@dataclass(slots=True)
class Tally:
    """Counts and score sum of one group of rows. Only where cases have several rows is anything kept by case."""

    cases: CaseSums | None = None
    whole_passes: ClusterMoments = _NOTHING
    whole_scores: ClusterMoments = _NOTHING
    _counts: Counter[str] = field(default_factory=Counter)
    _score_sum: float = 0.0
    _single: SingleRows = field(default_factory=SingleRows)
    _waiting: list[tuple[RowState, float | None]] = field(default_factory=list)

    def add(self, state: RowState, score: float | None, case: int | None = None) -> None:
        """Count one row. `case` (case_sums.case_of) says that its case may have other rows in this group."""
        if case is None:
            self._waiting.append((state, score))
            if len(self._waiting) == COUNTED_AT_ONCE:
                self._count_waiting()
            return
        self._counts[state] += 1
        if score is None or state not in JUDGED_STATES:
            return
        self._score_sum += score
        if self.cases is None:
            self.cases = CaseSums()
        self.cases.add(case, passed=state == "pass", score=score)

    def _count_waiting(self) -> None:
        equal = Counter(self._waiting)
        self._waiting.clear()
        for (state, score), rows in equal.items():
            self._counts[state] += rows
            if score is not None and state in JUDGED_STATES:
                self._score_sum += rows * score
                self._single.add(rows, score, passed=state == "pass")

    @property
    def counts(self) -> Counter[str]:
        """How many rows are in each state."""
        self._count_waiting()
        return self._counts

    @property
    def score_sum(self) -> float:
        """The sum of the judged rows' scores."""
        self._count_waiting()
        return self._score_sum

    @property
    def single(self) -> SingleRows:
        """The judged rows that are the only ones of their cases."""
        self._count_waiting()
        return self._single

    def add_whole(self, rows: Sequence[tuple[RowState, float | None]]) -> None:
        """Count all rows of a case that has no others in this group: sums are kept, and nothing of the case."""
        judged = [(state, score) for state, score in rows if score is not None and state in JUDGED_STATES]
        self.counts.update(state for state, _ in rows)
        if not judged:
            return
        passed, total = sum(state == "pass" for state, _ in judged), math.fsum(score for _, score in judged)
        self._score_sum += total
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
