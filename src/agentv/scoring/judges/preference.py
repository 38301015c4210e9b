"""Which of two runs people prefer, from labels of pairs of answers."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from agentv.scoring.counting.case_sums import case_of
from agentv.scoring.judges.draws import AnswerName
from agentv.scoring.judges.labels import settled_labels
from agentv.scoring.statistics.intervals import mean_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.records.label import Label
from agentv.types.summaries import Interval

MIN_PAIRS_FOR_INTERVAL = 20
"""The minimum number of cases for an interval."""
EQUAL = 0.5
"""The score of an answer that is as good as the other one."""


class Preference(Struct, frozen=True):
    """How often people prefer the answer of a run to that of another run."""

    better: int
    equal: int
    worse: int
    """The numbers of pairs in which the run's answer is better, as good, and worse; by the mean of several people."""
    skipped: int
    """The number of pairs about which nobody could tell."""
    rate: float | None
    """The share of pairs in which the answer is better; a pair of equal answers counts half. None without a pair."""
    interval: Interval | None


def preference(labels: Iterable[Label]) -> Preference:
    """Return which run people prefer. All pairs must have been drawn with the same probability."""
    scores: defaultdict[AnswerName, list[float]] = defaultdict(list)
    for label in settled_labels(labels):
        found = scores[label.slot, label.answer_seq]
        if not label.is_skip and isinstance(label.score, int | float):
            found.append(float(label.score))
    means = {name: sum(each) / len(each) for name, each in scores.items() if each}
    clusters: dict[int, tuple[int, float]] = {}
    for (slot, _), mean in means.items():
        rows, total = clusters.get(case_of(slot), (0, 0.0))
        clusters[case_of(slot)] = (rows + 1, total + mean)
    has_interval = len(clusters) >= MIN_PAIRS_FOR_INTERVAL
    return Preference(
        better=sum(mean > EQUAL for mean in means.values()),
        equal=sum(mean == EQUAL for mean in means.values()),
        worse=sum(mean < EQUAL for mean in means.values()),
        skipped=len(scores) - len(means),
        rate=sum(means.values()) / len(means) if means else None,
        interval=mean_interval(ClusterMoments.of_clusters(clusters.values())) if has_interval else None,
    )
