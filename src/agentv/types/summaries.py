"""What groups of rows and repeated cases come to."""

from collections.abc import Mapping
from dataclasses import dataclass

from agentv.types.intervals import Interval


@dataclass(frozen=True, slots=True)
class GroupSummary:
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


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """What `k` trials of a case come to, a mean over the `cases` that have as many judged ones.

    `pass_at` is the chance that any of them passes, `pass_hat` the chance that all of them do.
    """

    k: int
    cases: int
    pass_at: float
    pass_hat: float
    pass_at_interval: Interval | None = None
    pass_hat_interval: Interval | None = None
