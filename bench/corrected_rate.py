"""How often the interval of a rate corrected by people's labels has the agent's rate in it, and how wide it is.

    ./run python -m bench.corrected_rate            # 2,000 draws for each row of the table, about a minute
    ./run python -m bench.corrected_rate --runs 200

Each draw has a run of its own: the agent passes each answer with its rate, the judge passes given shares of the good
and of the bad answers, and people label some answers. `random`: any answers. `proportional`: the judge's passes and
fails in proportion. `half of the fails`: as many of the fails as of the passes. The control is the correction by the
judge's error rates (Rogan & Gladen, with the interval of Lang & Reiczigel), measured on the same labels without
weights; it needs 10 labels that people pass and 10 that they fail, so that some draws have none.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from agentv.scoring.statistics.intervals import corrected_interval, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.scoring.statistics.strata import Stratum, stratified_interval
from agentv.types.summaries import Interval, MeasuredRate

DRAWS = ("random", "proportional", "half of the fails")
LABELS = (30, 50, 100, 200)
RATES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
JUDGES = ((0.5, 0.5), (0.8, 0.2), (0.6, 0.6), (0.8, 0.7), (0.95, 0.6), (0.9, 0.9), (1.0, 1.0))
"""Sensitivity and specificity: from judges that are no better than chance to a perfect one."""
ANSWERS = (300, 2000)
RUNS = 2000
_MIN_PER_VERDICT = 10
_TARGET = 0.93


@dataclass(frozen=True)
class Setting:
    """How labels are drawn from which run."""

    draw: str
    labels: int
    rate: float
    judge: tuple[float, float]
    answers: int

    def __str__(self) -> str:
        judge = f"judge {self.judge[0]:g}, {self.judge[1]:g}"
        return f"{self.labels} labels of {self.answers:,}, rate {self.rate:g}, {judge}"


@dataclass
class Found:
    """What the draws of a setting gave."""

    setting: Setting
    covered: int = 0
    width: float = 0.0
    random_width: float = 0.0
    control: list[bool] = field(default_factory=list)
    runs: int = 0

    @property
    def coverage(self) -> float:
        """The share of draws whose interval has the agent's rate in it."""
        return self.covered / self.runs

    @property
    def relative_width(self) -> float:
        """The mean width, divided by that of Wilson's interval of as many random labels."""
        return self.width / self.random_width

    @property
    def control_coverage(self) -> float | None:
        """The coverage of the control, over the draws that have one; None if fewer than a tenth have."""
        return sum(self.control) / len(self.control) if len(self.control) * 10 >= self.runs else None


def settings() -> Iterator[Setting]:
    """Yield all settings."""
    for draw in DRAWS:
        for labels in LABELS:
            for rate in RATES:
                for judge in JUDGES:
                    for answers in ANSWERS:
                        yield Setting(draw, labels, rate, judge, answers)


def measure(setting: Setting, runs: int = RUNS) -> Found:
    """Simulate a setting; the seed follows from it."""
    found = Found(setting, runs=runs)
    for counts, by_chance in zip(*_counts(setting, runs), strict=True):
        interval = interval_of(counts)
        found.covered += interval.low <= setting.rate <= interval.high
        found.width += interval.high - interval.low
        plain = rate_interval(ClusterMoments.of_passes(setting.labels, int(by_chance)))
        found.random_width += 0.0 if plain is None else plain.high - plain.low
        control = control_interval(counts)
        if control is not None:
            found.control.append(control.low <= setting.rate <= control.high)
    return found


@dataclass(frozen=True)
class Counts:
    """Counts of answers, of labels and of labels that pass, each for the judge's passes and for its fails."""

    answers: tuple[int, int]
    labels: tuple[int, int]
    passed: tuple[int, int]


