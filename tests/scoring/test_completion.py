import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.stored import NOON, SLOT
from tests.support.strategies import evaluator_results

from agentv.scoring.results.aggregation import to_result
from agentv.scoring.results.completion import to_score
from agentv.scoring.results.criteria import normalize
from agentv.storage.records.decode import RESULTS
from agentv.storage.records.encode import encodable_result
from agentv.storage.records.json_line import encode
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationResult, EvaluationScore, EvaluatorResult, JudgeCall
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import struct_fields
from agentv.types.usage import Usage

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
    st.builds(EvaluationScore, score=st.floats()),
    st.builds(EvaluationResult, st.text(), st.one_of(st.floats(), st.booleans(), st.text())),
    st.lists(st.builds(EvaluationResult, st.sampled_from(["a", "b"]), st.one_of(st.floats(), st.text()))),
)


class Liar(str):
    """A text that fails on every access."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __format__ = __hash__ = __eq__ = __str__  # type: ignore[assignment]  # that is the point


class Bomb:
    """An object whose every attribute raises an exception that cannot be formatted."""

    def __getattribute__(self, name: str) -> Any:
        raise UnsayableError


class UnsayableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Fleeting(Sequence[Any]):
    """A list that returns another item on each access."""

    def __init__(self) -> None:
        self.calls = 0

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        self.calls += 1
        if index:
            raise IndexError
        return EvaluationResult("a", True) if self.calls % 2 else object()


class Weight(float):
    """A number whose conversion fails."""

    def __float__(self) -> float:
        raise ZeroDivisionError


class Endless(Mapping[str, Any]):
    """An object that is its own member."""

    def __getitem__(self, key: str) -> Any:
        return self

    def __iter__(self) -> Any:
        return iter("x")

    def __len__(self) -> int:
        return 1


def cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def explosive() -> list[Any]:
    """Return a list that contains itself twice: expanded 100 levels deep it has more parts than there are atoms."""
    made: list[Any] = []
    made += [made, made]
    return made


VALUES: list[Any] = [
    *(
        None,
        True,
        7,
        -1,
        10**400,
        0.5,
        math.nan,
        -math.inf,
        b"x",
        "PASS",
        "pass",
        "error",
        "scored",
        "\ud800",
    ),
    *(
        (),
        [],
        {},
        ["a", 7],
        {"x": math.nan},
        {"x": [math.inf, {"y": math.nan}]},
        {7: 7},
        {"x": {1, 2}},
    ),
    *(object(), Weight(0.5), Endless(), EvaluationScore, [EvaluationResult("a", True)], EvaluationResult("a", 1)),
    *(Failure("evaluator_error", "broken"), Failure("odd", 7), Usage(input=math.nan)),  # type: ignore[arg-type]
    *(JudgeCall("j", "sample", "r", cost_usd=math.nan), JudgeCall("j", 7, b"")),  # type: ignore[arg-type]
    *(EvaluatorResult(name="m", type="k", score=0.5), [EvaluatorResult(name=7, type="k", score=math.nan)]),  # type: ignore[arg-type]
]
# Made anew each time, since some change on access; drawn unmade, since hypothesis inspects what it draws.
OBJECTS: list[Any] = [
    lambda: Liar("pass"),
    Bomb,
    Fleeting,
    cycle,
    lambda: {"x": cycle()},
    UnsayableError,
    lambda: {"x": 10**5000},
]
HOSTILE = st.sampled_from([lambda value=value: value for value in VALUES] + OBJECTS)


def hostile(sort: Any) -> st.SearchStrategy[Any]:
    """Factories of objects of our classes with wrong values in any of their fields."""
    required = {
        "score": 0.5,
        "criterion_name": "a",
        "name": "m",
        "type": "k",
        "judge": "j",
        "role": "sample",
        "reply": "",
    }
    needed = {each.name: required[each.name] for each in struct_fields(sort) if each.name in required}
    wrong = st.dictionaries(st.sampled_from([each.name for each in struct_fields(sort)]), HOSTILE, max_size=3)
    return wrong.map(lambda makers: lambda: sort(**{**needed, **{name: make() for name, make in makers.items()}}))


def stored(result: EvaluatorResult) -> EvaluatorResult:
    """Return an evaluator's result as read from the line of its row."""
    row = CaseResult(
        run_id="r",
        timestamp=NOON,
        slot=SLOT,
        dataset="d",
        status="pass",
        score=1.0,
        verdict="pass",
        evaluator_results=(result,),
    )
    (read,) = RESULTS.of_line(encode(encodable_result(row))).evaluator_results
    return read


