"""Seed evaluation-framework-prd.md: its requirements on criteria, runner, aggregation, storage and configuration."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.judging import Judge, signed

import agentv
from agentv import (
    AggregatedEvaluationResult,
    ConfigError,
    CriteriaEvaluator,
    EvalCase,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationResult,
    EvaluationRunConfig,
    EvaluationRunner,
    EvaluationStorageProvider,
    JsonFileStorageProvider,
    Message,
    ToolCall,
    evaluate,
    run_evaluation,
    run_evaluation_sync,
)
from agentv.evaluators import EVALUATORS
from agentv.evaluators.judges.settings import READY_MADE

ROOT = Path(__file__).parent.parent.parent
CLEAR = EvaluationCriteria(name="IsClear", description="Is easy to follow", scale="likert5", weight=2)
CONCISE = EvaluationCriteria(name="IsConcise", description="Uses few words", scale="pass/fail")
LENGTH = {"type": "RuleBased", "rules": [{"criterionName": "IsConcise", "config": {"type": "length", "max": 20}}]}


def judge(score: object = 4) -> Judge:
    return Judge(lambda r: signed(r, f'"criteria": [{{"name": "IsClear", "score": {json.dumps(score)}}}]'))


def judged_by(llm: Judge) -> dict[str, Any]:
    return {"type": "LLMJudge", "config": {"criteria": ["IsClear"], "llm": llm}}


def test_criteria_have_a_name_a_description_a_scale_and_a_weight() -> None:
    criterion = EvaluationCriteria.from_dict({"name": "Tone", "description": "How it sounds", "scale": "binary"})
    assert (criterion.name, criterion.description, criterion.scale, criterion.weight) == (
        "Tone",
        "How it sounds",
        "binary",
        1.0,
    )
    with pytest.raises(ConfigError, match="the key 'name' is missing"):
        EvaluationCriteria.from_dict({"description": "nameless"})


def test_sets_of_criteria_are_called_by_name_from_files(run: Callable[..., Any]) -> None:
    named = """
criteria:
  - {name: short, scale: binary}
  - {name: kind, scale: likert5, weight: 2}
criteria_sets:
  desk: [short, kind]
evaluators:
  few-words: {type: length, max: 2, unit: words, criterion: short}
"""
    suite = """
criteria: [desk]
evalcases:
  - id: c
    expected_outcome: Answers
    input_messages: [{role: user, content: hi}]
    evaluators: [few-words, {name: nice, type: contains, value: "!", criterion: kind}]
"""
    done = run(
        suite, targets="targets: [{name: t, provider: mock, response: Hi!}]", files={".agentv/criteria.yaml": named}
    )
    (row,) = done.rows
    results = {result["name"]: result["results"][0] for result in row["evaluator_results"]}
    assert (results["few-words"]["score"], results["nice"]["score"]) == (True, 5)


def test_one_contract_serves_every_sort_of_evaluator() -> None:
    class Own:
        type = "Own"

        async def evaluate(
            self, given: EvaluationInput, criteria: Sequence[EvaluationCriteria], /
        ) -> list[EvaluationResult]:
            return [EvaluationResult(each.name, score=5, evaluator_type=self.type) for each in criteria if given.text]

    own = Own()
    assert isinstance(own, CriteriaEvaluator)
    result = run_evaluation_sync(EvaluationInput("Sure.", (CLEAR,)), EvaluationRunConfig(evaluators=[own]))
    assert [(each.evaluator_type, each.value) for each in result.results] == [("Own", 1.0)]
    case = EvalCase("c", "hi", criteria=(CLEAR,))
    (row,) = evaluate([case], task=lambda _request: "Sure.", evaluators=[own]).results
    assert row.score == 1.0


def test_a_model_judges_by_the_criteria_and_its_reply_is_read_reliably() -> None:
    for score, value in ((4, 0.75), ("4", 0.75), (1, 0.0), ("4/5", 0.75), (True, 1.0)):
        config = EvaluationRunConfig(evaluators=[judged_by(judge(score))])
        result = run_evaluation_sync(EvaluationInput("It is clear.", (CLEAR,)), config)
        assert result.result("IsClear").value == value, score
    fenced = Judge(lambda r: "Here:\n```json\n" + signed(r, '"criteria": [{"name": "IsClear", "score": 4}]') + "\n```")
    result = run_evaluation_sync(EvaluationInput("x", (CLEAR,)), EvaluationRunConfig(evaluators=[judged_by(fenced)]))
    assert result.overall_score == 0.75
    (asked,) = fenced.requests
    assert "Is easy to follow" in asked.question + str(asked.system_prompt)


def test_the_prompt_of_a_judge_may_name_what_the_context_holds() -> None:
    """The PRD's own test of context variables was skipped; this is ours."""
    llm = judge()
    config = EvaluationRunConfig(
        evaluators=[
            {
                "type": "LLMJudge",
                "config": {
                    "criteria": ["IsClear"],
                    "llm": llm,
                    "promptTemplate": "For {{ context.reader.name }}: {{ candidate_answer }} {{ context.none }}",
                },
            }
        ]
    )
    given = EvaluationInput("It is {{ context.reader.name }}.", (CLEAR,), context={"reader": {"name": "a child"}})
    assert run_evaluation_sync(given, config).overall_score == 0.75
    assert llm.requests[0].question.startswith("For a child: ")
    assert "It is {{ context.reader.name }}." in llm.requests[0].question


