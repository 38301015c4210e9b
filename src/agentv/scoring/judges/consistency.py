"""Consistency of a judge: over repeats, with the two answers swapped, and in relation to answer length."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import cast, get_args

from msgspec import Struct

from agentv.scoring.counting.case_sums import case_of
from agentv.scoring.judge_replies.replies import Better, candidate_value
from agentv.scoring.judges.agreement import Label, krippendorff_alpha
from agentv.scoring.judges.labels import Opinion, judged_criterion, result_opinion
from agentv.scoring.judges.report_card import AgreementRate, rate_of_cases
from agentv.scoring.statistics.distributions import normal_quantile
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.answer import ResultKey
from agentv.types.summaries import LEVEL, Interval

MIN_ITEMS = 10
"""The minimum number of independent items for an interval of a correlation."""


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, -1..1, with ties at their mean rank; None if either sequence is constant.

    Spearman 1904, American Journal of Psychology 15(1).

    >>> rank_correlation([10, 20, 30], [0.1, 0.2, 0.9])
    1.0
    """
    one, other = _centred_ranks(first), _centred_ranks(second)
    # One root of the product is exact for equal ranks, unlike the product of two roots.
    scatter = math.sqrt(math.fsum(each * each for each in one) * math.fsum(each * each for each in other))
    if not scatter:
        return None
    return min(max(math.fsum(a * b for a, b in zip(one, other, strict=True)) / scatter, -1.0), 1.0)


def correlation_interval(correlation: float, count: int, level: float = LEVEL) -> Interval | None:
    """Return the interval of a rank correlation of `count` independent items, computed on Fisher's scale, artanh.

    On that scale the standard error is √((1 + r² / 2) / (count - 3)): Bonett & Wright 2000, Psychometrika 65(1). None
    with fewer than ten items, or if the correlation is 1 or -1.
    """
    if count < MIN_ITEMS or not -1 < correlation < 1:
        return None
    half_width = normal_quantile((1 + level) / 2) * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    middle = math.atanh(correlation)
    return Interval(math.tanh(middle - half_width), math.tanh(middle + half_width), "fisher-z", level)


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Return each value's rank minus the mean of all ranks; equal values share the mean of their ranks."""
    ranks = [0.0] * len(values)
    below = 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        indexes = list(group)
        for index in indexes:
            ranks[index] = below + (len(indexes) - 1) / 2 - (len(values) - 1) / 2
        below += len(indexes)
    return ranks


_ORDERS = ("given", "swapped")
"""The orders in which `pairwise` shows two answers to its judge; it stores a pair with one verdict for each order."""
_PREFERENCES = get_args(Better)


class RepeatedJudgement(Struct, frozen=True):
    """One answer with a judge's repeated opinions on it."""

    slot: ResultKey
    length: int
    """In characters."""
    opinions: tuple[Opinion, ...]
    failed: int = 0
    """The number of repeats without an opinion."""
    comparisons: int = 0
    """The number of comparisons with another answer that were made in both orders."""
    flips: int = 0
    """The number of these comparisons in which the order changed the preference."""

    @property
    def is_consistent(self) -> bool:
        """True if the judge gave the same verdict, pass or not, each time; False without an opinion."""
        return len({each.passed for each in self.opinions}) == 1

    @property
    def score(self) -> float:
        """The mean of the judge's scores. Needs an opinion."""
        return math.fsum(each.value for each in self.opinions) / len(self.opinions)

    @property
    def deviation(self) -> float:
        """The standard deviation of the judge's scores, with n - 1. Needs two opinions."""
        return statistics.stdev(each.value for each in self.opinions)

    @property
    def passed(self) -> bool:
        """The judge's most frequent verdict; a tie is not a pass."""
        return 2 * sum(each.passed for each in self.opinions) > len(self.opinions)


class LengthCorrelation(Struct, frozen=True):
    """Spearman's correlation of answer length with the judge's score."""

    value: float | None
    """None if all lengths or all scores are equal."""
    answers: int
    """The number of answers."""
    interval: Interval | None = None
    """None without a value, for fewer than ten cases, or if the correlation is 1 or -1."""


