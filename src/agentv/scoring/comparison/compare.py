"""Comparison of two sides: differences, tests, changed cases, and the finding."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.comparison.case_differences import (
    ROUNDING,
    THRESHOLD,
    CaseDifference,
    CaseDifferences,
    Change,
    Outcome,
)
from agentv.scoring.comparison.explanations import ComparisonOutputs, Explanation
from agentv.scoring.comparison.measured import MeasureDifference, measure_difference, unpaired_difference
from agentv.scoring.comparison.pairs import Alignment, Pair, Pairs, align, no_pairs
from agentv.scoring.comparison.sides import (
    PASSED,
    SCORE,
    SPENDING,
    Side,
    evaluator_of,
)
from agentv.scoring.comparison.unmatched import why_unmatched
from agentv.scoring.gates.gates import ScoreChange
from agentv.scoring.statistics.differences import holm
from agentv.scoring.statistics.power import SIGNIFICANCE
from agentv.types.errors import ConfigError
from agentv.types.summaries import BaselineSummary
from agentv.types.views import escape, one_line

_SEED = 0
_MAX_TARGETS = 5
"""Up to this many targets are named in what was found; those that are worse are always named."""

NOTHING_COMPARED = "nothing was compared"

Finding: TypeAlias = Literal["better", "worse", "no significant difference"]


class Comparison(Struct, frozen=True):
    """The differences of two runs over their common cases."""

    before: Side
    after: Side
    alignment: Alignment
    threshold: float
    cases: CaseDifferences
    pairs_with_errors: tuple[Pair, ...]
    """The pairs with an error in any row."""
    score: MeasureDifference | None
    passed: MeasureDifference | None
    evaluators: tuple[MeasureDifference, ...]
    spending: tuple[MeasureDifference, ...]
    is_paired: bool = True
    """False if the runs are independent samples: there are no pairs, and all cases count."""
    outputs: ComparisonOutputs | None = None

    @property
    def finding(self) -> Finding:
        """`better` or `worse` if the mean score differs significantly."""
        return _finding(self.score)

    @property
    def detectable(self) -> float | None:
        """The minimum detectable difference of mean scores with these cases, at 80 % power."""
        return None if self.score is None else self.score.detectable

    @property
    def needed(self) -> int | None:
        """The number of cases to detect the observed difference at 80 % power; None if no number would suffice."""
        return None if self.score is None else self.score.needed

    def score_change(self, suite: str | None = None) -> ScoreChange | None:
        """Return what was found on the mean score, of one suite if it is named; None if no case can be compared.

        Several targets are tested separately, with p corrected by Holm's method for their number.
        """
        if self.score is None:
            return None
        if not self.is_paired or (suite is None and len(self.after.targets) == 1):
            return ScoreChange(int(self.finding == "worse"), finding_text(self))
        by_target: dict[str, list[int]] = {}
        for place, case in enumerate(self.cases):
            if suite in (None, case.pair.after.suite):
                by_target.setdefault(case.pair.after.target, []).append(place)
        rng = random.Random(_SEED)  # noqa: S311 - draws sign patterns, keeps no secret
        scores = [measure_difference(SCORE, self.cases.pairs.select(each), rng=rng) for each in by_target.values()]
        corrected = dict(zip(by_target, _with_holm([each for each in scores if each is not None]), strict=True))
        return _score_change(corrected) if corrected else None

    @property
    def mean_of_pairs(self) -> float:
        """The mean difference over all pairs, where a case counts once for each target; 0.0 without pairs."""
        return math.fsum(case.difference for case in self.cases) / max(1, len(self.cases))

    def explain(self, cases: Sequence[CaseDifference]) -> Sequence[Explanation]:
        """Return what is behind the scores of cases such as `fell()`, in their order.

        An explanation has `question`, `expected`, and of the runs `before` and `after` the `answer` and the `reason`
        of its score. A text that is not stored is empty or None.
        """
        return [Explanation()] * len(cases) if self.outputs is None else self.outputs.explain(cases)

    def to_dataframe(self) -> Any:
        """Return one row for each case in both runs, as a DataFrame of pandas, else of polars, else as an Arrow table.

        Its columns: suite, case, target, prompt, change, score_before, score_after, difference, question, expected,
        answer_before, answer_after, reason_before and reason_after. Raises MissingExtraError if none of these packages
        is installed.
        """
        if self.outputs is None:
            raise ConfigError("only a comparison that compare() returned can be converted to a data frame")
        return self.outputs.frame(self)

    def __str__(self) -> str:
        """Return what `agentv compare` prints; of a comparison that `compare()` did not return, the finding."""
        return self._heading() if self.outputs is None else self.outputs.text(self)

    def __repr__(self) -> str:
        """Return `str(self)`: the fields are those of all cases."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return what `agentv compare` prints as HTML, for notebooks."""
        return f"<p>{escape(self._heading())}</p>" if self.outputs is None else self.outputs.html(self)

    def _heading(self) -> str:
        cases = 0 if self.score is None else self.score.cases
        return one_line(
            f"{self.after.label} compared with {self.before.label} over {cases:,} cases: {finding_text(self)}"
        )

    def outcomes(self, outcome: Outcome) -> int:
        """Return the number of pairs with this outcome."""
        return self.cases.outcomes.count(outcome)

    def regressions(self, suite: str | None = None) -> float | None:
        """Return the number of cases that regressed, of one suite if it is named; None if no case is in both runs."""
        has_cases = any(suite in (None, case.pair.after.suite) for case in self.cases)
        return float(self.changed_count("regressed", suite)) if has_cases else None

    def changed_count(self, change: Change, suite: str | None = None) -> int:
        """Return the number of cases that improved or regressed with any target and prompt, of one suite if named."""
        changed = (case.pair.after for case in self.cases.select(self._changed_places(change)))
        return len({name[:2] for name in changed if suite in (None, name.suite)})

    def fell(self) -> CaseDifferences:
        """Return the pairs that regressed, then the others whose score fell, the largest difference first in both."""
        return self._moved("regressed", -1)

    def rose(self) -> CaseDifferences:
        """Return the pairs that improved, then the others whose score rose, the largest difference first in both."""
        return self._moved("improved", 1)

    def _moved(self, change: Change, sign: int) -> CaseDifferences:
        changes, differences = self.cases.changes, self.cases.differences
        small = (place for place, each in enumerate(changes) if each == "same" and sign * differences[place] > ROUNDING)
        return self.cases.select(
            (*self._changed_places(change), *sorted(small, key=lambda place: -sign * differences[place]))
        )

    def changed(self, change: Change) -> CaseDifferences:
        """Return the pairs that improved or regressed, the largest difference first."""
        return self.cases.select(self._changed_places(change))

    def _changed_places(self, change: Change) -> list[int]:
        differences = self.cases.differences
        found = (place for place, each in enumerate(self.cases.changes) if each == change)
        return sorted(found, key=differences.__getitem__, reverse=change == "improved")