SOMETHING = (
    HOSTILE
    | hostile(EvaluationScore)
    | hostile(EvaluationResult)
    | st.lists(hostile(EvaluationResult), max_size=2).map(lambda makers: lambda: [make() for make in makers])
    | hostile(EvaluatorResult).map(lambda make: lambda: EvaluationScore(0.5, members=(make(),)))
    | hostile(JudgeCall).map(lambda make: lambda: EvaluationScore(0.5, judge_calls=(make(),)))
)


@given(SOMETHING, st.booleans())
def test_no_object_of_a_plug_in_ends_a_run_or_spoils_its_records(make: Any, negate: Any) -> None:
    score = to_score(make(), name="x", kind="k", negate=negate)
    assert 0.0 <= score.score <= 1.0
    result = to_result(score, EvaluatorConfig("x", "k"))
    read = stored(result)
    assert read == result or "\\ud800" in repr(result)


def test_making_a_score_runs_no_code_of_a_plug_ins_verdict() -> None:
    score = EvaluationScore(0.5, verdict=cast(Any, Liar("pass")))
    assert to_score(score, name="x", kind="k").error is not None


@pytest.mark.parametrize("each", struct_fields(EvaluationScore), ids=lambda each: each.name)
@pytest.mark.parametrize("value", ["", 0, False, None, [], b"", 0j], ids=repr)
def test_empty_fields_of_the_wrong_type_are_rejected(each: Any, value: Any) -> None:
    score = to_score(EvaluationScore(**{"score": 0.5, each.name: value}), name="x", kind="k")
    result = to_result(score, EvaluatorConfig("x", "k"))
    assert stored(result) == result


@given(evaluator_results())
def test_a_score_that_keeps_the_contract_is_not_touched(given_result: Any) -> None:
    member = replace(given_result, score=0.5, weight=1.0, required=True, results=(), error=None, status="scored")
    score = EvaluationScore(0.5, members=(member,), evaluator_raw_request={"userPrompt": "q", "n": [1, {"a": None}]})
    completed = to_score(score, name="x")
    assert replace(completed, results=()) == replace(
        score, members=(replace(member, expected_aspect_count=max(1, member.expected_aspect_count)),)
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"reasoning": 7}, "`reasoning` must be a string, got a int"),
        ({"verdict": "PASS"}, "`verdict` must be one of pass, borderline, fail, got 'PASS'"),
        ({"status": "done"}, "`status` must be one of scored, error, skipped, unverified, got 'done'"),
        ({"status": "error"}, "`status` is 'error' but `error` is missing; give it a Failure"),
        ({"hits": "one"}, "`hits` must be a sequence of texts, got a str"),
        ({"raw_aspects": 7}, "`raw_aspects` must be a sequence of texts, got a int"),
        ({"expected_aspect_count": 1.5}, "`expected_aspect_count` must be a whole number, got a float"),
        ({"error": "broken"}, "`error` must be of class Failure, got a str"),
        ({"error": Failure("odd", "x")}, "`error.kind` must be one of deadline"),  # type: ignore[arg-type]
        ({"results": (7,)}, "`results[0]` must be of class EvaluationResult, got a int"),
        (
            {"results": (EvaluationResult("a", 1, metadata={"x": object()}),)},  # type: ignore[dict-item]  # that is the point
            "`results[0].metadata` must be JSON, got a object",
        ),
        ({"judge_calls": ("reply",)}, "`judge_calls[0]` must be of class JudgeCall, got a str"),
        (
            {"members": (EvaluatorResult(name="m", type="k", score=7),)},
            "the score of 'members[0].score' is 7; allowed: 0 to 1",
        ),
        ({"evaluator_raw_request": "prompt"}, "`evaluator_raw_request` must be a mapping, got a str"),
        ({"evaluator_raw_request": {"x": cycle()}}, "`evaluator_raw_request` is nested more than 100 levels deep"),
        ({"evaluator_raw_request": {"x": explosive()}}, "`evaluator_raw_request` is nested more than 100 levels deep"),
    ],
)
def test_a_field_that_is_not_what_it_must_be_is_named(wrong: Any, message: str) -> None:
    score = to_score(EvaluationScore(**{"score": 1.0, **wrong}), name="tone")
    assert (score.score, score.status) == (0.0, "error")
    assert score.error is not None
    assert score.error.kind == "evaluator_error"
    assert score.error.message.startswith(message)


