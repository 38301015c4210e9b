"""Counts of a group of rows, with how sure its rate and its mean are."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from agentv.scoring.case_sums import CaseSums
from agentv.scoring.statistics.intervals import mean_interval, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.intervals import Interval
from agentv.types.results import RowState

_NOTHING = ClusterMoments.of_passes(0, 0)
JUDGED_STATES: tuple[RowState, ...] = ("pass", "borderline", "fail")


_PER_POINT = 2**64
"""Scores are added up as whole numbers, in units of 2**-64: such sums are exact, and the same in any order."""
_UNALIKE = 64
"""How many states and scores are counted apart before they are added up. A rule's rows have a handful."""


class SingleRows(Struct):
    """Judged rows that are the only ones of their cases, with the sums of their scores' powers in units."""

    rows: int = 0
    passed: int = 0
    total: int = 0
    squares: int = 0
    cubes: int = 0

    def add(self, rows: int, score: float, *, passed: bool) -> None:
        """Count so many rows of one score."""
        units = round(score * _PER_POINT)
        total = rows * units
        self.rows += rows
        self.passed += rows * passed
        self.total += total
        self.squares += total * units
        self.cubes += total * units * units


class Tally(Struct):
    """Counts and score sum of one group of rows. Only where cases have several rows is anything kept by case."""

    cases: CaseSums | None = None
    _counts: Counter[str] = field(default_factory=Counter)
    _single: SingleRows = field(default_factory=SingleRows)
    _passes: ClusterMoments = _NOTHING
    _units: ClusterMoments = _NOTHING
    _repeated_units: int = 0
    _alike: Counter[tuple[RowState, float | None]] = field(default_factory=Counter)
    _alike_cases: Counter[tuple[int, int, int]] = field(default_factory=Counter)

    def add(self, state: RowState, score: float | None, rows: int = 1, case: int | None = None) -> None:
        """Count equal rows. `case` (case_sums.case_of) says of one row that its case may have others in this group."""
        if case is None:
            self._alike[state, score] += rows
            if len(self._alike) == _UNALIKE:
                self._settle()
            return
        self._counts[state] += rows
        if score is None or state not in JUDGED_STATES:
            return
        self._repeated_units += round(score * _PER_POINT)
        if self.cases is None:
            self.cases = CaseSums()
        self.cases.add(case, passed=state == "pass", score=score)

    def add_whole(self, rows: Sequence[tuple[RowState, float | None]], cases: int = 1) -> None:
        """Count all rows of so many equal cases that have no others in this group: nothing is kept of a case."""
        judged = [(state, score) for state, score in rows if score is not None and state in JUDGED_STATES]
        for state, _ in rows:
            self._counts[state] += cases
        if not judged:
            return
        passed = sum(state == "pass" for state, _ in judged)
        units = sum(round(score * _PER_POINT) for _, score in judged)
        self._alike_cases[len(judged), passed, units] += cases
        if len(self._alike_cases) == _UNALIKE:
            self._settle()

    def _settle(self) -> None:
        """Add up what is counted apart."""
        for (state, score), rows in self._alike.items():
            self._counts[state] += rows
            if score is not None and state in JUDGED_STATES:
                self._single.add(rows, score, passed=state == "pass")
        self._alike.clear()
        for (size, passed, units), cases in self._alike_cases.items():
            self._passes += ClusterMoments.of_clusters([(size, passed)]).times(cases)
            self._units += ClusterMoments.of_clusters([(size, units)]).times(cases)
        self._alike_cases.clear()

    @property
    def counts(self) -> Counter[str]:
        """How many rows are in each state."""
        self._settle()
        return self._counts

    @property
    def single(self) -> SingleRows:
        """The judged rows that are the only ones of their cases."""
        self._settle()
        return self._single

    @property
    def score_sum(self) -> float:
        """The sum of the judged rows' scores."""
        self._settle()
        return (self._single.total + self._units.total + self._repeated_units) / _PER_POINT

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
        return alone + repeated + self._passes

    def scores(self) -> ClusterMoments:
        """Return what an interval of the mean needs."""
        single = self.single
        alone = ClusterMoments.of_rows(single.rows, single.total, single.squares, single.cubes)
        repeated = ClusterMoments.of_clusters((case.rows, case.score_sum) for case in self.cases or ())
        return (alone + self._units).in_units(_PER_POINT) + repeated

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