def test_the_runner_goes_through_the_evaluators_and_goes_on_when_one_fails() -> None:
    async def fails(_context: object) -> float:
        raise ValueError("no")

    fails.__name__ = "IsClear"
    config = EvaluationRunConfig(evaluators=[fails, LENGTH])
    result = asyncio.run(EvaluationRunner(config).run(EvaluationInput("Short.", (CLEAR, CONCISE))))
    assert [(each.criterion_name, each.value) for each in result.results] == [("IsClear", None), ("IsConcise", 1.0)]
    assert [error.evaluator for error in result.run_errors] == ["IsClear"]
    assert asyncio.iscoroutinefunction(run_evaluation)


def test_scores_of_different_scales_are_normalized_and_weighed() -> None:
    config = EvaluationRunConfig(evaluators=[judged_by(judge(2)), LENGTH])
    result = run_evaluation_sync(EvaluationInput("Short.", (CLEAR, CONCISE)), config)
    assert result.overall_score == pytest.approx((2 * 0.25 + 1 * 1.0) / 3)


def test_results_are_appended_to_a_file_with_the_schema_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.jsonl"
    store = JsonFileStorageProvider(path)
    assert isinstance(store, EvaluationStorageProvider)
    config = EvaluationRunConfig(evaluators=[LENGTH], storage=store, metadata={"runner": "ci"})
    given = EvaluationInput("Short.", (CONCISE,), session_id="s", agent_id="a", ground_truth="x")
    for _ in range(2):
        run_evaluation_sync(given, config)
    first, second = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    assert set(first) >= {
        "overallScore",
        "results",
        "timestamp",
        "agentId",
        "sessionId",
        "inputSnapshot",
        "evaluationConfigSnapshot",
        "metadata",
    }
    assert set(first["results"][0]) >= {"criterionName", "score", "evaluatorType", "reasoning"}
    assert set(first["evaluationConfigSnapshot"]) >= {
        "evaluatorTypes",
        "criteriaNames",
        "storageProviderType",
        "metadataKeys",
    }
    assert isinstance(first["timestamp"], int)
    assert second["timestamp"] >= first["timestamp"]
    assert AggregatedEvaluationResult.from_dict(first).overall_score == 1.0


def test_the_one_call_takes_the_input_and_the_evaluator_configs_of_the_document() -> None:
    config = EvaluationRunConfig.from_dict({"evaluatorConfigs": [LENGTH, judged_by(judge(5))]})
    given = EvaluationInput.from_dict(
        {"prompt": "Hi", "response": "Short.", "criteria": [CLEAR.to_dict(), CONCISE.to_dict()]}
    )
    result = asyncio.run(run_evaluation(given, config))
    assert isinstance(result, AggregatedEvaluationResult)
    assert result.overall_score == 1.0


def test_everything_about_a_run_can_be_configured_in_code_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
criteria: [{name: IsConcise, scale: pass/fail}]
evaluatorConfigs:
  - type: RuleBased
    rules: [{criterionName: IsConcise, config: {type: length, max: 20}}]
