"""Plain Python in: dicts wherever a value class is taken, camelCase keywords, and the natural order."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from agentv import (
    AgentvError,
    CodeEvaluator,
    CompositeEvaluator,
    ConfigError,
    EvalCase,
    EvalFileError,
    EvalSuite,
    EvaluationContext,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationRunConfig,
    EvaluationScore,
    EvaluatorConfig,
    LlmJudgeEvaluator,
    Message,
    ProviderResponse,
    ToolTrajectoryEvaluator,
    TraceEvent,
    evaluate,
    make_context,
    run_evaluation_sync,
    run_evaluators_for_case,
    summarize_trace,
)
from agentv.evaluators.judges.code_judge import CodeEvaluatorKeywords, CodeEvaluatorOptions
from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluatorOptions, LlmJudgeKeywords
from agentv.evaluators.tools.tool_trajectory import ToolTrajectoryKeywords, ToolTrajectorySettings
from agentv.types.cases import CaseKeywords, RubricItem, listed_cases
from agentv.types.evaluation_input import InputKeywords

POLITE = EvaluationCriteria("polite")
CALL = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"id": 7}'}}


def test_input_and_configuration_may_be_dicts() -> None:
    result = run_evaluation_sync({"response": "Paris"}, {"evaluators": [{"type": "contains", "value": "Paris"}]})
    assert result.overall_score == 1.0
    with pytest.raises(EvalFileError, match=r"\$\.respons  unknown key 'respons'.*did you mean 'response'"):
        run_evaluation_sync({"respons": "Paris"}, {"evaluators": [{"type": "contains", "value": "Paris"}]})
    with pytest.raises(ConfigError, match="`input` must be an EvaluationInput or a dict with its keys, not 'Paris'"):
        run_evaluation_sync("Paris", {"evaluators": []})  # type: ignore[arg-type]


def test_a_wrong_evaluator_is_refused_with_its_place() -> None:
    entry = {"type": "contains", "valu": "Paris"}
    case = EvalCase("a", "q")
    for wrong in (
        lambda: run_evaluation_sync({"response": "x"}, {"evaluators": [entry]}),
        lambda: evaluate([case], task=lambda _request: "x", evaluators=[entry]),
    ):
        with pytest.raises(EvalFileError, match=r"\$\.evaluators\[0\]\.valu  unknown key 'valu'.*did you mean 'value'"):
            wrong()
    with pytest.raises(ConfigError, match="evaluators= takes a list; got dict"):
        evaluate([case], task=lambda _request: "x", evaluators=entry)  # type: ignore[arg-type]


def test_a_case_takes_dicts_of_messages_evaluators_rubrics_and_criteria() -> None:
    given: dict[str, Any] = {
        "input_messages": [{"role": "user", "content": "q"}],
        "expected_messages": [{"role": "assistant", "tool_calls": [CALL]}],
        "rubrics": ["Names it", {"id": "short", "description": "Is short", "weight": 2}],
        "criteria": [{"name": "polite", "scale": "likert5"}],
    }
    case = EvalCase("a", **given)
    assert case.input_messages == (Message("user", "q"),)
    assert case.expected_messages[0].tool_calls[0].tool == "lookup"
    assert case.rubrics == (RubricItem("rubric-1", "Names it"), RubricItem("short", "Is short", weight=2))
    assert case.criteria == (EvaluationCriteria("polite", scale="likert5"),)
    tuples: dict[str, Any] = {name: tuple(value) for name, value in given.items()}
    assert EvalCase("a", **tuples) == case


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_messages": [{"role": "usr", "content": "q"}]}, r"input_messages\[0\] has the unknown role 'usr'"),
        ({"input_messages": ["q"]}, r"input_messages\[0\] is not a message, but a text"),
        ({"rubrics": ["a", {"id": "b", "description": "c", "weigth": 1}]}, r"\$\.rubrics\[1\]\.weigth  unknown key"),
        (
            {"rubrics": [{"id": "b", "description": "c", "scale": "likert"}]},
            "'likert' is not allowed here; allowed: likert5, points10",
        ),
        ({"criteria": [{"nam": "polite"}]}, r"the key 'name' is missing"),
    ],
)
def test_a_wrong_value_of_a_case_is_refused_with_its_place(given: dict[str, Any], message: str) -> None:
    with pytest.raises(AgentvError, match=message):
        EvalCase("a", **{"input_messages": "q", **given})


def test_a_case_with_dicts_is_run_and_scored() -> None:
    case = EvalCase(
        "a",
        [{"role": "user", "content": "q"}],
        evaluators=[{"name": "e", "type": "contains", "value": "x"}],
    )
    report = evaluate([case], task=lambda _request: "x")
    assert report.results[0].score == 1.0
    score, _ = asyncio.run(run_evaluators_for_case(case, "y"))
    assert score.score == 0.0


def test_cases_and_answers_may_be_dicts() -> None:
    case: dict[str, Any] = {"id": "a", "inputMessages": "q", "evaluators": [{"type": "contains", "value": "x"}]}
    assert evaluate([case], task=lambda _request: "x").passed is True
    score, _ = asyncio.run(run_evaluators_for_case(case, {"role": "assistant", "content": "x"}))
    assert score.score == 1.0
    verdict = {"score": 0.7, "hits": [], "misses": [], "reasoning": "ok"}
    judged: dict[str, Any] = {"id": "a", "input_messages": "q", "expected_outcome": "x"}
    score, _ = asyncio.run(run_evaluators_for_case(judged, "x", judge_provider=lambda _request: verdict))
    assert score.score == 0.7
    for wrong, message in (
        ([case, {"id": "b", "inptu": "q"}], r"cases\[1\]: Unexpected keyword argument 'inptu'"),
        ([case, "b"], r"cases\[1\] must be an EvalCase or a dict of its fields, not a str"),
        (case, r"evaluate\(\) takes a path, an EvalSuite, an iterable of cases or rows, or a DataFrame; got dict"),
    ):
        given: Any = wrong
        with pytest.raises(ConfigError, match=message):
            evaluate(given, task=lambda _request: "x")


def test_an_aggregator_is_named_or_described_as_in_a_file() -> None:
    members = [ToolTrajectoryEvaluator(forbidden=("delete",))]
    assert CompositeEvaluator(members, "min").aggregator == CompositeEvaluator(members, {"type": "min"}).aggregator
    assert CompositeEvaluator(members, {"type": "threshold", "atLeast": 1}).aggregator.type == "threshold"
    for wrong, message in (
        ("minimum", "unknown aggregator 'minimum'"),
        ({"type": "threshold"}, "aggregator 'threshold': Missing required argument 'at_least'"),
        ({"type": "threshold", "at_least": 0}, "`at_least` must be at least 1"),
        ({"type": "threshold", "at_least": "1"}, "aggregator 'threshold': `at_least`: Expected `int`, got `str`"),
        ({"type": "weighted_average", "weights": 5}, "aggregator 'weighted_average': `weights`: Expected `object`"),
        ({"type": "weighted_average", "weights": {"a": "b"}}, "`weights`: Expected `float`, got `str`"),
        ({"typ": "min"}, r"an aggregator needs a `type`, one of all, .*; its keys: 'typ'"),
        ({"type": ["min"]}, r"the type of an aggregator must be a string, not \['min'\]"),
        (5, "an aggregator must be a type name, a dict or an object, not a int"),
        (["min"], "an aggregator must be a type name, a dict or an object, not a list"),
    ):
        given: Any = wrong
        with pytest.raises(ConfigError, match=message):
            CompositeEvaluator(members, given)


def test_prompt_and_criteria_come_in_either_order_and_never_swap() -> None:
    natural = EvaluationInput("Paris", "Capital?", [POLITE])
    assert (natural.prompt, natural.criteria) == ("Capital?", (POLITE,))
    assert EvaluationInput("Paris", (POLITE,), "Capital?") == natural
    assert EvaluationInput("Paris", (POLITE,), prompt="Capital?") == natural
    assert EvaluationInput("Paris", (), "Capital?") == EvaluationInput("Paris", "Capital?")
    assert EvaluationInput("Paris", [{"name": "polite"}]).criteria == (POLITE,)
    wrong: Any = {"document": 1}
    with pytest.raises(EvalFileError, match=r"\$\.prompt  must be a string, got dict"):
        EvaluationInput("Paris", wrong)
    with pytest.raises(EvalFileError, match=r"\$\.criteria  must be a list, got dict"):
        EvaluationInput("Paris", "Capital?", wrong)


def test_messages_of_an_input_may_be_dicts() -> None:
    given = EvaluationInput(
        {"role": "assistant", "tool_calls": [CALL]}, message_history=[{"role": "user", "content": "q"}]
    )
    assert isinstance(given.response, Message)
    assert given.response.tool_calls[0].tool == "lookup"
    assert given.message_history == (Message("user", "q"),)


def test_keywords_may_be_in_camel_case() -> None:
    camel: dict[str, Any] = {"groundTruth": "Paris", "sessionId": "s"}
    assert EvaluationInput("x", **camel) == EvaluationInput("x", ground_truth="Paris", session_id="s")
    case: dict[str, Any] = {"inputMessages": "q", "expectedOutcome": "o"}
    assert EvalCase(id="a", **case) == EvalCase("a", "q", "o")
    score: dict[str, Any] = {"expectedAspectCount": 3}
    assert EvaluationScore(1.0, **score).expected_aspect_count == 3
    with pytest.raises(TypeError, match="Unexpected keyword argument 'inputMesages'"):
        EvalCase(id="a", inputMesages="q")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'expected_outcome' is given twice"):
        EvalCase("a", "q", expected_outcome="x", expectedOutcome="o")  # type: ignore[call-arg]


def test_a_trace_of_plain_json_is_counted_and_never_silently_zero() -> None:
    assert summarize_trace([{"type": "tool_call", "name": "lookup"}]).event_count == 1
    said: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
    assert summarize_trace([said]).tool_names == ("lookup",)
    assert summarize_trace([{"type": "function_call", "name": "lookup", "arguments": "{}"}]).tool_names == ("lookup",)
    for wrong, message in (
        ([{"typ": "tool_call"}], r"trace\[0\] has no role; its keys: 'typ'; a trace event has one of the types"),
        (["lookup"], r"trace\[0\] is not a message, but a text"),
        ({"type": "error"}, "trace must be a list of trace events or messages; got dict"),
        (None, "trace must be a list of trace events or messages; got NoneType"),
        (5, "trace must be a list of trace events or messages; got int"),
    ):
        with pytest.raises(AgentvError, match=message):
            summarize_trace(wrong)  # type: ignore[arg-type]


def test_evaluator_classes_take_dicts_and_camel_case() -> None:
    judge = LlmJudgeEvaluator({"temperature": 0.5, "maxOutputTokens": 10})
    assert (judge.options.temperature, judge.options.max_output_tokens) == (0.5, 10)
    items = LlmJudgeEvaluator(rubrics=[{"id": "a", "description": "b"}])
    assert items.kind == "llm_judge"
    with pytest.raises(ConfigError, match=r"unknown option 'temprature'.*Did you mean 'temperature'"):
        LlmJudgeEvaluator({"temprature": 0.5})


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (LlmJudgeEvaluator, {"samples": 0}, "`samples` must be at least 1"),
        (LlmJudgeEvaluator, {"samples": "3"}, "`samples`: Expected `int`, got `str`"),
        (LlmJudgeEvaluator, {"samples": True}, "`samples`: Expected `int`, got `bool`"),
        (LlmJudgeEvaluator, {"temperature": -1}, "`temperature` must be at least 0"),
        (LlmJudgeEvaluator, {"vote": "nope"}, "unknown vote 'nope'; known: .*median"),
        (LlmJudgeEvaluator, {"prompt": 5}, "`prompt`: Expected `str`, got `int`"),
        (LlmJudgeEvaluator, {"judges": ("gpt",)}, "`judges`: Expected `Provider`, got `str`"),
        (LlmJudgeEvaluator, {"resolve_judge_provider": "gpt"}, "`resolve_judge_provider`: Expected `Callable`"),
        (LlmJudgeEvaluator, {"criteria": "tone"}, "`criteria`: Expected `array`, got `str`"),
        (LlmJudgeEvaluator, {"rubrics": 5}, "`rubrics`: Expected `array`, got `int`"),
        (LlmJudgeEvaluator, LlmJudgeEvaluatorOptions(vote=cast(Any, "nope")), "unknown vote 'nope'"),
        (CodeEvaluator, {"script": 5}, "`script`: Expected `str`, got `int`; Expected `array`, got `int`"),
        (CodeEvaluator, {"script": ["a", 5]}, "`script`: .*Expected `str`, got `int`"),
        (CodeEvaluator, {"script": "a", "agentTimeoutMs": "5"}, "`agent_timeout_ms`: Expected `float`, got `str`"),
        (ToolTrajectoryEvaluator, {"mode": "nope", "forbidden": ["a"]}, "unknown mode 'nope'; known: .*in_order"),
        (ToolTrajectoryEvaluator, {"forbidden": "delete"}, "`forbidden`: Expected `array`, got `str`"),
        (ToolTrajectoryEvaluator, {"minimums": {"a": 1.5}}, "`minimums`: Expected `int`, got `float`"),
        (ToolTrajectoryEvaluator, {"forbidden": ["a"], "withoutMessages": "nope"}, "unknown without_messages 'nope'"),
        (ToolTrajectoryEvaluator, {"expected": [{"tol": "x"}]}, "unknown option 'tol'.*Did you mean 'tool'"),
        (ToolTrajectoryEvaluator, {"expected": ["x"]}, r"expected\[0\] must be an ExpectedCall or a dict .*, not 'x'"),
        (ToolTrajectoryEvaluator, {"expected": [{"input": {}}]}, r"expected\[0\]: Missing required argument 'tool'"),
        (ToolTrajectoryEvaluator, {"expected": [{"tool": 5}]}, "`tool`: Expected `str`, got `int`"),
    ],
)
def test_options_of_a_wrong_type_are_refused(make: Callable[[Any], object], given: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(given)


def test_options_may_be_paths_lists_and_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "judge.md").write_text("Judge {{ candidate_answer }}")
    judge = LlmJudgeEvaluator(prompt=cast(Any, Path("judge.md")), base_dir=cast(Any, tmp_path), temperature=0)
    assert (judge.options.prompt, judge.options.temperature) == ("judge.md", 0.0)
    assert CodeEvaluator(script=["a", "b"], cwd=cast(Any, tmp_path)).options.cwd == str(tmp_path)
    assert CodeEvaluator({"script": "a", "agentTimeoutMs": 30}).options.agent_timeout_ms == 30.0


def test_typed_keywords_are_the_fields_of_their_options() -> None:
    pairs = (
        (LlmJudgeKeywords, LlmJudgeEvaluatorOptions),
        (CodeEvaluatorKeywords, CodeEvaluatorOptions),
        (ToolTrajectoryKeywords, ToolTrajectorySettings),
    )
    for keywords, options in pairs:
        assert tuple(keywords.__annotations__) == options.__struct_fields__
    more = {"response", "prompt", "criteria", *InputKeywords.__annotations__}
    assert more == set(EvaluationInput.__struct_fields__)
    first = {"id", "input_messages", "expected_outcome", "expected_messages"}
    short = {"input", "expected"}
    assert {*first, *CaseKeywords.__annotations__} - short == set(EvalCase.__struct_fields__)


def test_a_trace_from_a_function_is_noted_once_as_deprecated() -> None:
    def task(_request: object) -> ProviderResponse:
        return ProviderResponse("x", trace=(TraceEvent("tool_call", name="lookup"),))

    cases = [EvalCase(name, "q") for name in ("a", "b")]
    report = evaluate(cases, task=task, evaluators=[{"type": "contains", "value": "x"}])
    noted = [note for note in report.notes if "'trace', which is deprecated" in note]
    assert len(noted) == 1
    assert noted[0].startswith("target 'task': its responses have the key 'trace'")


def test_a_configuration_takes_the_names_of_the_prd() -> None:
    rules = [{"type": "contains", "value": "Paris"}]
    named: dict[str, Any] = {"evaluatorConfigs": rules, "storageProvider": None, "errorPolicy": "zero"}
    config = EvaluationRunConfig(**named, evaluatorTimeoutSeconds=5)  # type: ignore[call-arg]
    assert (config.evaluators, config.error_policy, config.evaluator_timeout_s) == (rules, "zero", 5)
    assert run_evaluation_sync({"response": "Paris"}, config).overall_score == 1.0
    assert EvaluationRunConfig(rules, llm="openai:gpt-4o-mini").judge == "openai:gpt-4o-mini"  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'evaluators' is given twice"):
        EvaluationRunConfig(rules, evaluators=rules, evaluatorConfigs=rules)  # type: ignore[call-arg, misc]
    with pytest.raises(TypeError, match="nonsense"):
        EvaluationRunConfig(rules, nonsense=1)  # type: ignore[call-arg]


def test_a_context_takes_the_names_of_its_specification() -> None:
    made = make_context(answer="Paris", question="Capital?")
    named: dict[str, Any] = {
        "evalCase": made.eval_case,
        "candidate": "Paris",
        "target": made.target,
        "provider": made.provider,
        "promptInputs": made.prompt_inputs,
        "judgeProvider": None,
        "systemPrompt": "Be strict.",
        "judgeModel": "m",
        "now": made.now,
    }
    context = EvaluationContext(**named)
    assert (context.eval_case, context.system_prompt, context.judge_model) == (made.eval_case, "Be strict.", "m")


def test_criteria_of_a_suite_may_be_dicts_and_are_checked() -> None:
    def suite(criterion: dict[str, object]) -> EvalSuite:
        case = EvalCase("a", "q", evaluators=[EvaluatorConfig("has", "contains", {"value": "yes"}, criterion="kind")])
        return EvalSuite("suite", listed_cases([case]), criteria=(criterion,))  # type: ignore[arg-type]

    assert evaluate(suite({"name": "kind"}), task=lambda _request: "yes").exit_code == 0
    with pytest.raises(EvalFileError, match=r"suite 'suite'  \$.criteria\[0\].weight  must be at least 0"):
        evaluate(suite({"name": "kind", "weight": -1}), task=lambda _request: "yes")


def test_a_fault_of_the_given_evaluators_is_reported_once_for_all_cases() -> None:
    cases = [EvalCase(f"case-{number}", "q", tags=("x",)) for number in range(3)]
    twice = [EvaluatorConfig("has", "contains", {"value": value}) for value in "ab"]
    with pytest.raises(ConfigError) as raised:
        evaluate(cases, task=lambda _request: "yes", evaluators=twice)
    assert str(raised.value) == "cases: 2 evaluators are named 'has'; evaluator names must be unique"


ITEM_JUDGE: dict[str, Any] = {
    "provider": "mock",
    "response": '{"checks": [{"id": "kind", "satisfied": true, "reasoning": "It is."}]}',
}


def evaluators_with(item: object) -> list[Any]:
    """Return a rubric judge of one item, given as dict, as dict with `config`, and as object."""
    settings: dict[str, Any] = {"rubrics": [item]}
    return [
        {"name": "r", "type": "rubric", **settings},
        {"name": "r", "type": "rubric", "config": settings},
        EvaluatorConfig("r", "rubric", settings),
    ]


@pytest.mark.parametrize("form", range(3))
def test_items_in_the_settings_of_an_evaluator_may_be_objects(form: int) -> None:
    item = RubricItem("kind", "Is kind", weight=2)
    as_object = evaluators_with(item)[form]
    as_dict = evaluators_with({"id": "kind", "description": "Is kind", "weight": 2})[form]

    def judged(evaluator: Any) -> Any:
        case = EvalCase("a", "q", evaluators=[evaluator])
        return evaluate([case], task=lambda _request: "yes", judge=ITEM_JUDGE).results[0]

    assert judged(as_object).score == judged(as_dict).score == 1.0
    assert judged(as_object).score_keys == judged(as_dict).score_keys
    config = EvaluationRunConfig(evaluators=[as_object], judge=ITEM_JUDGE)
    assert run_evaluation_sync({"response": "yes"}, config).overall_score == 1.0


@pytest.mark.parametrize("form", range(3))
def test_a_wrong_item_object_in_the_settings_is_refused_with_its_place(form: int) -> None:
    wrong = evaluators_with(RubricItem("kind", "Is kind", weight=-1))[form]
    with pytest.raises(AgentvError, match=r"\.rubrics\[0\]\.weight  must be at least 0"):
        evaluate([EvalCase("a", "q", evaluators=[wrong])], task=lambda _request: "yes", judge=ITEM_JUDGE)
    with pytest.raises(AgentvError, match=r"rubrics\[0\]\.weight  must be at least 0"):
        run_evaluation_sync({"response": "yes"}, EvaluationRunConfig(evaluators=[wrong], judge=ITEM_JUDGE))
