"""Synthetic judges with known error rates: the coverage of the interval of a corrected rate.

`python -m tests.statistics.corrected_coverage` prints the table of docs/how-to/judges.md.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tests.statistics.coverage import RUNS, shown

from agentv.scoring.statistics.intervals import corrected_interval, effective_n, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import MeasuredRate

LABELS = (10, 20, 50, 200)
"""The numbers of labelled answers that people pass and fail."""
CASES = 200


@dataclass(frozen=True)
class Judged:
    """A share of good answers, and a judge that passes given shares of the good and fails given shares of the bad."""

    truth: float
    sensitivity: float
    specificity: float

    def __str__(self) -> str:
        return f"{100 * self.truth:g} % | {self.sensitivity:g}, {self.specificity:g}"


JUDGES = tuple(
    Judged(truth, *skill) for skill in ((0.95, 0.95), (0.9, 0.8), (0.75, 0.7)) for truth in (0.1, 0.3, 0.5, 0.7, 0.9)
)


def coverages(judged: Judged, labels: int, *, trials: int = 1, runs: int = RUNS) -> tuple[float, float]:
    """Return the coverage of the corrected interval, and that of the interval of the raw rate.

    Each case has `trials` trials, and the judge gives the same verdict in each.
    """
    rng = np.random.default_rng([labels, trials, *(round(100 * each) for each in (judged.truth, judged.sensitivity))])
    hits = rng.binomial(labels, judged.sensitivity, runs)
    rejections = rng.binomial(labels, judged.specificity, runs)
    good = rng.binomial(CASES, judged.truth, runs)
    passed = rng.binomial(good, judged.sensitivity) + rng.binomial(CASES - good, 1 - judged.specificity)
    corrected = raw = 0
    for hit, rejected, count in zip(hits, rejections, passed, strict=True):
        moments = ClusterMoments.of_clusters(
            [*[(trials, float(trials))] * int(count), *[(trials, 0.0)] * int(CASES - count)]
        )
        interval = corrected_interval(
            MeasuredRate(moments.mean, moments.rows, effective_n(moments)),
            MeasuredRate(hit / labels, labels, labels),
            MeasuredRate(rejected / labels, labels, labels),
        )
        plain = rate_interval(moments)
        corrected += interval is not None and interval.low <= judged.truth <= interval.high
        raw += plain is not None and plain.low <= judged.truth <= plain.high
    return corrected / runs, raw / runs


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    heads = " | ".join(f"{labels} good, {labels} bad" for labels in LABELS)
    yield f"| share of good answers | sensitivity, specificity of the judge | {heads} | raw rate |"
    yield "| --- | --- |" + " ---: |" * (len(LABELS) + 1)
    for judged in JUDGES:
        found = [coverages(judged, labels) for labels in LABELS]
        yield f"| {judged} | {' | '.join(shown(corrected) for corrected, _ in found)} | {shown(found[-1][1])} |"


if __name__ == "__main__":
    for line in table():
        sys.stdout.write(f"{line}\n")
