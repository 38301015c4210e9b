"""One measure of two runs: its means, their difference, and whether that could be chance."""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

from agentv.scoring.comparison.alignment import Pair
from agentv.scoring.comparison.sides import Side
from agentv.scoring.statistics.sign_flips import SignFlips, sign_flip_test


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """What changed in one measure, over the `cases` in which both runs have it.

    A case counts once, however many trials and targets it was run with. `test` is None where no test was asked for;
    `p` is its outcome, corrected where several measures were tested.
    """

    measure: str
    cases: int
    before: float
    after: float
    differences: tuple[float, ...]
    test: SignFlips | None = None
    p: float | None = None

    @property
    def difference(self) -> float:
        """Mean difference over the cases, after minus before."""
        return math.fsum(self.differences) / self.cases


def measure_difference(
    measure: str, before: Side, after: Side, pairs: Iterable[Pair], *, rng: random.Random | None = None
) -> MeasureDifference | None:
    """Return the difference in a measure, None where no case has it on both sides. With `rng` it is tested."""
    clusters: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for pair in pairs:
        was, is_now = before.mean(measure, pair.before), after.mean(measure, pair.after)
        if was is not None and is_now is not None:
            clusters.setdefault(pair.before[:2], []).append((was, is_now))
    if not clusters:
        return None
    means = [(_mean(was for was, _ in each), _mean(is_now for _, is_now in each)) for each in clusters.values()]
    differences = tuple(is_now - was for was, is_now in means)
    test = None if rng is None else sign_flip_test(differences, rng)
    return MeasureDifference(
        measure,
        cases=len(means),
        before=_mean(was for was, _ in means),
        after=_mean(is_now for _, is_now in means),
        differences=differences,
        test=test,
        p=None if test is None else test.p,
    )


def _mean(values: Iterable[float]) -> float:
    known = tuple(values)
    return math.fsum(known) / len(known)
