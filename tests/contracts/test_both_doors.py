"""An answer gets the same score from an eval file and from `run_evaluation`."""

import asyncio
import copy
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.test_evaluators import CANDIDATES, SETTINGS, VERDICT
from tests.support.judging import Judge, signed

from agentv import (
    EvalCase,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationRunConfig,
    EvaluatorConfig,
    EvaluatorResult,
    Message,
    ProviderResponse,
    ToolCall,
    run_evaluation,
    run_evaluators_for_case,
)
from agentv.evaluators import EVALUATORS
from agentv.loading.models.settings import criteria_named_by, read_settings
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.structs import struct_fields
from agentv.types.usage import Usage

# Each evaluator is tried alone, which this one warns of.
pytestmark = pytest.mark.filterwarnings("ignore:`semantic_similarity` as the only evaluator")

SHORT = ("plain", "empty", "emoji", "control characters", "a verdict", "a template")
MEMBERS: list[dict[str, Any]] = [
    {"name": "has-digits", "type": "regex", "pattern": r"\d"},
    {"name": "short", "type": "length", "max": 30, "weight": 2},
]
QUESTION, REFERENCE = "May I return it?", "Sure, within 30 days."


def settings_of(type_: str) -> dict[str, Any]:
    return {"evaluators": MEMBERS} if type_ == "composite" else SETTINGS[type_]


def named_by(type_: str) -> tuple[str, ...]:
    """Return the criteria named by the settings of the contract suite."""
    if type_ == "composite":
        return ()
    settings = read_settings(EVALUATORS.get(type_), SETTINGS[type_], where=type_)
    return tuple(dict.fromkeys(name for name in criteria_named_by(settings) or () if name))


def own_criterion(criteria: tuple[EvaluationCriteria, ...]) -> str | None:
    return "judged" if [each.name for each in criteria] == ["judged"] else None


def judge(candidate: str) -> Judge:
    return Judge(lambda request: f"{candidate} {signed(request, VERDICT)}")


def config_of(type_: str, *, criterion: str | None) -> EvaluatorConfig:
    settings = settings_of(type_)
    if type_ == "composite":
        members = tuple(
            EvaluatorConfig(
                each["name"],
                each["type"],
                {key: value for key, value in each.items() if key not in ("name", "type", "weight")},
                weight=each.get("weight", 1.0),
            )
            for each in MEMBERS
        )
        settings = {"evaluators": members}
    return EvaluatorConfig(type_, type_, settings, criterion=criterion)


def answer(candidate: str) -> Message:
    return Message("assistant", candidate, tool_calls=(ToolCall("lookup", {"id": 7}, "found", id="c1"),))


async def by_case(type_: str, candidate: str, criteria: tuple[EvaluationCriteria, ...]) -> EvaluatorResult:
    case = EvalCase(
        "refund-1",
        (Message("user", QUESTION),),
        expected_messages=(Message("assistant", REFERENCE),),
        criteria=criteria,
        evaluators=(config_of(type_, criterion=own_criterion(criteria)),),
    )
    response = ProviderResponse(candidate, output_messages=(answer(candidate),))
    _, (result,) = await run_evaluators_for_case(case, response, judge_provider=judge(candidate))
    return result


async def by_criteria(
    type_: str, candidate: str, criteria: tuple[EvaluationCriteria, ...]
) -> AggregatedEvaluationResult:
    config = EvaluationRunConfig(
        evaluators=[config_of(type_, criterion=own_criterion(criteria))],
        judge=judge(candidate),
    )
    given = EvaluationInput(answer(candidate), criteria, prompt=QUESTION, ground_truth=REFERENCE, session_id="refund-1")
    return await run_evaluation(given, config)


