"""What the rows of a target, an evaluator or a group, and repeated cases, come to."""

from collections.abc import Mapping

from msgspec import Struct

from agentv.types.intervals import Interval
from agentv.types.usage import Usage


class GroupSummary(Struct, frozen=True):
    """Counts, rate and mean of the rows of one group: of a tag, a dataset, a criterion, …, named by `by`.

    Of evaluators and criteria the results are counted in the place of rows. Rate and mean are over what was judged.
    """

    by: str
    name: str
    counts: Mapping[str, int]
    mean_score: float | None
    pass_rate: float | None
    mean_interval: Interval | None = None
    pass_rate_interval: Interval | None = None

    @property
    def rows(self) -> int:
        """All rows of this group."""
        return sum(self.counts.values())

    @property
    def judged(self) -> int:
        """Rows that were cleanly judged."""
        return sum(self.counts.get(state, 0) for state in ("pass", "borderline", "fail"))


class TrialSummary(Struct, frozen=True):
    """What `k` trials of a case come to, a mean over the `cases` that have as many judged ones.

    `pass_at` is the chance that any of them passes, `pass_hat` the chance that all of them do.
    """

    k: int
    cases: int
    pass_at: float
    pass_hat: float
    pass_at_interval: Interval | None = None
    pass_hat_interval: Interval | None = None


class TargetSummary(Struct, frozen=True):
    """Counts and means over one target's rows. Rates and means are over the judged rows; None without any.

    Costs are None when a price is unknown; `saved_usd` is the part of them that was not billed, because answers came
    from the cache. Latencies are of the target's answers, in seconds. `trials` is empty where no case is repeated.
    """

    target: str
    counts: Mapping[str, int]
    mean_score: float | None
    pass_rate: float | None
    target_cost_usd: float | None
    judge_cost_usd: float | None
    target_usage: Usage
    judge_usage: Usage
    latency_median_s: float | None
    latency_p95_s: float | None
    saved_usd: float = 0.0
    pass_rate_interval: Interval | None = None
    mean_interval: Interval | None = None
    latency_median_interval: Interval | None = None
    latency_p95_interval: Interval | None = None
    trials: tuple[TrialSummary, ...] = ()

    @property
    def rows(self) -> int:
        """All rows of this target."""
        return sum(self.counts.values())

    @property
    def judged(self) -> int:
        """Rows that were cleanly judged."""
        return sum(self.counts.get(state, 0) for state in ("pass", "borderline", "fail"))


class EvaluatorSummary(Struct, frozen=True):
    """Mean score of one evaluator over the rows it judged, its pass rate, and how often it failed to judge."""

    name: str
    type: str
    judged: int
    mean_score: float | None
    errors: int
    mean_interval: Interval | None = None
    pass_rate: float | None = None
    pass_rate_interval: Interval | None = None