def test_a_number_that_says_nothing_is_left_out_wherever_it_stands() -> None:
    call = JudgeCall("j", "sample", "r", cost_usd=math.inf, usage=Usage(input=3))
    score = to_score(
        EvaluationScore(1.0, evaluator_raw_request={"a": [{"t": math.nan}]}, judge_calls=(call,)), name="x"
    )
    assert score.error is None
    assert score.evaluator_raw_request == {"a": [{"t": None}]}
    assert score.judge_calls == (replace(call, cost_usd=None),)


@given(ANYTHING, st.booleans())
def test_whatever_an_evaluator_returns_ends_as_a_finite_score(output: Any, negate: Any) -> None:
    score = to_score(output, name="x", kind="k", negate=negate)
    assert math.isfinite(score.score)
    assert 0.0 <= score.score <= 1.0
    assert score.expected_aspect_count >= 1
    assert score.results
    assert all(each.value is None or 0.0 <= each.value <= 1.0 for each in score.results)


@pytest.mark.parametrize(
    ("output", "expected"),
    [(True, 1.0), (False, 0.0), (1, 1.0), (0.25, 0.25), (Fraction(1, 4), 0.25), (1 + 1e-12, 1.0), (-1e-12, 0.0)],
)
def test_simple_values_become_scores(output: Any, expected: Any) -> None:
    score = to_score(output, name="tone", kind="mine")
    assert score.score == expected
    assert score.error is None
    assert score.results[0].criterion_name == "tone"
    assert score.results[0].evaluator_type == "mine"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (math.nan, "the score of 'tone' is nan; allowed: 0 to 1"),
        (math.inf, "the score of 'tone' is inf; allowed: 0 to 1"),
        (10**400, "the score of 'tone' is inf; allowed: 0 to 1"),
        (
            None,
            (
                "evaluator 'tone' returned nothing; allowed: an EvaluationScore, a number from 0 to 1, a bool, or "
                "EvaluationResults"
            ),
        ),
    ],
)
def test_what_is_no_score_is_an_error_of_the_evaluator(output: Any, message: Any) -> None:
    score = to_score(output, name="tone")
    assert score.score == 0.0
    assert score.error == Failure("evaluator_error", message, stage="evaluator")
    assert score.misses == (message,)
    assert score.status == "error"


@pytest.mark.parametrize(("number", "clamped"), [(1.5, 1.0), (-0.5, 0.0), (1.01, 1.0), (Fraction(-1, 4), 0.0)])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_score_a_little_outside_is_clamped_and_counted(number: Any, clamped: float, is_whole: bool) -> None:
    score = to_score(EvaluationScore(number) if is_whole else number, name="tone")
    assert (score.score, score.clamped, score.error, score.status) == (clamped, True, None, "scored")
    assert score.verdict == ("pass" if clamped else "fail")


@pytest.mark.parametrize(("number", "clamped", "shown"), [(10, 1.0, "10"), (1.51, 1.0, "1.51"), (-3.0, 0.0, "-3")])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_score_on_another_scale_is_a_judge_error(number: Any, clamped: float, shown: str, is_whole: bool) -> None:
    score = to_score(EvaluationScore(number, hits=("a",)) if is_whole else number, name="tone")
    message = f"the score is off its scale: {shown} is outside 0 to 1"
    assert score.error == Failure("judge_error", message, stage="evaluator")
    assert (score.score, score.verdict, score.status) == (clamped, None, "error")
    (result,) = score.results
    assert (result.value, result.error) == (None, message)


