"""Several runs against a first one."""

from collections.abc import Sequence

from msgspec.structs import replace

from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.statistics.holm import holm


def corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return comparisons with one run as they count when all are looked at: the p of their scores by Holm."""
    tests = [None if each.score is None else each.score.test for each in comparisons]
    chances = iter(holm([test.p for test in tests if test is not None]))
    return tuple(
        each if test is None or each.score is None else replace(each, score=replace(each.score, p=next(chances)))
        for each, test in zip(comparisons, tests, strict=True)
    )