storage: {type: json_file, path: kept.jsonl}
errorPolicy: zero
metadata: {from: file}
"""
    )
    (tmp_path / "config.json").write_text(
        json.dumps({"criteria": [CONCISE.to_dict()], "evaluatorConfigs": [LENGTH], "errorPolicy": "zero"})
    )
    for name in ("config.yaml", "config.json"):
        config = EvaluationRunConfig.load(tmp_path / name)
        assert run_evaluation_sync(EvaluationInput("Short."), config).overall_score == 1.0
        assert config.error_policy == "zero"
    assert (tmp_path / "kept.jsonl").read_text("utf-8").count("\n") == 1


def test_a_wrong_configuration_file_is_told_whole_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        """criteria: [{name: IsConcise, scale: pass/fial}]
evaluatorConfigs:
  - type: RuleBased
    config:
      rules: [{criterionName: IsConcise, config: {type: regex, pattern: "("}}]
  - type: LexicalSimilarity
    config: {criterionName: IsConcise, algoritm: levenshtein}
eror_policy: zero
"""
    )
    with pytest.raises(ConfigError) as caught:
        EvaluationRunConfig.load(path)
    said = str(caught.value)
    assert f"{path}:5:" in said
    assert f"{path}:7:40" in said
    assert "did you mean 'algorithm'?" in said
    assert f"{path}:8:1" in said
    assert "did you mean 'error_policy'?" in said


def test_only_what_is_wanted_is_run_and_what_waits_does_not_block() -> None:
    llm = judge()
    config = EvaluationRunConfig(evaluators=[LENGTH, judged_by(llm)], only="free")
    result = run_evaluation_sync(EvaluationInput("Short.", (CLEAR, CONCISE)), config)
    assert ([each.criterion_name for each in result.results], llm.requests) == (["IsConcise"], [])


def test_every_evaluator_has_a_page_that_tells_its_cost_and_when_it_misleads() -> None:
    folder = ROOT / "docs" / "reference" / "evaluators"
    pages = {path.stem: path.read_text("utf-8").lower() for path in folder.glob("*.md")}
    rules = {"contains", "equals", "one_of", "starts_with", "ends_with", "regex", "is_json", "numeric", "length"}
    shared = {**dict.fromkeys(rules, "rules"), **dict.fromkeys(READY_MADE, "ready_made")}
    for spec in EVALUATORS:
        page = pages[shared.get(spec.name, spec.name)]
        assert "mislead" in page, spec.name
        assert "cost" in page, spec.name


def test_everything_a_user_needs_stands_at_the_top_of_the_package() -> None:
    for name in ("run_evaluation", "EvaluationRunner", "JsonFileStorageProvider", "EvaluationStorageProvider"):
        assert name in agentv.__all__


def test_the_example_script_runs_by_itself(tmp_path: Path) -> None:
    example = ROOT / "examples" / "criteria"
    for path in example.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    done = subprocess.run(
        [sys.executable, "run_evaluation_example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "12 of 12 scored" in done.stdout


def test_a_conversation_of_several_turns_is_judged_whole() -> None:
    history = (
        Message("user", "Hello"),
        Message("assistant", "Good day, please go on."),
        Message("user", "Where is my order?"),
        Message("assistant", "On its way."),
    )
    evaluators: list[dict[str, Any]] = [
        {"name": "somewhere", "type": "contains", "value": "please", "source": "conversation", "criterion": "polite"},
        {"name": "each", "type": "contains", "value": "please", "per_turn": True, "criterion": "always"},
    ]
    criteria = (EvaluationCriteria("polite"), EvaluationCriteria("always", scale="numeric"))
    given = EvaluationInput("On its way.", criteria, message_history=history)
    result = run_evaluation_sync(given, EvaluationRunConfig(evaluators=evaluators))
    assert result.result("polite").value == 1.0
    always = [each.value or 0.0 for each in result.results if each.criterion_name == "always"]
    assert sum(always) / len(always) == 0.5
    assert result.overall_score == 0.75


def test_judges_need_no_reference_and_tool_rules_can_demand_an_order() -> None:
    llm = judge()
    config = EvaluationRunConfig(
        evaluators=[
            judged_by(llm),
            {"type": "ToolUsage", "rules": [{"criterionName": "IsConcise", "sequence": ["look", "book"]}]},
        ]
    )
    calls = (ToolCall("book", {}, id="1"), ToolCall("look", {}, id="2"))
    for order, value in ((calls, 0.0), (calls[::-1], 1.0)):
        given = EvaluationInput(Message("assistant", "Done.", tool_calls=order), (CLEAR, CONCISE))
        assert run_evaluation_sync(given, config).result("IsConcise").value == value
    assert "reference" not in llm.requests[0].question + str(llm.requests[0].system_prompt)