def _counts(setting: Setting, runs: int) -> tuple[list[Counts], "np.ndarray"]:
    """Return the counts of each draw, and the passes among as many labels that are drawn at random."""
    sensitivity, specificity = setting.judge
    seed = [setting.labels, setting.answers, *(round(1000 * each) for each in (setting.rate, *setting.judge))]
    rng = np.random.default_rng([DRAWS.index(setting.draw), *seed])
    good = rng.binomial(setting.answers, setting.rate, runs)
    good_passed = rng.binomial(good, sensitivity)
    bad_passed = rng.binomial(setting.answers - good, 1 - specificity)
    passes = good_passed + bad_passed
    fails = setting.answers - passes
    labels = _labels(setting, passes, fails, rng)
    found = rng.hypergeometric(good_passed, bad_passed, labels[0])
    missed = rng.hypergeometric(good - good_passed, fails - good + good_passed, labels[1])
    columns = (passes, fails, *labels, found, missed)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    counts = [Counts((p, f), (n, m), (x, y)) for p, f, n, m, x, y in rows]
    return counts, rng.binomial(setting.labels, setting.rate, runs)


def _labels(
    setting: Setting, passes: "np.ndarray", fails: "np.ndarray", rng: np.random.Generator
) -> tuple["np.ndarray", "np.ndarray"]:
    """Return the numbers of labels among the judge's passes and among its fails."""
    n = setting.labels
    match setting.draw:
        case "random":
            of_passes = rng.hypergeometric(passes, fails, n)
        case "proportional":
            share = np.rint(n * passes / setting.answers).astype(int)
            of_passes = np.clip(share, (passes > 0).astype(int), n - (fails > 0))
        case _:
            of_passes = n - np.minimum(n // 2, fails)
    return of_passes, n - of_passes


def interval_of(counts: Counts) -> Interval:
    """Return the interval as `people_rate` computes it, where each answer is a case of its own."""
    total = sum(counts.answers)
    groups = zip(counts.answers, counts.labels, counts.passed, strict=True)
    strata = [Stratum(size / total, x / n if n else 0.0, n) for size, n, x in groups if size]
    return stratified_interval(strata, total)


def control_interval(counts: Counts) -> Interval | None:
    """Return the interval by the error rates of the judge, measured on the labels."""
    (n, m), (x, y), total = counts.labels, counts.passed, sum(counts.answers)
    good, bad = x + y, n + m - x - y
    if min(good, bad) < _MIN_PER_VERDICT:
        return None
    return corrected_interval(
        MeasuredRate(counts.answers[0] / total, total, total),
        MeasuredRate(x / good, good, good),
        MeasuredRate((m - y) / bad, bad, bad),
    )


def table(runs: int = RUNS) -> Iterator[str]:
    """Yield the lines of the table, one for each way to draw, and the settings with the lowest coverage."""
    found = [measure(setting, runs) for setting in settings()]
    yield "| labels are drawn | coverage: lowest | mean | width: mean | largest | by error rates: lowest | mean |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for draw in DRAWS:
        own = [each for each in found if each.setting.draw == draw]
        coverages = [each.coverage for each in own]
        widths = [each.relative_width for each in own]
        controls = [each.control_coverage for each in own if each.control_coverage is not None]
        shares = (min(coverages), np.mean(coverages)), (min(controls), np.mean(controls))
        (low, mean), (control_low, control_mean) = shares
        width = f"{np.mean(widths):.2f} | {max(widths):.2f}"
        yield f"| {draw} | {low:.1%} | {mean:.1%} | {width} | {control_low:.1%} | {control_mean:.1%} |"
    yield ""
    for each in sorted(found, key=lambda each: each.coverage)[:5]:
        yield f"{each.coverage:.1%}: {each.setting.draw}, {each.setting}"
    yield f"{len(found)} settings, {runs:,} draws each; {sum(each.coverage < _TARGET for each in found)} below 93 %"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.corrected_rate")
    parser.add_argument("--runs", type=int, default=RUNS, help="draws of each setting")
    for line in table(parser.parse_args().runs):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