MIN_MATCH = 0.1
"""The minimum share of the smaller side's case ids that the other side must have for pairing."""


def are_matched(before: Side, after: Side) -> bool:
    """Return True if the sides have enough case ids in common for pairing (MIN_MATCH), or if a side is empty."""
    old, new = before.eval_ids(), after.eval_ids()
    smaller = min(len(old), len(new))
    return len(old & new) >= MIN_MATCH * smaller


def compare_unpaired(before: Side, after: Side, *, threshold: float = THRESHOLD) -> Comparison:
    """Compare two runs as independent samples of sessions; a case without a session counts as a session."""
    names = [name for name in before.measures if evaluator_of(name) is not None and name in after.measures]
    measured = [unpaired_difference(name, before, after) for name in names]
    spending = [unpaired_difference(name, before, after, is_tested=False) for name in SPENDING]
    return Comparison(
        before=before,
        after=after,
        alignment=Alignment(no_pairs(before, after)),
        threshold=threshold,
        cases=CaseDifferences(no_pairs(before, after), threshold),
        pairs_with_errors=(),
        score=unpaired_difference(SCORE, before, after),
        passed=unpaired_difference(PASSED, before, after),
        evaluators=_with_holm([each for each in measured if each is not None]),
        spending=tuple(each for each in spending if each is not None),
        is_paired=False,
    )


def compare_sides(before: Side, after: Side, *, rng: random.Random, threshold: float = THRESHOLD) -> Comparison:
    """Compare two runs, pair by pair."""
    alignment = align(before, after)
    pairs, cases = alignment.pairs, CaseDifferences(alignment.pairs, threshold)
    spending = [measure_difference(name, pairs) for name in SPENDING]
    return Comparison(
        before=before,
        after=after,
        alignment=alignment,
        threshold=threshold,
        cases=cases,
        pairs_with_errors=tuple(
            pairs[place]
            for place, (first, second) in enumerate(zip(pairs.first, pairs.second, strict=True))
            if before.error_count_at(first) or after.error_count_at(second)
        ),
        score=measure_difference(SCORE, cases.pairs, rng=rng),
        passed=measure_difference(PASSED, cases.pairs, rng=rng),
        evaluators=_evaluators(pairs, rng),
        spending=tuple(each for each in spending if each is not None),
    )


def _evaluators(pairs: Pairs, rng: random.Random) -> tuple[MeasureDifference, ...]:
    """Measure each evaluator that judged in both runs; their p are corrected for multiple tests."""
    known = pairs.after.measures
    names = [name for name in pairs.before.measures if evaluator_of(name) is not None and name in known]
    measured = [measure_difference(name, pairs, rng=rng) for name in names]
    return _with_holm([each for each in measured if each is not None])


