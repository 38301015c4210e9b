"""Properties that hold for every judgement, whatever evaluators return."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.criteria.giving import Giving, Raising

from agentv import EvaluationCriteria, EvaluationInput, EvaluationResult, EvaluationRunConfig, run_evaluation_sync
from agentv.types.aggregated_result import AggregatedEvaluationResult

NAMES = ("a", "b", "c")
SCALES = st.sampled_from(["binary", "pass/fail", "likert5", "numeric", "percent", "mood", ("low", "mid", "high")])
SCORES = st.one_of(
    st.booleans(),
    st.integers(-10, 110),
    st.floats(),
    st.floats(0, 1),
    st.sampled_from(["pass", "No", "4", "85%", "4/5", "mid", "HIGH", "nan", "", "1e999", "٣", "sunny"]),
)


@st.composite
def criteria(draw: st.DrawFn) -> tuple[EvaluationCriteria, ...]:
    made = []
    for name in NAMES:
        scale = draw(SCALES)
        labels = scale if isinstance(scale, tuple) else ()
        weight = draw(st.floats(0.1, 1e6))
        made.append(EvaluationCriteria(name, scale="labels" if labels else str(scale), weight=weight, labels=labels))
    return tuple(made)


@st.composite
def evaluators(draw: st.DrawFn) -> list[Giving]:
    """Several evaluators that score all criteria between them, each with one result or several."""
    results = [EvaluationResult(name, draw(SCORES)) for name in NAMES]
    results += draw(st.lists(st.builds(EvaluationResult, st.sampled_from(NAMES), SCORES), max_size=4))
    split = draw(st.integers(1, len(results)))
    return [Giving(*results[:split]), Giving(*results[split:])] if split < len(results) else [Giving(*results)]


def judged(judges: Sequence[Any], by: tuple[EvaluationCriteria, ...], **options: Any) -> AggregatedEvaluationResult:
    return run_evaluation_sync(EvaluationInput("x", by), EvaluationRunConfig(evaluators=judges, **options))


@given(criteria(), evaluators())
def test_results_are_in_0_to_1_or_errors_or_custom_labels(
    by: tuple[EvaluationCriteria, ...], judges: list[Giving]
) -> None:
    result = judged(judges, by)
    for each in result.results:
        if each.value is not None:
            assert 0.0 <= each.value <= 1.0
            assert each.error is None
        else:
            assert each.error or each.scale == "mood"
    assert len(result.run_errors) == sum(each.error is not None for each in result.results)


@given(criteria(), evaluators(), st.sampled_from(["exclude", "zero"]))
def test_the_overall_score_lies_between_the_least_and_the_greatest_value(
    by: tuple[EvaluationCriteria, ...], judges: list[Giving], policy: str
) -> None:
    result = judged(judges, by, error_policy=policy)
    values = [each.value for each in result.results if each.value is not None]
    values += [0.0 for each in result.results if each.error and policy == "zero"]
    assert result.scored == len(values)
    if not values:
        assert result.overall_score is None
    else:
        assert result.overall_score is not None
        assert min(values) <= result.overall_score <= max(values)


@given(criteria(), evaluators(), st.randoms(use_true_random=False))
def test_the_order_of_evaluators_and_criteria_changes_nothing(
    by: tuple[EvaluationCriteria, ...], judges: list[Giving], chance: Any
) -> None:
    one = judged(judges, by)
    shuffled_judges, shuffled = list(judges), list(by)
    chance.shuffle(shuffled_judges)
    chance.shuffle(shuffled)
    other = judged(shuffled_judges, tuple(shuffled))
    assert other.overall_score == one.overall_score
    key = [(each.criterion_name, each.value, each.error) for each in one.results]
    assert sorted(key, key=repr) == sorted(
        ((each.criterion_name, each.value, each.error) for each in other.results), key=repr
    )


@given(criteria(), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_a_bad_evaluator_changes_only_its_own_criterion(
    by: tuple[EvaluationCriteria, ...], values: list[float]
) -> None:
    numeric = tuple(EvaluationCriteria(each.name, scale="numeric", weight=each.weight) for each in by)
    good = [Giving(EvaluationResult(name, value)) for name, value in zip(("a", "b"), values, strict=True)]
    without = judged([*good, Giving(EvaluationResult("c", None, error="none"))], numeric)
    broken = judged([*good, Raising(), Giving(EvaluationResult("c", math.nan))], numeric)
    assert broken.overall_score == without.overall_score
    assert [each.value for each in broken.results[:2]] == [each.value for each in without.results[:2]]
    assert {error.evaluator for error in broken.run_errors} == {"Raising", "Giving-3"}


def test_a_naive_mean_would_break_the_law() -> None:
    """The control: a plain sum of products over a sum of weights leaves the range that its values span."""
    weights = [0.1, 0.2, 0.3]
    naive = sum(weight * 0.7 for weight in weights) / sum(weights)
    by = tuple(
        EvaluationCriteria(name, scale="numeric", weight=each) for name, each in zip(NAMES, weights, strict=True)
    )
    result = judged([Giving(*(EvaluationResult(name, 0.7) for name in NAMES))], by)
    assert result.overall_score == 0.7
    assert naive == pytest.approx(0.7)
    assert naive != 0.7