@pytest.mark.parametrize("on_a_scale", [False, True], ids=["without criteria", "on a scale"])
@pytest.mark.parametrize("candidate", SHORT)
@pytest.mark.parametrize("type_", SETTINGS)
def test_both_doors_give_the_same_score(type_: str, candidate: str, on_a_scale: bool) -> None:
    names = named_by(type_) or ("judged",)
    criteria = tuple(EvaluationCriteria(name, scale="likert5", weight=2) for name in names) if on_a_scale else ()

    async def both() -> tuple[EvaluatorResult, AggregatedEvaluationResult]:
        text = CANDIDATES[candidate]
        return await by_case(type_, text, criteria), await by_criteria(type_, text, criteria)

    one, other = asyncio.run(both())
    if one.status == "skipped":
        assert (other.scored, other.overall_score, other.run_errors) == (0, None, ())
    elif one.error is not None:
        assert {error.kind for error in other.run_errors} == {one.error.kind}
        assert other.overall_score is None or len(other.results) > 1
    else:
        assert other.overall_score == pytest.approx(one.score, abs=1e-12)
        assert other.run_errors == ()


WEIGHTS = st.sampled_from([0.0, 0.25, 1.0, 3.0, 1e-100, 1e100])


@st.composite
def weighted_suites(draw: st.DrawFn) -> tuple[list[EvaluatorConfig], tuple[EvaluationCriteria, ...]]:
    """Return evaluators that each give one result, and criteria for all of them, one for all of them, or none."""
    lengths = draw(st.lists(st.integers(0, 40), min_size=1, max_size=5))
    names = [f"at most {length} ({place})" for place, length in enumerate(lengths)]
    weights = [draw(WEIGHTS) for _ in lengths]
    kind = draw(st.sampled_from(["none", "by name", "own", "shared"]))
    scale = st.sampled_from(["binary", "pass/fail", "likert5", "numeric", "percent"])
    criteria = {
        "none": (),
        "by name": tuple(EvaluationCriteria(name, scale=draw(scale), weight=draw(WEIGHTS)) for name in names),
        "own": tuple(EvaluationCriteria(f"own {name}", scale=draw(scale), weight=draw(WEIGHTS)) for name in names),
        "shared": (EvaluationCriteria("shared", scale=draw(scale), weight=draw(WEIGHTS.filter(bool))),),
    }[kind]
    scored = {"own": [each.name for each in criteria], "shared": ["shared"] * len(names)}.get(kind, [None] * len(names))
    evaluators = [
        EvaluatorConfig(name, "length", {"max": length}, weight=weight, criterion=criterion)
        for name, length, weight, criterion in zip(names, lengths, weights, scored, strict=True)
    ]
    return evaluators, criteria


@given(weighted_suites())
def test_weights_count_alike_in_both_doors(suite: tuple[list[EvaluatorConfig], tuple[EvaluationCriteria, ...]]) -> None:
    evaluators, criteria = suite
    text = "twenty characters...."
    case = EvalCase("refund-1", (Message("user", QUESTION),), criteria=criteria, evaluators=tuple(evaluators))

    async def both() -> tuple[float, float | None]:
        score, _ = await run_evaluators_for_case(case, ProviderResponse(text), judge_provider=None)
        config = EvaluationRunConfig(evaluators=evaluators)
        return score.score, (await run_evaluation(EvaluationInput(text, criteria), config)).overall_score

    one, other = asyncio.run(both())
    assert other == pytest.approx(one, abs=1e-12)


def test_weights_of_evaluators_and_criteria_multiply_in_both_doors() -> None:
    evaluators = [
        EvaluatorConfig("long enough", "length", {"min": 1}, weight=3.0),
        EvaluatorConfig("short enough", "length", {"max": 1}, weight=1.0),
    ]
    plain = asyncio.run(run_evaluation(EvaluationInput("yes"), EvaluationRunConfig(evaluators=evaluators)))
    assert plain.overall_score == 0.75
    criteria = (EvaluationCriteria("long enough"), EvaluationCriteria("short enough", weight=3.0))
    case = EvalCase("a", (Message("user", QUESTION),), criteria=criteria, evaluators=tuple(evaluators))
    score, results = asyncio.run(run_evaluators_for_case(case, ProviderResponse("yes")))
    assert (score.score, [each.weight for each in results]) == (0.5, [3.0, 3.0])


