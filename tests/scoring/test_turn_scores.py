"""Aggregation of the scores of turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.results.aggregators import TurnScore, fold_turns
from agentv.types.cases import TurnAggregate
from agentv.types.evaluation import EvaluationResult, EvaluationScore, EvaluatorResult, JudgeCall
from agentv.types.failures import Failure


def scored(number: int, value: float, **fields: object) -> TurnScore:
    results = (EvaluationResult("tone", value, value, scale="numeric", evaluator_type="x"),)
    return TurnScore(number, EvaluationScore(**{"score": value, "results": results, **fields}))  # type: ignore[arg-type]


def broken(number: int, message: str = "no reply", **fields: object) -> TurnScore:
    failure = Failure("judge_error", message, stage="evaluator")
    return TurnScore(number, EvaluationScore(0.0, status="error", error=failure, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(("aggregate", "score"), [("mean", 0.6), ("min", 0.2), ("last", 0.7)])
def test_the_score_is_the_mean_the_worst_or_the_last(aggregate: TurnAggregate, score: float) -> None:
    whole = fold_turns([scored(1, 0.9), scored(2, 0.2), scored(3, 0.7)], aggregate)
    assert whole.score == pytest.approx(score)
    values = [result.value for result in whole.results if result.value is not None]
    assert sum(values) / len(values) == pytest.approx(score)  # so that the criteria API computes the same


def test_hits_misses_reasons_and_results_name_their_turn() -> None:
    first = scored(1, 1.0, hits=("kind",), reasoning="fine", expected_aspect_count=2)
    whole = fold_turns([first, scored(3, 0.0, misses=("rude",), reasoning="not fine")], "mean")
    assert (whole.hits, whole.misses) == (("turn 1: kind",), ("turn 3: rude",))
    assert whole.reasoning == "turn 1: fine\nturn 3: not fine"
    assert [result.metadata for result in whole.results] == [{"turn": 1}, {"turn": 3}]
    assert whole.expected_aspect_count == 3


def test_judge_calls_of_all_turns_are_recorded() -> None:
    call = JudgeCall("j", "sample", "{}", cost_usd=0.5)
    member = EvaluatorResult(name="kind", type="contains", score=1.0)
    turns = [scored(n, 1.0, judge_calls=(call,), evaluator_raw_request={"n": n}, members=(member,)) for n in (1, 2)]
    whole = fold_turns(turns, "min")
    assert whole.judge_calls == (call, call)
    assert whole.evaluator_raw_request == {"turns": [{"n": 1}, {"n": 2}]}
    assert [each.name for each in whole.members] == ["turn 1: kind", "turn 2: kind"]


def test_a_turn_that_could_not_be_judged_makes_the_whole_an_error() -> None:
    whole = fold_turns([scored(1, 1.0), broken(2), broken(4, "late")], "mean")
    assert (whole.score, whole.status) == (0.0, "error")
    assert whole.error == Failure("judge_error", "turn 2: no reply; turn 4: late", stage="evaluator")
    (result,) = whole.results
    assert (result.criterion_name, result.value, result.error) == ("tone", None, "turn 2: no reply")


def test_criteria_that_every_turn_has_stand_beside_those_that_one_lacks() -> None:
    both = (
        EvaluationResult("tone", 1.0, 1.0, evaluator_type="x"),
        EvaluationResult("facts", None, error="left out", evaluator_type="x"),
    )
    other = EvaluationResult("facts", 1.0, 1.0, evaluator_type="x")
    first = scored(1, 1.0, results=(both[0], other))
    whole = fold_turns([first, broken(2, "facts: left out", results=both)], "mean")
    assert [(result.criterion_name, result.error) for result in whole.results] == [
        ("tone", None),
        ("tone", None),
        ("facts", "turn 2: left out"),
    ]


@pytest.mark.parametrize("aggregate", ["mean", "min"])
def test_a_skipped_turn_is_left_out(aggregate: TurnAggregate) -> None:
    skipped = TurnScore(1, EvaluationScore(0.0, status="skipped", reasoning="no judge ran"))
    assert fold_turns([skipped, scored(2, 0.8)], aggregate).score == 0.8
    whole = fold_turns([skipped, skipped], aggregate)
    assert (whole.status, whole.reasoning) == ("skipped", "turn 1: no judge ran\nturn 1: no judge ran")


def test_a_required_item_that_one_turn_misses_fails_the_whole() -> None:
    assert fold_turns([scored(1, 1.0, verdict="fail"), scored(2, 1.0)], "mean").verdict == "fail"
    assert fold_turns([scored(1, 1.0), scored(2, 1.0, status="unverified")], "mean").status == "unverified"


@given(st.lists(st.floats(0, 1), min_size=1), st.sampled_from(["mean", "min", "last"]))
def test_the_whole_lies_between_the_worst_and_the_best_turn(values: list[float], aggregate: TurnAggregate) -> None:
    whole = fold_turns([scored(number, value) for number, value in enumerate(values, 1)], aggregate)
    assert min(values) <= whole.score <= max(values)
