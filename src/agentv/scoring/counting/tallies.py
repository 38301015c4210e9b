"""Tallies of groups of rows: states, scores, durations and costs, with intervals of rates, means and percentiles."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct, field

from agentv.scoring.counting.case_sums import CaseSum, CaseSums, Spill, pass_at, pass_hat
from agentv.scoring.statistics.distributions import beta_cdf, normal_quantile
from agentv.scoring.statistics.intervals import effective_n, mean_interval, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState
from agentv.types.summaries import LEVEL, Interval, TargetSummary, TrialSummary
from agentv.types.usage import Usage

_PRECISION = 1e-9
_ROUNDING = 1e-6


@lru_cache(maxsize=1024)
def percentile_shares(share: float, count: int, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the interval of the percentile at `share` (0..1) of `count` values; each bound is a rank / (count + 1).

    For any continuous distribution, the value at rank k of `count` is below the percentile with a probability of
    I(share; k, count + 1 - k), where I is the regularized incomplete beta function. The bounds are the interpolated
    ranks for which this probability is (1 ± level) / 2. None if there are too few values for two bounds: at a `level`
    of 0.95, fewer than 6 for a median and 72 for a 95th percentile.
    Hettmansperger & Sheather 1986, Statistics & Probability Letters 4(2).
    """
    tail = (1 - level) / 2
    if share**count > tail or (1 - share) ** count > tail:
        return None
    return _rank(share, count, 1 - tail) / (count + 1), _rank(share, count, tail) / (count + 1)