class Consistency(Struct, frozen=True):
    """The consistency of a judge on answers that it judged several times."""

    answers: int
    """The number of answers with at least one opinion."""
    repeats: int
    """How often each answer was judged."""
    failed: int
    """The number of repeats without an opinion, of all answers together."""
    same_verdict: AgreementRate
    """The share of answers whose verdicts are all equal, of those with at least two opinions."""
    deviation: float | None
    """The mean standard deviation of an answer's scores, over answers with at least two opinions."""
    alpha: float | None
    """Krippendorff's alpha of the verdicts, over answers with at least two opinions."""
    position: AgreementRate | None
    """The share of comparisons whose preference changes with the order of the answers, None without comparisons."""
    lengths: Mapping[str, LengthCorrelation]
    """The correlations over answers by their most frequent verdict, under the keys `all`, `passed` and `failed`."""


def repeated_judgement(slot: ResultKey, length: int, results: Sequence[EvaluatorResult]) -> RepeatedJudgement:
    """Return an answer of `length` characters with the opinions in a judge's repeated results."""
    found = [result_opinion(each, judged_criterion(each)) for each in results]
    opinions = tuple(opinion for opinion in found if opinion is not None)
    pairs = [pair for each in results for pair in _verdicts_in_both_orders(each)]
    flips = sum(candidate_value(one, swapped=False) != candidate_value(other, swapped=True) for one, other in pairs)
    return RepeatedJudgement(
        slot=slot,
        length=length,
        opinions=opinions,
        failed=len(results) - len(opinions),
        comparisons=len(pairs),
        flips=flips,
    )


def consistency(answers: Sequence[RepeatedJudgement], repeats: int) -> Consistency:
    """Return a judge's consistency on answers that it judged `repeats` times."""
    judged = [each for each in answers if each.opinions]
    repeated = [each for each in judged if len(each.opinions) > 1]
    verdicts: list[list[Label | None]] = [[opinion.passed for opinion in each.opinions] for each in repeated]
    by_verdict = {
        "all": judged,
        "passed": [each for each in judged if each.passed],
        "failed": [each for each in judged if not each.passed],
    }
    flips = [(case_of(each.slot), each.comparisons, float(each.flips)) for each in judged if each.comparisons]
    return Consistency(
        answers=len(judged),
        repeats=repeats,
        failed=sum(each.failed for each in answers),
        same_verdict=rate_of_cases([(case_of(each.slot), 1, float(each.is_consistent)) for each in repeated]),
        deviation=math.fsum(each.deviation for each in repeated) / len(repeated) if repeated else None,
        alpha=krippendorff_alpha(verdicts),
        position=rate_of_cases(flips) if flips else None,
        lengths={kind: _length_correlation(some) for kind, some in by_verdict.items()},
    )


def _length_correlation(answers: Sequence[RepeatedJudgement]) -> LengthCorrelation:
    """Return the correlation. Its interval is that for the number of cases, because answers to one case are similar."""
    value = rank_correlation([float(each.length) for each in answers], [each.score for each in answers])
    if value is None:
        return LengthCorrelation(None, len(answers))
    cases = len({case_of(each.slot) for each in answers})
    return LengthCorrelation(value, len(answers), correlation_interval(value, cases))


def _verdicts_in_both_orders(result: EvaluatorResult) -> Iterator[tuple[Better, Better]]:
    """Yield the two verdicts of each comparison that `pairwise` stored, in the order of _ORDERS; ignore other data."""
    for each in result.results:
        verdicts = (each.metadata or {}).get("verdicts")
        for pair in verdicts if isinstance(verdicts, list | tuple) else ():
            if (
                isinstance(pair, list | tuple)
                and len(pair) == len(_ORDERS)
                and all(one in _PREFERENCES for one in pair)
            ):
                yield cast(tuple[Better, Better], tuple(pair))