def _with_holm(measured: Sequence[MeasureDifference]) -> tuple[MeasureDifference, ...]:
    """Return measures with their p corrected for multiple tests by Holm's method; untested measures are unchanged.

    Their intervals get the level at which Holm's method ends: that of as many tests as it does not reject.
    """
    corrected_p = holm([each.test.p for each in measured if each.test is not None])
    kept = sum(p > SIGNIFICANCE for p in corrected_p)
    level = 1 - SIGNIFICANCE / max(kept, 1)
    remaining = iter(corrected_p)
    return tuple(each if each.test is None else each.corrected(next(remaining), level) for each in measured)


def correct_comparisons(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return comparisons with their p corrected for multiple tests by Holm's method.

    The mean scores of all comparisons are one family of tests, as are the pass rates, and all evaluators together.
    """
    scores = iter(_with_holm([each.score for each in comparisons if each.score is not None]))
    passed = iter(_with_holm([each.passed for each in comparisons if each.passed is not None]))
    evaluators = iter(_with_holm([found for each in comparisons for found in each.evaluators]))
    return tuple(
        replace(
            each,
            score=None if each.score is None else next(scores),
            passed=None if each.passed is None else next(passed),
            evaluators=tuple(next(evaluators) for _ in each.evaluators),
        )
        for each in comparisons
    )


def _finding(score: MeasureDifference | None) -> Finding:
    if score is None or score.p is None or score.p > SIGNIFICANCE or not score.difference:
        return "no significant difference"
    return "better" if score.difference > 0 else "worse"


def _score_change(by_target: Mapping[str, MeasureDifference]) -> ScoreChange:
    """Return what was found for each target, those that are worse first."""
    worse = {target: score for target, score in by_target.items() if _finding(score) == "worse"}
    if len(by_target) == 1:
        return ScoreChange(len(worse), _score_text(*by_target.values()))
    shown = list({**worse, **by_target}.items())[: max(len(worse), _MAX_TARGETS)]
    more = len(by_target) - len(shown)
    texts = [f"target {one_line(target)}: {_score_text(score)}" for target, score in shown]
    text = "; ".join([*texts, *([f"{more:,} more targets: not worse"] if more else [])])
    return ScoreChange(len(worse), text, tuple(worse))


def finding_text(comparison: Comparison) -> str:
    """Return what happened and what it shows: "16 cases fell, none rose: worse".

    Without a significant difference, the number of cases that would be needed follows. The finding of independent
    samples has no such counts, and ends with "unpaired". Runs without a comparable case have no finding.
    """
    if comparison.score is None:
        return NOTHING_COMPARED
    return _score_text(comparison.score) if comparison.is_paired else f"{_found(comparison.score)}, unpaired"


def _score_text(score: MeasureDifference) -> str:
    return f"{changes_text(score.lower, score.higher)}: {_found(score)}"


def _found(score: MeasureDifference) -> str:
    finding = _finding(score)
    return f"{finding} (n needed: {needed_text(score)})" if finding == "no significant difference" else finding


def changes_text(fell: int, rose: int, noun: str = "case") -> str:
    """Return how many cases fell and rose, the larger number first: "16 cases fell, none rose"."""
    (more, first), (fewer, second) = sorted(((fell, "fell"), (rose, "rose")), key=lambda each: -each[0])
    if not more:
        return f"no {noun} changed"
    return f"{more:,} {noun if more == 1 else f'{noun}s'} {first}, {f'{fewer:,}' if fewer else 'none'} {second}"


def needed_text(score: MeasureDifference) -> str:
    """Return the number of cases to detect the difference at 80 % power, `more than N`, or why it is unknown."""
    if score.independent is not None and score.detectable is None:
        return "unknown, too few cases"
    if not score.difference:
        return "unknown, equal means"
    needed = score.needed
    if needed is None:
        return "more than 10,000,000"
    # `needed` is for a single comparison; several comparisons at once need more cases.
    return f"more than {score.cases:,}" if needed <= score.cases else f"{needed:,}"


def summarize_baseline(comparison: Comparison) -> BaselineSummary:
    """Return a comparison with the baseline (its earlier side) in the form that a run's report shows."""
    score, alignment = comparison.score, comparison.alignment
    before, after = comparison.before, comparison.after
    lost = {name[:2] for name in alignment.only_before}
    if lost:
        lost.difference_update(pair.before[:2] for pair in alignment.pairs)
    return BaselineSummary(
        baseline=comparison.before.label,
        cases=0 if score is None else score.cases,
        finding=finding_text(comparison)
        if score is not None
        else f"{NOTHING_COMPARED}: {why_unmatched(before, after)}",
        difference=None if score is None else score.difference,
        interval=None if score is None else score.interval,
        improved=comparison.changed_count("improved"),
        regressed=comparison.changed_count("regressed"),
        evaluators={evaluator_of(each.measure) or "": each.difference for each in comparison.evaluators},
        lost=len(lost),
    )