def test_a_whole_score_keeps_what_it_says() -> None:
    given_score = EvaluationScore(0.5, hits=("a", "b"), misses=("c",), reasoning="why", verdict="fail")
    score = to_score(given_score, name="x")
    assert (score.score, score.hits, score.misses, score.verdict) == (0.5, ("a", "b"), ("c",), "fail")
    assert score.expected_aspect_count == 3


def test_a_line_that_is_not_a_text_becomes_one() -> None:
    lines = cast(tuple[str, ...], (7, "b"))
    assert to_score(EvaluationScore(0.5, hits=lines, expected_aspect_count=2), name="x").hits == ("7", "b")
    assert to_score(EvaluationScore(0.5, misses=lines, expected_aspect_count=2), name="x").misses == ("7", "b")


def test_negation_turns_the_score_and_its_reasons_but_never_an_error() -> None:
    score = to_score(EvaluationScore(0.25, hits=("has it",), misses=()), name="x", negate=True)
    assert (score.score, score.hits, score.misses) == (0.75, (), ("has it",))
    assert to_score(math.nan, name="x", negate=True).score == 0.0


@pytest.mark.parametrize(
    ("criterion", "given_score", "negated"),
    [
        (EvaluationCriteria("x", scale="likert5"), 5, 1.0),
        (EvaluationCriteria("x", scale="percent"), 30, 70.0),
        (EvaluationCriteria("x", scale="pass/fail"), "pass", "fail"),
        (EvaluationCriteria("x", scale="binary"), True, False),
        (EvaluationCriteria("x", scale="mood", labels=("bad", "fair", "good")), "good", "bad"),
        (EvaluationCriteria("x", scale="numeric", min=-3), 1, -3.0),
    ],
)
def test_negation_turns_a_score_on_its_scale_too(criterion: Any, given_score: Any, negated: Any) -> None:
    (result,) = to_score([EvaluationResult("x", given_score)], criteria=(criterion,), negate=True).results
    assert result.score == pytest.approx(negated) if isinstance(negated, float) else result.score == negated
    assert result.score is not None
    assert result.value == normalize(result.score, criterion)


def test_results_per_criterion_weigh_by_their_criteria() -> None:
    criteria = (
        EvaluationCriteria("tone", scale="likert5", weight=3),
        EvaluationCriteria("facts", scale="binary", weight=1),
    )
    output = [EvaluationResult("tone", 4), EvaluationResult("facts", False, reasoning="wrong year")]
    score = to_score(output, kind="mine", criteria=criteria)
    assert score.score == pytest.approx((3 * 0.75 + 1 * 0.0) / 4)
    assert score.hits == ("tone",)
    assert score.misses == ("facts: wrong year",)
    assert [each.value for each in score.results] == [0.75, 0.0]


def test_several_results_for_one_criterion_enter_as_their_mean_once() -> None:
    output = [EvaluationResult("a", 1.0), EvaluationResult("a", 0.0), EvaluationResult("b", 1.0)]
    assert to_score(output).score == pytest.approx(0.75)


def test_one_unreadable_result_makes_the_evaluator_an_error() -> None:
    score = to_score([EvaluationResult("a", True), EvaluationResult("b", "perhaps")])
    assert score.error is not None
    assert score.error.message == "b: 'perhaps' cannot be read on the scale binary"
    assert (score.score, score.status) == (0.0, "error")
    assert (score.hits, score.misses) == (("a",), (score.error.message,))
    assert score.results[0].value == 1.0
    assert score.results[1].value is None


def test_a_value_is_reported_on_the_scale_of_its_criterion() -> None:
    criteria = (EvaluationCriteria("tone", scale="likert5"), EvaluationCriteria("ok", scale="pass/fail"))
    assert to_score(True, name="tone", criteria=criteria).results[0].score == 5
    assert to_score(0.0, name="ok", criteria=criteria).results[0].score == "fail"
    assert to_score(math.nan, name="tone", criteria=criteria).results[0].score is None
