"""Evaluation of a given answer by named criteria."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.criteria.giving import Giving
from tests.support.judging import Judge, signed

from agentv import (
    AggregatedEvaluationResult,
    ConfigError,
    EvalFileError,
    EvaluationContext,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationResult,
    EvaluationRunConfig,
    EvaluationRunner,
    EvaluatorConfig,
    JsonFileStorageProvider,
    Message,
    TargetConfig,
    ToolCall,
    evaluator,
    run_evaluation,
    run_evaluation_sync,
)

POLITE = EvaluationCriteria("polite", "Asks nicely")
SHORT = EvaluationCriteria("short", "Says it in few words", scale="likert5", weight=3)
PLEASE = {"type": "contains", "value": "please", "criterion": "polite"}
FEW_WORDS = {"type": "length", "max": 3, "unit": "words", "criterion": "short"}


def judged(
    response: str | Message,
    evaluators: Sequence[Any],
    criteria: Sequence[EvaluationCriteria] = (POLITE,),
    **fields: Any,
) -> AggregatedEvaluationResult:
    options = {name: fields.pop(name) for name in list(fields) if name in EvaluationRunConfig.__struct_fields__}
    given = EvaluationInput(response, tuple(criteria), **fields)
    return run_evaluation_sync(given, EvaluationRunConfig(evaluators=evaluators, **options))


def test_each_criterion_is_scored_on_its_scale_and_weighs_as_it_says() -> None:
    result = judged("Wait here a moment, please.", [PLEASE, FEW_WORDS], [POLITE, SHORT])
    assert [(each.criterion_name, each.score, each.value) for each in result.results] == [
        ("polite", True, 1.0),
        ("short", 1.0, 0.0),
    ]
    assert result.overall_score == pytest.approx(1 / 4)
    assert (result.scored, result.expected, result.run_errors) == (2, 2, ())


def test_a_result_says_why() -> None:
    result = judged("No.", [PLEASE])
    assert result.result("polite").reasoning == 'expected "please", got "No."'


def test_dicts_configs_objects_and_functions_judge_side_by_side() -> None:
    @evaluator("brief")
    def brief(context: EvaluationContext) -> float:
        """Few characters."""
        return float(len(context.candidate) < 10)

    def loud(context: EvaluationContext) -> bool:
        return context.candidate.isupper()

    class Kind:
        kind = "kind"
        criterion = "kind"

        def evaluate(self, context: EvaluationContext) -> float:
            return float("please" in context.candidate)

    class Own:
        type = "Own"

        async def evaluate(
            self, given: EvaluationInput, criteria: Sequence[EvaluationCriteria]
        ) -> list[EvaluationResult]:
            names = [criterion.name for criterion in criteria]
            return [EvaluationResult("own", score="4/5", metadata={"saw": given.text, "criteria": names})]

    config = EvaluatorConfig("ends", "ends_with", {"value": "."}, criterion="ends")
    criteria = [EvaluationCriteria(name) for name in ("polite", "brief", "loud", "kind", "ends")]
    criteria.append(EvaluationCriteria("own", scale="likert5"))
    result = judged("please", [PLEASE, brief, loud, Kind(), config, Own()], criteria)
    assert {each.criterion_name: each.value for each in result.results} == {
        "polite": 1.0,
        "brief": 1.0,
        "loud": 0.0,
        "kind": 1.0,
        "ends": 0.0,
        "own": 0.75,
    }
    assert result.result("own").metadata == {"saw": "please", "criteria": [each.name for each in criteria]}


def test_what_the_prd_writes_is_read_as_it_stands() -> None:
    config = EvaluationRunConfig.from_dict(
        {
            "evaluatorConfigs": [{"type": "contains", "config": {"criterionName": "polite", "value": "please"}}],
            "errorPolicy": "zero",
            "metadata": {"build": 7},
        }
    )
    given = EvaluationInput.from_dict(
        {
            "response": {
                "role": "assistant",
                "contentParts": [{"type": "text", "text": "Wait, "}, {"text": "please."}],
            },
            "criteria": [{"name": "polite", "description": "Asks nicely", "scale": "pass/fail", "weight": 2}],
            "groundTruth": "x",
            "sessionId": "s-1",
            "agentId": "a-1",
            "timestamp": 1_700_000_000_000,
            "messageHistory": [{"role": "user", "content": "Go on"}],
        }
    )
    result = run_evaluation_sync(given, config)
    assert (result.overall_score, result.result("polite").score) == (1.0, "pass")
    assert (result.session_id, result.agent_id, result.metadata) == ("s-1", "a-1", {"build": 7})
    assert given.text == "Wait, please."


def test_a_judgement_survives_the_way_to_json_and_back(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "judged.jsonl"
    config = EvaluationRunConfig(evaluators=[PLEASE], storage=JsonFileStorageProvider(path))
    given = EvaluationInput("please", (POLITE,), prompt="ask", context={"a": [1]}, metadata={"k": None})
    result = run_evaluation_sync(given, config)
    run_evaluation_sync(given, config)
    lines = path.read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    assert len(lines) == 2
    assert first["overallScore"] == 1.0
    assert first["timestamp"] == round(result.timestamp.timestamp() * 1000)
    read = AggregatedEvaluationResult.from_dict(first)
    assert read.to_dict() == first
    assert read.input_snapshot.prompt == "ask"


def test_the_snapshot_does_not_change_with_the_objects_it_was_made_of() -> None:
    context: dict[str, Any] = {"steps": [1, 2]}
    result = judged("please", [PLEASE], context=context)
    context["steps"].append(3)
    assert result.input_snapshot.context == {"steps": [1, 2]}


def test_the_configuration_in_a_judgement_runs_it_again() -> None:
    result = judged("Wait here a moment, please.", [PLEASE, {**FEW_WORDS, "negate": True}], [POLITE, SHORT])
    kept = json.loads(json.dumps(result.to_dict()))
    again = EvaluationRunConfig.from_dict(kept["evaluationConfigSnapshot"]["config"])
    given = EvaluationInput.from_dict(kept["inputSnapshot"])
    assert run_evaluation_sync(given, again).results == result.results


def test_secret_in_a_configuration_is_redacted_in_the_snapshot() -> None:
    class Judging:
        kind = "mine"
        api_key = "sk-very-secret-value"

        def evaluate(self, context: EvaluationContext) -> float:  # noqa: ARG002 - it never looks
            return 1.0

    config = EvaluatorConfig(
        "x", "code_judge", {"script": "echo '{\"score\": 1}'", "config": {"api_key": "sk-very-secret-value"}}
    )
    result = judged("please", [config, Judging()], [EvaluationCriteria("x"), EvaluationCriteria("mine")])
    assert "sk-very-secret-value" not in json.dumps(result.to_dict())
    assert result.overall_score == 1.0


def test_evaluator_that_raises_affects_only_its_own_criterion() -> None:
    def polite(_context: EvaluationContext) -> float:
        raise RuntimeError("out of order")

    evaluators = [polite, FEW_WORDS]
    result = judged("Go.", evaluators, [POLITE, SHORT])
    assert (result.overall_score, result.scored, result.expected) == (1.0, 1, 2)
    (error,) = result.run_errors
    assert (error.evaluator, error.criterion, error.kind) == ("polite", "polite", "evaluator_error")
    assert "out of order" in error.message
    assert judged("Go.", evaluators, [POLITE, SHORT], error_policy="zero").overall_score == pytest.approx(3 / 4)


def test_an_error_is_an_error_on_every_scale() -> None:
    result = judged("Go.", [{**FEW_WORDS, "source": "context.nowhere"}], [SHORT])
    (only,) = result.results
    assert (only.score, only.value) == (None, None)
    assert "finds nothing" in str(only.error)
    assert result.overall_score is None


@pytest.mark.parametrize(
    ("text", "changes", "verdict"),
    [
        ("please", {}, "pass"),
        ("please, a moment of patience", {}, "fail"),
        ("please, a moment of patience", {"weight": 1 / 3}, "borderline"),
        ("please, a moment of patience", {"weight": 0.1}, "pass"),
        ("please, a moment of patience", {"weight": 0.1, "required": True}, "fail"),
        ("please", {"source": "context.nowhere"}, None),
        ("please", {"source": "context.nowhere", "weight": 0}, "pass"),
        ("please", {"source": "context.nowhere", "weight": 0, "required": True}, None),
    ],
)
def test_verdict_is_that_of_a_case_and_none_if_a_weighted_judge_fails(
    text: str, changes: dict[str, Any], verdict: str | None
) -> None:
    few = {"type": "length", "max": 3, "unit": "words", "criterion": "polite", **changes}
    result = judged(text, [{"name": "asks", **PLEASE, "weight": 0.5}, few])
    assert result.verdict == verdict
    assert result.to_dict().get("verdict") == verdict
    assert judged(text, [{"name": "asks", **PLEASE, "weight": 0.5}, few], error_policy="zero").verdict == verdict


@pytest.mark.parametrize(
    ("score", "value"),
    [(0, 0.0), (1, 1.0), (2, 0.02), (85, 0.85), (100, 1.0), (-1, None), (101, None), ("85%", 0.85), (True, 1.0)],
)
def test_numeric_scores_are_placed_or_are_errors(score: Any, value: float | None) -> None:
    result = judged("x", [Giving(EvaluationResult("amount", score))], [EvaluationCriteria("amount", scale="numeric")])
    assert result.overall_score == (None if value is None else pytest.approx(value))
    assert len(result.run_errors) == (value is None)


def test_scores_on_both_sides_of_one_are_warned_about() -> None:
    amount = EvaluationCriteria("amount", scale="numeric")
    assert (
        "both sides of 1"
        in judged("x", [Giving(EvaluationResult("amount", 0.9), EvaluationResult("amount", 85))], [amount]).warnings[0]
    )
    assert (
        judged(
            "x",
            [Giving(EvaluationResult("amount", 0.9), EvaluationResult("amount", 85))],
            [EvaluationCriteria("amount", scale="numeric", max=100)],
        ).warnings
        == ()
    )


def test_a_text_scale_of_ones_own_is_kept_and_not_averaged() -> None:
    result = judged(
        "please",
        [Giving(EvaluationResult("tone", "brisk", scale="tone")), PLEASE],
        [EvaluationCriteria("tone", scale="tone"), POLITE],
    )
    assert (result.result("tone").score, result.result("tone").value) == ("brisk", None)
    assert (result.overall_score, result.scored, result.expected, result.run_errors) == (1.0, 1, 2, ())


def test_ordered_labels_are_spread_evenly() -> None:
    tone = EvaluationCriteria.from_dict({"name": "tone", "scale": ["rude", "cool", "warm"]})

    assert judged("x", [Giving(EvaluationResult("tone", "Cool"))], [tone]).overall_score == 0.5
    assert judged("x", [{"type": "contains", "value": "x", "criterion": "tone"}], [tone]).results[0].score == "warm"


def test_all_problems_are_reported_at_once_before_anything_runs() -> None:
    with pytest.raises(EvalFileError) as caught:
        judged(
            "x",
            [
                {"type": "contians", "value": "x"},
                {"type": "regex", "pattern": "(", "criterion": "polite"},
                {"type": "length", "min": 3, "max": 1, "criterion": "polite"},
                {"type": "contains", "criterion": "polite"},
                {"name": "twice", "type": "contains", "value": "x", "criterion": "polte"},
                {"name": "twice", "type": "equals", "value": "x", "criterion": "polite"},
                {"type": "llm_judge", "criterion": "polite"},
                42,
            ],
            [POLITE, EvaluationCriteria("odd", weight=-1)],
        )
    said = str(caught.value)
    for part in (
        "$.evaluators[0].type  unknown evaluator type 'contians'",
        '$.evaluators[1].pattern  `pattern` "(" is not a valid regular expression',
        "$.evaluators[2].min  `min` 3 is larger than `max` 1",
        "$.evaluators[3]  the key 'value' is missing",
        "$.evaluators[4]  evaluator 'twice' scores 'polte', which is not a criterion",
        "$.evaluators[5]  a second evaluator named 'twice'",
        "evaluator 'polite-4' needs a judge",
        "$.evaluators[7]  int is not an evaluator",
        "$.criteria[1].weight  `weight` must be a finite number",
    ):
        assert part in said, f"{part!r} is not in\n{said}"


def test_criterion_without_evaluator_is_listed_without_a_score_and_warned_of() -> None:
    result = judged("please", [PLEASE], [POLITE, SHORT])
    assert [(each.criterion_name, each.value, each.passed) for each in result.results] == [
        ("polite", 1.0, True),
        ("short", None, None),
    ]
    assert result.result("short").reasoning == "no evaluator scores this criterion"
    assert (result.scored, result.expected, result.overall_score, result.verdict) == (1, 2, 1.0, "pass")
    assert result.warnings == ("no evaluator scores the criterion 'short'",)
    assert result.run_errors == ()
    assert "(1 of 2 scored)" in str(result)
    assert "no evaluator scores this criterion" in str(result)


def test_criterion_of_an_evaluator_that_is_not_selected_is_no_warning() -> None:
    assert judged("please", [PLEASE, FEW_WORDS], [POLITE, SHORT], only=["polite"]).warnings == ()


def test_an_evaluator_that_names_none_of_several_criteria_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"does not name the criterion it scores; write .* known: polite, short"):
        judged("x", [PLEASE, FEW_WORDS, {"type": "equals", "value": "x"}], [POLITE, SHORT])


def test_only_criterion_is_scored_by_evaluators_that_name_none() -> None:
    assert judged("please", [{"type": "contains", "value": "please"}]).results[0].criterion_name == "polite"


def test_without_criteria_each_evaluator_stands_for_its_own() -> None:
    result = judged("please", [{"type": "contains", "value": "please"}, {"type": "equals", "value": "no"}], [])
    assert [(each.criterion_name, each.value) for each in result.results] == [("contains", 1.0), ("equals", 0.0)]
    assert result.overall_score == 0.5


@pytest.mark.parametrize("weight", [float("inf"), float("nan"), -1.0])
def test_a_criterion_whose_weight_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="weight"):
        judged("x", [PLEASE], [EvaluationCriteria("polite", weight=weight)])


def test_criterion_of_weight_zero_is_listed_and_counts_for_nothing() -> None:
    none = EvaluationCriteria("polite", weight=0)
    assert judged("Go.", [PLEASE, FEW_WORDS], [none, SHORT]).overall_score == 1.0


def test_selection_leaves_out_what_costs_money_or_was_not_named() -> None:
    judge = Judge(lambda request: signed(request, '"score": 0.0'))
    judge_config = {"type": "llm_judge", "criterion": "short"}
    free = judged("please", [PLEASE, judge_config], [POLITE, SHORT], judge=judge, only="free")
    assert ([each.criterion_name for each in free.results], free.overall_score, judge.requests) == (["polite"], 1.0, [])
    named = judged("please", [PLEASE, FEW_WORDS], [POLITE, SHORT], only=["length"])
    assert [each.criterion_name for each in named.results] == ["short"]


def test_a_judge_scores_only_the_criteria_it_names() -> None:
    judge = Judge(lambda request: signed(request, '"criteria": [{"name": "polite", "score": 1}]'))
    result = judged("x", [{"type": "llm_judge", "criteria": ["polite"]}, FEW_WORDS], [POLITE, SHORT], judge=judge)
    assert [(each.criterion_name, each.error) for each in result.results] == [("polite", None), ("short", None)]


def test_a_judge_is_a_provider_and_each_evaluator_may_have_its_own() -> None:
    kind, strict = Judge(lambda r: signed(r, '"score": 1.0')), Judge(lambda r: signed(r, '"score": 2'))
    evaluators = [
        {"type": "llm_judge", "criterion": "polite"},
        {"type": "llm_judge", "config": {"criterionName": "short", "llm": strict}},
    ]
    result = judged("please", evaluators, [POLITE, SHORT], judge=kind)
    assert {each.criterion_name: each.value for each in result.results} == {"polite": 1.0, "short": 0.25}
    assert result.result("short").score == 2.0


def test_evaluators_judge_at_once_as_far_as_the_configuration_lets_them() -> None:
    async def max_concurrency(concurrency: int) -> int:
        running, most = 0, 0

        class Waiting:
            kind = "waiting"

            def __init__(self, name: str) -> None:
                self.name = name

            async def evaluate(self, context: EvaluationContext) -> float:  # noqa: ARG002 - it never looks
                nonlocal running, most
                running += 1
                most = max(most, running)
                for _ in range(20):
                    await asyncio.sleep(0)
                running -= 1
                return 1.0

        evaluators = [Waiting(f"w{number}") for number in range(6)]
        config = EvaluationRunConfig(evaluators=evaluators, evaluator_concurrency=concurrency)
        result = await run_evaluation(EvaluationInput("x"), config)
        assert [each.criterion_name for each in result.results] == [f"w{number}" for number in range(6)]
        return most

    assert asyncio.run(max_concurrency(1)) == 1
    assert asyncio.run(max_concurrency(4)) == 4


def test_a_store_that_fails_costs_neither_the_result_nor_the_other_stores(tmp_path: Path) -> None:
    class Broken:
        def save_result(self, result: AggregatedEvaluationResult) -> None:  # noqa: ARG002 - it never looks
            raise OSError("no space left")

    result = judged("please", [PLEASE], storage=Broken())
    assert (result.overall_score, result.run_errors[0].kind) == (1.0, "store_error")
    folder = tmp_path / "file"
    folder.write_text("in the way")
    result = judged("please", [PLEASE], storage={"type": "json_file", "path": str(folder / "x.jsonl")})
    assert "cannot write" in result.run_errors[0].message


def test_tool_calls_of_a_recorded_conversation_are_seen() -> None:
    history = (
        Message("user", "Where is order 7?"),
        Message("assistant", tool_calls=(ToolCall("lookup", {"id": 7}, "in transit", id="c1"),)),
    )
    wants = {"type": "tool_trajectory", "mode": "any_order", "minimums": {"lookup": 1}, "criterion": "polite"}
    assert judged("It is on its way, please wait.", [wants], message_history=history).overall_score == 1.0
    assert judged("It is on its way, please wait.", [wants], message_history=history[:1]).overall_score == 0.0


def test_an_open_runner_judges_many_answers() -> None:
    async def work() -> list[float | None]:
        async with EvaluationRunner(EvaluationRunConfig(evaluators=[PLEASE])) as runner:
            inputs = [EvaluationInput(text, (POLITE,)) for text in ("please", "no", "please do")]
            return [(await runner.run(given)).overall_score for given in inputs]

    assert asyncio.run(work()) == [1.0, 0.0, 1.0]


def test_criteria_of_the_configuration_hold_for_inputs_that_bring_none() -> None:
    config = EvaluationRunConfig(evaluators=[FEW_WORDS], criteria=[SHORT])
    assert run_evaluation_sync(EvaluationInput("please"), config).results[0].score == 5.0


def test_an_unknown_key_of_an_input_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(EvalFileError) as caught:
        EvaluationInput.from_dict({"response": 3, "groundtruth": "x", "criteria": [{"nmae": "a"}], "timestamp": "soon"})
    said = str(caught.value)
    assert "$.response  must be a string or a message, got int" in said
    assert "unknown key 'groundtruth'" in said
    assert "did you mean 'ground_truth'?" in said
    assert "$.criteria[0]  the key 'name' is missing" in said
    assert "$.timestamp" in said


def test_judge_given_as_a_target_is_in_the_snapshot_with_redacted_key() -> None:
    reply = '{"score": 3}'
    own = TargetConfig("own", "mock", {"response": reply})
    evaluators = [
        {"type": "llm_judge", "criterion": "polite"},
        {"type": "llm_judge", "criterion": "short", "judge": own},
    ]
    judge = TargetConfig(
        "j", "openai", {"model": "m", "api_key": "sk-quite-secret-value", "base_url": "http://localhost:1"}
    )
    result = judged("x", evaluators, [POLITE, SHORT], judge=judge, only=["short"])
    assert result.result("short").value == 0.5
    snapshot = result.evaluation_config_snapshot["config"]
    assert "sk-quite-secret-value" not in json.dumps(snapshot)
    again = EvaluationRunConfig.from_dict(json.loads(json.dumps(snapshot)))
    assert run_evaluation_sync(result.input_snapshot, again).result("short").value == 0.5


def test_a_runner_takes_dicts_as_run_evaluation_does() -> None:
    runner = EvaluationRunner({"evaluators": [PLEASE]})
    assert asyncio.run(runner.run({"response": "Wait, please."})).overall_score == 1.0
    with pytest.raises(ConfigError, match="`input` must be an EvaluationInput or a dict with its keys, not 'please'"):
        asyncio.run(runner.run("please"))  # type: ignore[arg-type] # what a user may write
    with pytest.raises(ConfigError, match="`config` must be an EvaluationRunConfig or a dict with its keys, not 7"):
        EvaluationRunner(7)  # type: ignore[arg-type] # as above


@pytest.mark.parametrize("returned", [{"text": "4"}, "4", None, 7], ids=repr)
def test_a_judge_that_returns_no_response_is_an_error(returned: object) -> None:
    class Odd:
        kind = "odd"

        async def invoke(self, _request: object) -> object:
            return returned

    result = judged("please", [{"type": "llm_judge", "name": "polite"}], judge=Odd())
    (error,) = result.run_errors
    name = type(returned).__name__
    assert f"the provider returned a value of type {name}; it must return a ProviderResponse" in error.message


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_beyond_the_years_of_utc_is_refused(moment: str) -> None:
    with pytest.raises(EvalFileError, match="timestamp"):
        judged("please", [PLEASE], timestamp=moment)


def test_a_long_key_does_not_fill_the_message() -> None:
    with pytest.raises(EvalFileError, match="its keys: 'kkkk") as caught:
        judged({"k" * 10**6: 1}, [PLEASE])  # type: ignore[arg-type] # what a user may write
    assert len(str(caught.value)) < 1_000