@pytest.mark.parametrize("type_", [type_ for type_ in SETTINGS if EVALUATORS.get(type_).is_deterministic])
def test_a_deterministic_evaluator_repeats_its_result_beside_others(type_: str) -> None:
    async def several() -> list[AggregatedEvaluationResult]:
        alone = await by_criteria(type_, "Sure, 4 of 30 days.", ())
        config = EvaluationRunConfig(evaluators=[config_of(type_, criterion=None)])
        given = EvaluationInput(
            answer("Sure, 4 of 30 days."), prompt=QUESTION, ground_truth=REFERENCE, session_id="refund-1"
        )
        others = [run_evaluation(EvaluationInput(f"other {number}"), config) for number in range(5)]
        beside = await asyncio.gather(*others, run_evaluation(given, config))
        return [alone, beside[-1]]

    alone, beside = asyncio.run(several())
    assert alone.results == beside.results
    assert alone.results


@pytest.mark.parametrize("type_", SETTINGS)
def test_an_input_is_the_same_after_it_was_judged(type_: str) -> None:
    message = answer("Sure, 4.")
    given = EvaluationInput(message, (), prompt=QUESTION, ground_truth={"a": [1, {"b": None}]}, context={"k": [1]})
    before = copy.deepcopy(given)
    config = EvaluationRunConfig(evaluators=[config_of(type_, criterion=None)], judge=judge("Sure, 4."))
    result = asyncio.run(run_evaluation(given, config))
    assert given == before
    assert result.input_snapshot == before
    assert result.input_snapshot is not given


_connected: list[tuple[str, object]] = []
_watching = False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _watching and event in {"socket.connect", "socket.getaddrinfo"}:
        _connected.append((event, arguments[1] if event == "socket.connect" else arguments[0]))


sys.addaudithook(_watch)


@pytest.mark.parametrize("type_", SETTINGS)
def test_no_evaluator_reaches_for_the_network_by_itself(type_: str) -> None:
    global _watching  # noqa: PLW0603 - an audit hook stays for good, so that it must know when it is meant
    _connected.clear()
    _watching = True
    try:
        asyncio.run(by_criteria(type_, "Sure, 4.", ()))
    finally:
        _watching = False
    assert _connected == []


def test_the_watch_sees_a_connection() -> None:
    global _watching  # noqa: PLW0603 - as above
    import socket  # noqa: PLC0415 - only this control needs one

    _connected.clear()
    _watching = True
    try:
        with socket.socket() as probe:
            probe.connect_ex(("127.0.0.1", 9))
    finally:
        _watching = False
    assert _connected == [("socket.connect", ("127.0.0.1", 9))]


def test_every_field_of_an_input_reaches_the_evaluators() -> None:
    seen: list[Any] = []

    class Looks:
        kind = "looks"

        def evaluate(self, context: Any) -> float:
            seen.append(context.to_input())
            return 1.0

    given = EvaluationInput(
        answer("Sure."),
        (EvaluationCriteria("looks"),),
        prompt=QUESTION,
        context={"a": 1},
        ground_truth=["x"],
        agent_config={"model": "m"},
        message_history=(Message("user", QUESTION),),
        timestamp=1_700_000_000_000,  # milliseconds are taken, too
        session_id="s",
        agent_id="a",
        metadata={"m": 1},
        duration_ms=12.5,
        usage=Usage(input=3),
        cost_usd=0.5,
        tags=("shop",),
    )
    asyncio.run(run_evaluation(given, EvaluationRunConfig(evaluators=[Looks()])))
    (shown,) = seen
    for item in struct_fields(EvaluationInput):
        assert getattr(shown, item.name) == getattr(given, item.name), item.name
