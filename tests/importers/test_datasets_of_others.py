"""Datasets that DeepEval 4.3.1 and pydantic-evals 2.62 wrote, as eval files that load."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.engine.plugins.loading import load_specs
from agentv.importers.located import Converted
from agentv.importers.recognition import find_converter
from agentv.loading.suites.suites import load_suite
from agentv.reports.text.yaml_text import yaml_mapping
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.errors import ConfigError, EvalFileError

FIXTURES = Path(__file__).parents[1] / "fixtures"


def convert(path: Path, folder: Path) -> Converted:
    converter = find_converter(path)
    assert converter is not None
    return converter(path, folder / "suite.yaml")


def cases_of(made: Converted, folder: Path) -> list[EvalCase]:
    (folder / "suite.yaml").write_text(yaml_mapping(made.suite))
    suite = load_suite(folder / "suite.yaml", specs=load_specs())
    return [case for case in suite.cases if isinstance(case, EvalCase)]


def reference(case: EvalCase) -> object:
    return case.expected_messages[-1].content


def evaluators(case: EvalCase) -> list[tuple[str, str]]:
    return [(item.name, item.type) for item in case.evaluators or () if isinstance(item, EvaluatorConfig)]


def written(folder: Path, name: str, value: Any) -> Path:
    (folder / name).write_text(json.dumps(value))
    return folder / name


@pytest.mark.parametrize("name", ["goldens.json", "goldens.jsonl"])
def test_goldens_become_cases(name: str, tmp_path: Path) -> None:
    made = convert(FIXTURES / "deepeval" / name, tmp_path)
    first, second = cases_of(made, tmp_path)
    assert (first.id, first.expected_outcome, reference(first)) == ("shoes", "30 days refund", "30 days refund")
    assert first.input_messages[0].content == "What if these shoes don't fit?"
    assert {**first.metadata, "context": None} == {"a": 1, "region": "eu", "comments": "c", "context": None}
    assert evaluators(first) == [("answer", "llm_judge"), ("tools", "tool_trajectory")]
    assert (second.id, second.expected_outcome) == ("golden-2", "A correct and helpful answer")
    messages = [loss.message for loss in made.losses]
    assert "`retrieval_context` is not carried over" in messages
    assert "this golden has no expected_output: a judge gets 'A correct and helpful answer'" in messages


def test_conversational_goldens_end_with_the_user(tmp_path: Path) -> None:
    made = convert(FIXTURES / "deepeval" / "conversations.json", tmp_path)
    (case,) = cases_of(made, tmp_path)
    assert [(message.role, message.content) for message in case.input_messages] == [("user", "hi")]
    assert case.expected_outcome == "Calm at the end"
    assert [loss.json_path for loss in made.losses] == [
        "$[0].user_description", "$[0].persona", "$[0].turns", "$[0]"
    ]  # fmt: skip


def test_given_answers_of_test_cases_are_listed(tmp_path: Path) -> None:
    made = convert(FIXTURES / "deepeval" / "test_cases.json", tmp_path)
    assert [loss.json_path for loss in made.losses if "actual_output" in loss.message] == ["$[2].actual_output"]


@pytest.mark.parametrize("name", ["capitals.yaml", "capitals.json"])
def test_a_dataset_of_pydantic_evals_keeps_cases_and_evaluators(name: str, tmp_path: Path) -> None:
    made = convert(FIXTURES / "pydantic_evals" / name, tmp_path)
    first, second = cases_of(made, tmp_path)
    assert made.suite["dataset"] == "capitals"
    assert (first.id, reference(first), first.metadata) == ("fr", "Paris", {"d": "easy"})
    assert evaluators(first) == [
        ("equals_expected", "equals"), ("max_duration", "trace"), ("equals", "equals"), ("llmjudge", "rubric"),
        ("has", "is_json"), ("contains", "contains"), ("llmjudge-2", "rubric"),
    ]  # fmt: skip
    assert second.id == "case-2"
    assert evaluators(second)[0] == ("equals_expected", "is_json")
    assert [loss.json_path for loss in made.losses] == [
        "$.evaluators[1].IsInstance", "$.evaluators[3].HasMatchingSpan",
        "$.evaluators[5].LLMJudge", "$.evaluators[5].LLMJudge",
    ]  # fmt: skip
    assert all(loss.line > 0 for loss in made.losses)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"Equals": 4}, {"name": "equals", "type": "equals", "value": 4}),
        ({"Equals": {"value": [1]}}, {"name": "equals", "type": "is_json", "schema": {"const": [1]}}),
        ({"Contains": "a"}, {"name": "contains", "type": "contains", "value": "a"}),
        ({"Contains": {"value": "a", "case_sensitive": False, "evaluation_name": "n"}},
         {"name": "n", "type": "contains", "value": "a", "case_sensitive": False}),
        ({"MaxDuration": 1.5}, {"name": "max_duration", "type": "trace", "max_duration_ms": 1500.0}),
        ({"LLMJudge": "kind"}, {"name": "llmjudge", "type": "rubric", "rubrics": ["kind"]}),
        ({"GEval": {"criteria": "kind", "evaluation_steps": ["read"]}},
         {"name": "geval", "type": "rubric",
          "rubrics": [{"description": "kind\nread", "id": "quality", "scale": "likert5"}]}),
    ],
)  # fmt: skip
def test_an_evaluator_keeps_its_meaning(spec: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    made = convert(written(tmp_path, "d.json", {"cases": [{"inputs": "x"}], "evaluators": [spec]}), tmp_path)
    assert made.suite["evaluators"] == [expected]
    assert made.losses == ()
    cases_of(made, tmp_path)


def test_every_other_evaluator_and_key_is_listed(tmp_path: Path) -> None:
    names = ["IsInstance", "HasMatchingSpan", "ToolCorrectness", "MaxToolCalls", "MyOwn"]
    case = {"inputs": "x", "oddity": 1}
    data = {"cases": [case], "evaluators": [{name: "a"} for name in names], "report_evaluators": ["ROC"], "odd": 1}
    made = convert(written(tmp_path, "d.json", data), tmp_path)
    places = [loss.json_path for loss in made.losses]
    assert places == ["$.report_evaluators", "$.odd",
                      *(f"$.evaluators[{index}].{name}" for index, name in enumerate(names)),
                      "$.cases[0].oddity"]  # fmt: skip
    (only,) = cases_of(made, tmp_path)
    assert only.skip is not None
    assert only.skip.startswith("lost in conversion: `IsInstance` is not carried over; `HasMatchingSpan` is")


def test_a_case_with_a_lost_evaluator_is_incomplete(tmp_path: Path) -> None:
    lossy = {"inputs": "x", "evaluators": ["MyOwn"]}
    data = {"cases": [lossy, {"inputs": "y"}], "evaluators": [{"Contains": "a"}]}
    made = convert(written(tmp_path, "d.json", data), tmp_path)
    first, second = cases_of(made, tmp_path)
    assert first.incomplete == "lost in conversion: `MyOwn` is not carried over"
    assert (first.skip, second.skip, second.incomplete) == (None, None, None)


def test_a_golden_that_lost_a_part_does_not_pass(tmp_path: Path) -> None:
    golden = {"input": "x", "expected_output": "y", "retrieval_context": None, "expectations": ["polite"]}
    empty = {**golden, "input": "", "expectations": None}
    made = convert(written(tmp_path, "d.json", [golden, empty]), tmp_path)
    first, second = cases_of(made, tmp_path)
    assert (first.skip, first.incomplete) == (None, "lost in conversion: `expectations` is not carried over")
    assert (second.skip, second.incomplete) == ("lost in conversion: this golden has no input", None)


def test_a_file_of_no_known_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its format is not known"):
        find_converter(written(tmp_path, "x.json", {"a": 1}))
    with pytest.raises(ConfigError, match="it is code"):
        find_converter(tmp_path / "promptfooconfig.ts")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(EvalFileError):
        find_converter(tmp_path / "broken.json")
    assert find_converter(written(tmp_path, "ours.jsonl", {"id": "a", "input_messages": []})) is None


@pytest.mark.parametrize(
    ("name", "text"), [("d.yaml", "cases: []\n"), ("d.json", '{"name": "d", "cases": []}'), ("d.json", "[]")]
)
def test_a_dataset_without_cases_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=rf"cannot convert .*{name}: it has no cases"):
        find_converter(tmp_path / name)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("pydantic-evals", {"name": "t", "cases": [{"inputs": "a", "output": "b", "assertions": {}, "scores": {}}]}),
        ("pydantic-evals", {"name": "t", "cases": [], "failures": [{"inputs": "a"}], "report_evaluator_failures": []}),
        ("promptfoo", {"evalId": "eval-1", "results": {"results": []}, "config": {"prompts": ["a"]}}),
        ("DeepEval", {"testCases": [{"input": "a", "metricsData": []}], "metricsScores": [], "prompts": []}),
        ("DeepEval", {"testRunData": {"testCases": []}}),
        ("DeepEval", {"test_results": [], "confident_link": None, "test_run_id": None}),
    ],
)
def test_results_of_other_programs_are_not_converted_to_cases(tmp_path: Path, program: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"cannot convert .*: it has results of {program}; convert "):
        find_converter(written(tmp_path, "results.json", value))