def repeated_percentile_shares(share: float, below: ClusterMoments, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the interval of a percentile as percentile_shares does, for cases that may have several values.

    Each value counts as 1 if it is at most the percentile, else as 0; `below` has the moments of these numbers by case.
    The count given to percentile_shares is the effective sample size of their mean (Woodruff 1952, JASA 47(260)). None
    if there are fewer cases, or a smaller effective sample size, than percentile_shares needs.
    """
    if percentile_shares(share, below.clusters, level) is None:
        return None
    return percentile_shares(share, int(effective_n(below) + _ROUNDING), level)


def _rank(share: float, count: int, probability: float) -> float:
    """Return the interpolated rank whose value is below the percentile with this probability.

    It is found by the secant method on the scale of normal deviates, where the probability is nearly linear: about five
    steps suffice.
    """
    target_deviate, spread = normal_quantile(probability), math.sqrt(count * share * (1 - share))
    previous_rank, previous_error = share * (count + 1), -target_deviate
    rank = min(max(previous_rank - target_deviate * spread, 1.0), float(count))
    while abs(rank - previous_rank) > _PRECISION * rank:
        error = normal_quantile(beta_cdf(share, rank, count + 1 - rank)) - target_deviate
        next_rank = rank - error * (rank - previous_rank) / (error - previous_error)
        previous_rank, previous_error, rank = rank, error, min(max(next_rank, 1.0), float(count))
    return rank


_BLOCK_SIZE = 4096
"""The number of durations in a sorted block."""
_MAX_UINT32 = 2**32 - 1
_MAX_DURATION_S = 1e12
_NO_CASE = 0
_CASES_AT_ONCE = 2**17
"""The approximate number of case numbers counted at once for an interval, to bound the memory."""


class SortedBlock(NamedTuple):
    """Sorted durations in microseconds.

    `cases` has the case number of each, 0 if its case has no other duration; None if all are 0.
    """

    durations_us: "array[int]"
    cases: "array[int] | None"


class Durations:
    """Durations in microseconds, in sorted blocks, so that a percentile never needs to sort all of them.

    In a sorted block a duration takes four bytes, or eight if any in the block is above 71 minutes (2**32 µs). Case
    numbers take four bytes each, if the block has any.
    """

    def __init__(self) -> None:
        self._blocks: list[SortedBlock] = []
        self._begin_block()

    def _begin_block(self) -> None:
        self._latest = array("Q")
        self._cases = array("I")

    def add(self, seconds: float, case: int | None = None) -> None:
        """Count one duration; a negative one (the clock was set back) as 0, one above 1e12 s as 1e12 s.

        `case`, the number of a case or session (case_sums.cluster_of), is given if it may have other durations. Only 32
        bits of it are stored: among 100,000 cases, about one collision is expected.
        """
        if not 0 <= seconds <= _MAX_DURATION_S:
            seconds = min(max(seconds, 0.0), _MAX_DURATION_S)
        self._latest.append(round(seconds * 1_000_000))
        self._cases.append(case & _MAX_UINT32 if case else _NO_CASE)
        if len(self._latest) == _BLOCK_SIZE:
            self._blocks.append(_sorted_block(self._latest, self._cases))
            self._begin_block()

    def __len__(self) -> int:
        """Return the number of durations."""
        return _BLOCK_SIZE * len(self._blocks) + len(self._latest)

    def blocks(self) -> Iterator[SortedBlock]:
        """Yield all durations in non-empty sorted blocks."""
        yield from self._blocks
        if self._latest:
            yield _sorted_block(self._latest, self._cases)


def percentile_us(durations: Sequence[Durations], share: float) -> float | None:
    """Return the percentile at `share` (0..1) in microseconds, linearly interpolated; None without durations.

    The method is NumPy's default, type 7 of Hyndman and Fan 1996.
    """
    blocks = [block.durations_us for each in durations for block in each.blocks()]
    return _percentile_us(blocks, share) if blocks else None


def _percentile_us(blocks: "Sequence[array[int]]", share: float) -> float:
    position = share * (sum(map(len, blocks)) - 1)
    low = _value_at_rank(blocks, math.floor(position))
    high = _value_at_rank(blocks, math.ceil(position))
    return low + (high - low) * (position - math.floor(position))


def percentile_interval_us(durations: Sequence[Durations], share: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a percentile, in microseconds, from ranks alone; None with too few durations."""
    blocks = [block for each in durations for block in each.blocks()]
    if not blocks:
        return None
    sorted_us = [block.durations_us for block in blocks]
    shares = repeated_percentile_shares(share, _moments_up_to(blocks, _percentile_us(sorted_us, share)))
    if shares is None:
        return None
    count = sum(map(len, sorted_us))
    low, high = (_percentile_us(sorted_us, _share_of_rank(each, count)) for each in shares)
    return low, high


def _moments_up_to(blocks: Sequence[SortedBlock], limit_us: float) -> ClusterMoments:
    """Return the moments, by case, of numbers that are 1 for a duration of at most `limit_us`, else 0."""
    counted = [(block, bisect_right(block.durations_us, limit_us)) for block in blocks]
    without_cases = [(len(block.durations_us), below) for block, below in counted if block.cases is None]
    moments = ClusterMoments.of_passes(sum(rows for rows, _ in without_cases), sum(below for _, below in without_cases))
    with_cases = [(block.cases, below) for block, below in counted if block.cases is not None]
    parts = 1 + sum(len(cases) for cases, _ in with_cases) // _CASES_AT_ONCE
    for part in range(parts):
        moments += _moments_of_part(with_cases, part, parts)
    return moments


def _moments_of_part(blocks: "Sequence[tuple[array[int], int]]", part: int, parts: int) -> ClusterMoments:
    """Return the moments as `_moments_up_to` does, for the cases whose number modulo `parts` is `part`.

    Each block has the case numbers in the order of the durations, and the number of durations up to the limit.
    """
    rows, rows_below = Counter[int](), Counter[int]()
    for cases, below in blocks:
        rows.update(case for case in cases if case % parts == part)
        rows_below.update(case for case in cases[:below] if case % parts == part)
    single, single_below = rows.pop(_NO_CASE, 0), rows_below.pop(_NO_CASE, 0)
    repeated = ClusterMoments.of_clusters((count, rows_below[case]) for case, count in rows.items())
    return ClusterMoments.of_passes(single, single_below) + repeated


def _share_of_rank(share: float, count: int) -> float:
    """Convert rank / (count + 1) to the share at which percentile_us returns the value at that rank (from 1)."""
    return min(max((share * (count + 1) - 1) / (count - 1), 0.0), 1.0)


def _value_at_rank(blocks: "Sequence[array[int]]", rank: int) -> int:
    """Return the value at `rank` (from 0) of all blocks merged, found by bisecting the range of values."""
    low, high = min(block[0] for block in blocks), max(block[-1] for block in blocks)
    while low < high:
        middle = (low + high) // 2
        if sum(bisect_right(block, middle) for block in blocks) > rank:
            high = middle
        else:
            low = middle + 1
    return low


def _sorted_block(durations_us: "array[int]", cases: "array[int]") -> SortedBlock:
    if not any(cases):
        return SortedBlock(_packed(sorted(durations_us)), None)
    order = sorted(range(len(durations_us)), key=durations_us.__getitem__)
    return SortedBlock(_packed([durations_us[index] for index in order]), array("I", [cases[index] for index in order]))


def _packed(ordered: list[int]) -> "array[int]":
    """Return ascending numbers in an array of four bytes each, or eight if the largest one needs them."""
    return array("I" if ordered[-1] <= _MAX_UINT32 else "Q", ordered)


_BUCKET_WIDTH = math.log(1.02)
_MIN_DURATION_S = 1e-9


class Quantiles:
    """Counts of durations in buckets 2 % wide: percentiles accurate to 1 %, in constant memory for endless streams."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Count one duration; one below 1e-9 s counts as 1e-9 s."""
        self._buckets[math.floor(math.log(max(seconds, _MIN_DURATION_S)) / _BUCKET_WIDTH)] += 1

    def at(self, share: float) -> float | None:
        """Return the percentile at `share` (0..1) in seconds, accurate to 1 %; None without durations."""
        wanted = share * self._buckets.total()
        below = 0
        for bucket, durations in sorted(self._buckets.items()):
            below += durations
            if below >= wanted:
                return math.exp((bucket + 0.5) * _BUCKET_WIDTH)
        return None


_NO_MOMENTS = ClusterMoments.of_passes(0, 0)
JUDGED_STATES: tuple[RowState, ...] = ("pass", "borderline", "fail")
"""The states of a judged row, which has a verdict and no error."""


_UNITS_PER_POINT = 2**64
"""Scores are added up as integers, in units of 2**-64: such sums are exact, and the same in any order."""
_MAX_PENDING = 64
"""The number of pending entries at which they are added up. Equal rows share one entry."""


class SingleRows(Struct):
    """Judged rows that are the only ones of their cases.

    Its sums are computed from scores in units of 2**-64.
    """

    rows: int = 0
    passed: int = 0
    total: int = 0
    """The sum of the scores."""
    squares: int = 0
    """The sum of their squares."""
    cubes: int = 0
    """The sum of their cubes."""

    def add(self, rows: int, score: float, *, passed: bool) -> None:
        """Count `rows` rows with the same score."""
        units = round(score * _UNITS_PER_POINT)
        total = rows * units
        self.rows += rows
        self.passed += rows * passed
        self.total += total
        self.squares += total * units
        self.cubes += total * units * units


class Tally(Struct):
    """Counts and score sum of one group of rows.

    Rows of one session form one cluster in intervals. Rows added without `case`, and cases of `add_cases`, are pending
    until `_settle`.
    """

    spill: Spill | None = None
    """If set, `cases` and `clusters` take a bounded amount of memory."""
    cases: CaseSums | None = None
    """Sums by case, only for cases that may have several rows."""
    clusters: CaseSums | None = None
    """Sums by session, or by case for rows without a session; None as long as no row has a session."""
    _counts: Counter[str] = field(default_factory=Counter)
    _single: SingleRows = field(default_factory=SingleRows)
    _unstored_passes: ClusterMoments = _NO_MOMENTS
    _unstored_units: ClusterMoments = _NO_MOMENTS
    _units_in_cases: int = 0
    _pending_rows: Counter[tuple[RowState, float | None]] = field(default_factory=Counter)
    _pending_cases: Counter[tuple[int, int, int]] = field(default_factory=Counter)

    def add(
        self, state: RowState, score: float | None, rows: int = 1, case: int | None = None, session: int | None = None
    ) -> None:
        """Count `rows` equal rows; it must be 1 if `case` is given.

        `case` (case_sums.case_of) is given if the case may have other rows in the group, `session` (session_of) if the
        row belongs to a session; then `case` must be given, too. If pass@k of the group is not computed, `case` may
        be the number of the session (cluster_of).
        """
        if case is None:
            self._pending_rows[state, score] += rows
            if len(self._pending_rows) == _MAX_PENDING:
                self._settle()
            return
        self._counts[state] += rows
        if score is None or state not in JUDGED_STATES:
            return
        self._units_in_cases += round(score * _UNITS_PER_POINT)
        if self.cases is None:
            self.cases = CaseSums(self.spill)
        if session is not None and self.clusters is None:
            self.clusters = self.cases.copy()
        self.cases.add(case, passed=state == "pass", score=score)
        if self.clusters is not None:
            self.clusters.add(session or case, passed=state == "pass", score=score)

    def add_cases(self, rows: Sequence[tuple[RowState, float | None]], cases: int = 1) -> None:
        """Count `cases` equal cases, each with exactly these `rows` in the group, without storing the cases."""
        judged = [(state, score) for state, score in rows if score is not None and state in JUDGED_STATES]
        for state, _ in rows:
            self._counts[state] += cases
        if not judged:
            return
        passed = sum(state == "pass" for state, _ in judged)
        units = sum(round(score * _UNITS_PER_POINT) for _, score in judged)
        self._pending_cases[len(judged), passed, units] += cases
        if len(self._pending_cases) == _MAX_PENDING:
            self._settle()

    def _settle(self) -> None:
        """Add up the pending counts."""
        for (state, score), rows in self._pending_rows.items():
            self._counts[state] += rows
            if score is not None and state in JUDGED_STATES:
                self._single.add(rows, score, passed=state == "pass")
        self._pending_rows.clear()
        for (size, passed, units), cases in self._pending_cases.items():
            self._unstored_passes += ClusterMoments.of_clusters([(size, passed)]).times(cases)
            self._unstored_units += ClusterMoments.of_clusters([(size, units)]).times(cases)
        self._pending_cases.clear()

    @property
    def counts(self) -> Counter[str]:
        """The number of rows in each state."""
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
        return (self._single.total + self._unstored_units.total + self._units_in_cases) / _UNITS_PER_POINT

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.counts.total()

    @property
    def judged(self) -> int:
        """The number of judged rows: the denominator of the mean and the pass rate."""
        return sum(self.counts[state] for state in JUDGED_STATES)

    @property
    def mean(self) -> float | None:
        """Mean score of the judged rows; None without any."""
        return self.score_sum / self.judged if self.judged else None

    @property
    def pass_rate(self) -> float | None:
        """Share of the judged rows whose verdict is pass; None without any."""
        return self.counts["pass"] / self.judged if self.judged else None

    @property
    def error_rate(self) -> float | None:
        """Share of all rows that have an error; None without rows."""
        return self.counts["error"] / self.rows if self.rows else None

    def passes(self) -> ClusterMoments:
        """Return the moments for an interval of the pass rate."""
        single = ClusterMoments.of_passes(self.single.rows, self.single.passed)
        repeated = ClusterMoments.of_clusters((each.rows, each.passed) for each in self.clusters or self.cases or ())
        return single + repeated + self._unstored_passes

    def scores(self) -> ClusterMoments:
        """Return the moments for an interval of the mean."""
        single = self.single
        moments = ClusterMoments.of_rows(single.rows, single.total, single.squares, single.cubes)
        clusters = self.clusters or self.cases or ()
        repeated = ClusterMoments.of_clusters((each.rows, each.score_sum) for each in clusters)
        return (moments + self._unstored_units).in_units(_UNITS_PER_POINT) + repeated

    @property
    def pass_rate_interval(self) -> Interval | None:
        """95 % interval of the pass rate; None with fewer than two cases or sessions."""
        return rate_interval(self.passes())

    @property
    def mean_interval(self) -> Interval | None:
        """95 % interval of the mean; None with fewer than two cases or sessions."""
        return mean_interval(self.scores())


def pooled(tallies: Sequence[Tally], metric: str) -> float | None:
    """Return `mean`, `pass_rate` or `error_rate` over the rows of all tallies together.

    None without a judged row; for `error_rate`, without any row.
    """
    if metric == "error_rate":
        errors, rows = sum(tally.counts["error"] for tally in tallies), sum(tally.rows for tally in tallies)
        return errors / rows if rows else None
    total = sum(tally.counts["pass"] if metric == "pass_rate" else tally.score_sum for tally in tallies)
    judged = sum(tally.judged for tally in tallies)
    return total / judged if judged else None


def pooled_interval(tallies: Sequence[Tally], metric: str) -> Interval | None:
    """Return the 95 % interval of `mean` or `pass_rate` over the rows of all tallies, which must share no case."""
    moments = pooled_moments(tallies, metric)
    return rate_interval(moments) if metric == "pass_rate" else mean_interval(moments)


def pooled_moments(tallies: Sequence[Tally], metric: str) -> ClusterMoments:
    """Return the moments for an interval of `mean` or `pass_rate` over all tallies, which must share no case."""
    return sum((tally.passes() if metric == "pass_rate" else tally.scores() for tally in tallies), _NO_MOMENTS)


_MAX_CONSECUTIVE_K = 10
_TRIAL_METRICS: Mapping[str, Callable[[int, int, int], float | None]] = {"pass_at": pass_at, "pass_hat": pass_hat}


def trial_summaries(tallies: Sequence[Tally]) -> tuple[TrialSummary, ...]:
    """Return pass@k and pass^k for each k up to 10, and for the largest number of trials that any case has.

    `tallies` has one tally for each prompt of a target. Empty if no case has several trials. All cases have the same
    weight, however often each was judged.
    """
    most = max((trials for tally in tallies for _, trials in _outcomes(tally)), default=0)
    if most <= 1:
        return ()
    return tuple(_trial_summary(k, tallies) for k in sorted({*range(1, min(most, _MAX_CONSECUTIVE_K) + 1), most}))


def _outcomes(tally: Tally) -> Counter[tuple[int, int]]:
    """Return the number of cases for each pair (passed, trials): there are few pairs, but many cases."""
    return Counter((case.passed, case.rows) for case in tally.cases or ()) + _single_outcomes(tally)


def _single_outcomes(tally: Tally) -> Counter[tuple[int, int]]:
    single = tally.single
    return Counter({(1, 1): single.passed, (0, 1): single.rows - single.passed})


def _trial_summary(k: int, tallies: Sequence[Tally]) -> TrialSummary:
    at, hat = trial_moments("pass_at", k, tallies), trial_moments("pass_hat", k, tallies)
    return TrialSummary(
        k=k,
        cases=at.clusters,
        pass_at=at.mean,
        pass_hat=hat.mean,
        pass_at_interval=mean_interval(at),
        pass_hat_interval=mean_interval(hat),
    )


def _moments_of_outcomes(
    value_of_case: Callable[[int, int, int], float | None], k: int, outcomes: Mapping[tuple[int, int], int]
) -> ClusterMoments:
    """Return the moments of pass@k or pass^k, each case a cluster; cases with fewer than k trials are left out."""
    values = [(value_of_case(k, passed, trials), cases) for (passed, trials), cases in outcomes.items()]
    known = [(value, cases) for value, cases in values if value is not None]
    return ClusterMoments.of_rows(
        sum(cases for _, cases in known),
        sum(value * cases for value, cases in known),
        sum(value**2 * cases for value, cases in known),
        sum(value**3 * cases for value, cases in known),
    )


def trial_moments(name: str, k: int, tallies: Sequence[Tally]) -> ClusterMoments:
    """Return the moments of `pass_at` or `pass_hat` of k trials; a case is one cluster over all targets and prompts.

    `tallies` has one tally for each combination of target and prompt that is measured.
    """
    if len(tallies) == 1:
        return _moments_of_outcomes(_TRIAL_METRICS[name], k, _outcomes(tallies[0]))
    value_of_case = _TRIAL_METRICS[name]
    singles = sum((_moments_of_outcomes(value_of_case, k, _single_outcomes(each)) for each in tallies), _NO_MOMENTS)
    by_case: dict[int, tuple[int, float]] = {}
    for tally in tallies:
        for case, value in _values(name, k, tally.cases or ()):
            rows, total = by_case.get(case, (0, 0.0))
            by_case[case] = rows + 1, total + value
    return singles + ClusterMoments.of_clusters(by_case.values())


def _values(name: str, k: int, cases: Iterable[CaseSum]) -> Iterable[tuple[int, float]]:
    """Yield the number of each case with at least k trials, and its pass@k or pass^k."""
    for case in cases:
        value = _TRIAL_METRICS[name](k, case.passed, case.rows)
        if value is not None:
            yield case.case, value


class _Spending(Struct):
    """Usage and cost of calls."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    """None if the cost of any call is unknown."""
    is_estimated: bool = False
    """True if any usage or cost was estimated."""

    def add(self, usage: Usage | None, cost_usd: float | None, *, called: bool, is_estimated: bool) -> bool:
        """Add the usage and cost of a row; return False if a call was made at an unknown cost.

        `called` says that a call was made even if `usage` is None.
        """
        self.is_estimated = self.is_estimated or is_estimated
        if usage is not None:
            self.usage += usage
        if cost_usd is not None and self.cost_usd is not None:
            self.cost_usd += cost_usd
        is_unpriced = cost_usd is None and (called or usage is not None)
        if is_unpriced:
            self.cost_usd = None
        return not is_unpriced


class AnswerCosts(Struct):
    """The number of answers, and their cost in dollars; None if that of any is unknown."""

    answers: int = 0
    total_usd: float | None = 0.0

    def add(self, cost_usd: float | None) -> None:
        """Add one answer."""
        self.answers += 1
        self.total_usd = None if cost_usd is None or self.total_usd is None else self.total_usd + cost_usd

    @property
    def mean_usd(self) -> float | None:
        """The mean cost of an answer; None without answers, or if a cost is unknown."""
        return None if self.total_usd is None or not self.answers else self.total_usd / self.answers


class TargetTally(Struct):
    """The counts, durations and costs of the rows of one target."""

    rows: Tally = field(default_factory=Tally)
    prompts: dict[str | None, Tally] = field(default_factory=dict)
    """The rows by prompt, None for those without; filled only for rows with prompts and for shared cases."""
    answer_costs: dict[str | None, AnswerCosts] = field(default_factory=dict)
    """The costs of the target's answers by prompt, None for rows without one."""
    latencies: Durations = field(default_factory=Durations)
    target: _Spending = field(default_factory=_Spending)
    judge: _Spending = field(default_factory=_Spending)
    saved_usd: float = 0.0
    """The cost that was not billed, because an answer or a judge's reply came from the cache."""
    unverified: int = 0
    """The number of rows with a judge's verdict that may have been copied from the judged text."""
    clamped: int = 0
    """The number of rows with a judge's number that was clamped to 0..1."""
    judge_called: int = 0
    """The number of rows for which a judge was called."""
    judge_failures: int = 0
    """The number of rows whose error is a failure of a judge."""
    unpriced: int = 0
    """The number of rows whose target or judges have an unknown cost."""
    empty_answers: int = 0
    """The number of rows with an answer of nothing but white space."""

    def add(self, result: CaseResult, state: RowState, case: int | None, *, has_latency: bool = True) -> None:
        """Add the duration and cost of a row. Its state is counted in `rows` by the caller, together with equal rows.

        `case` is as for Durations.add. `has_latency` is False if the row's duration is not that of a target.
        """
        if has_latency and result.duration_ms is not None and state != "error":
            self.latencies.add(result.duration_ms / 1000, case)
        has_call = state != "skipped" or bool(result.evaluator_results)
        is_answered = has_call and (result.error is None or result.error.stage == "evaluator")
        spending = None if result.usage_by is None else result.usage_by.target
        if spending is None:
            usage, cost_usd, is_estimated = None, None, False
        else:
            usage, cost_usd, is_estimated = spending.usage, spending.cost_usd, spending.estimated
        is_priced = self.target.add(usage, cost_usd, called=is_answered, is_estimated=is_estimated)
        if is_answered:
            costs = self.answer_costs.get(result.slot.prompt)
            if costs is None:
                costs = self.answer_costs[result.slot.prompt] = AnswerCosts()
            costs.add(cost_usd)
        if result.cached:
            self.saved_usd += cost_usd or 0.0
        self.empty_answers += result.empty_answer and state != "skipped"
        self.clamped += any(map(is_clamped, result.evaluator_results))
        if _may_have_judges(result):
            is_priced = self._add_judges(result) and is_priced
        self.unpriced += not is_priced
        if state == "error" and result.error is not None and result.error.kind == "judge_error":
            self.judge_failures += 1
            self.judge_called += not _has_judge_call(result)

    def trials(self) -> Sequence[Tally]:
        """Return the tallies by prompt, in which the rows of a case are its trials."""
        return tuple(self.prompts.values()) or (self.rows,)

    def _add_judges(self, result: CaseResult) -> bool:
        """Add what the judges of a row spent; return False if their cost is unknown."""
        unpriced = any(map(has_unpriced_call, result.evaluator_results))
        cost_usd = None if unpriced else result.judge_cost_usd
        is_estimated = result.is_judge_estimated
        is_priced = self.judge.add(result.judge_usage, cost_usd, called=unpriced, is_estimated=is_estimated)
        self.saved_usd += saved_by_judges(result)
        self.unverified += is_unverified(result)
        self.judge_called += _has_judge_call(result)
        return is_priced


def target_summary(name: str, tally: TargetTally) -> TargetSummary:
    """Return the summary of a target."""
    return TargetSummary(
        target=name,
        counts=dict(tally.rows.counts),
        mean_score=tally.rows.mean,
        pass_rate=tally.rows.pass_rate,
        target_cost_usd=tally.target.cost_usd,
        judge_cost_usd=tally.judge.cost_usd,
        target_usage=tally.target.usage,
        judge_usage=tally.judge.usage,
        latency_median_s=_percentile_s(tally.latencies, 0.5),
        latency_p95_s=_percentile_s(tally.latencies, 0.95),
        saved_usd=tally.saved_usd,
        is_target_estimated=tally.target.is_estimated,
        is_judge_estimated=tally.judge.is_estimated,
        unverified=tally.unverified,
        clamped=tally.clamped,
        pass_rate_interval=tally.rows.pass_rate_interval,
        mean_interval=tally.rows.mean_interval,
        latency_median_interval=latency_interval([tally.latencies], 0.5),
        latency_p95_interval=latency_interval([tally.latencies], 0.95),
        trials=trial_summaries(tally.trials()),
        latency_p5_s=_percentile_s(tally.latencies, 0.05),
        latency_p25_s=_percentile_s(tally.latencies, 0.25),
        latency_p75_s=_percentile_s(tally.latencies, 0.75),
    )


def latency_interval(latencies: list[Durations], share: float, *, per_unit: float = 1_000_000) -> Interval | None:
    """Return the 95 % interval of a percentile of durations, in units of `per_unit` microseconds; None with too few."""
    bounds = percentile_interval_us(latencies, share)
    return None if bounds is None else Interval(bounds[0] / per_unit, bounds[1] / per_unit, "order-statistics")


def _percentile_s(latencies: Durations, share: float) -> float | None:
    found_us = percentile_us([latencies], share)
    return None if found_us is None else found_us / 1_000_000


def _may_have_judges(result: CaseResult) -> bool:
    """Return True if a row may have results of judges, whose costs must be added up."""
    if result.usage_by is not None and result.usage_by.judge is not None:
        return True
    for each in result.evaluator_results:
        if each.judge_calls or each.evaluator_results or each.status == "unverified":
            return True
    return False


def _has_judge_call(result: CaseResult | EvaluatorResult) -> bool:
    """Return True if a row, or an evaluator with its members, has a call of a judge that replied."""
    calls = result.judge_calls if isinstance(result, EvaluatorResult) else ()
    return bool(calls) or any(map(_has_judge_call, result.evaluator_results))


def is_unverified(result: CaseResult | EvaluatorResult) -> bool:
    """Return True if a row, or an evaluator with its members, has a verdict that may be copied from the judged text."""
    status = result.status if isinstance(result, EvaluatorResult) else ""
    return status == "unverified" or any(map(is_unverified, result.evaluator_results))


def is_clamped(result: EvaluatorResult) -> bool:
    """Return True if an evaluator's number counts and was clamped to 0..1, or that of a member of it."""
    return (result.clamped and result.error is None) or any(map(is_clamped, result.evaluator_results))


def saved_by_judges(result: CaseResult | EvaluatorResult) -> float:
    """Return the dollars not billed for the judges of a row or an evaluator, because replies came from the cache."""
    calls = result.judge_calls if isinstance(result, EvaluatorResult) else ()
    own = math.fsum(call.cost_usd or 0.0 for call in calls if call.cached)
    return own + math.fsum(map(saved_by_judges, result.evaluator_results))


def has_unpriced_call(result: EvaluatorResult) -> bool:
    """Return True if an evaluator or a member of it called a judge at an unknown cost, not from the cache."""
    unpriced = any(call.cost_usd is None and not call.cached for call in result.judge_calls)
    return unpriced or any(map(has_unpriced_call, result.evaluator_results))
