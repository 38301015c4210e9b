"""Shapes of AgentV's published example files that were once read wrongly, each in a file of our own making."""

from pathlib import Path

import pytest

from agentv.evaluators import EVALUATORS
from agentv.loading.check.check import check_paths
from agentv.loading.suites.suites import load_suite
from agentv.providers import PROVIDERS
from agentv.registry import Specs
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.messages import FilePart
from agentv.types.problems import Problem

SPECS = Specs(PROVIDERS, EVALUATORS)


def write(folder: Path, text: str) -> Path:
    (folder / "targets.yaml").write_text("targets: [{name: t, provider: mock}]")
    path = folder / "suite.eval.yaml"
    path.write_text(text)
    return path


def cases_of(folder: Path, text: str) -> list[EvalCase]:
    cases = load_suite(write(folder, text), specs=SPECS).cases
    return [case for case in cases if isinstance(case, EvalCase)]


def problems_of(folder: Path, text: str) -> tuple[Problem, ...]:
    return check_paths([str(write(folder, text))], cwd=folder, env={}, specs=SPECS).problems


def test_the_variables_of_a_case_fill_the_input_of_the_suite(tmp_path: Path) -> None:
    text = """
input: [{role: system, content: "You answer {{ topic }} questions."}]
tests:
  - {id: a, vars: {topic: geography}, criteria: ok, input: hi}
  - {id: b, criteria: ok, input: hi}
"""
    filled, plain = cases_of(tmp_path, text)
    assert filled.input_messages[0].content == "You answer geography questions."
    assert plain.input_messages[0].content == "You answer {{ topic }} questions."


def test_the_variables_of_a_case_fill_the_files_of_the_suite(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the note")
    text = """
input_files: ["{{ name }}.txt"]
tests: [{id: a, vars: {name: note}, criteria: ok, input: hi}]
"""
    (case,) = cases_of(tmp_path, text)
    content = case.input_messages[0].content
    assert isinstance(content, tuple)
    assert isinstance(content[0], FilePart)
    assert content[0].text == "the note"


def test_items_of_a_rubric_show_the_second_generation(tmp_path: Path) -> None:
    text = """
evalcases:
  - id: a
    expected_outcome: ok
    input_messages: [{role: user, content: hi}]
    expected_messages: [{role: assistant, content: 42}]
    rubrics:
      - {id: shape, expected_outcome: Has headings, weight: 2, required: false}
      - id: right
        required_min_score: 10
        score_ranges: [{score_range: [0, 9], expected_outcome: wrong}, {score_range: [10, 10], expected_outcome: right}]
"""
    (case,) = cases_of(tmp_path, text)
    assert [item.description for item in case.rubrics] == ["Has headings", "0 to 9: wrong\n10: right"]
    assert [message.content for message in case.expected_messages] == ["42"]


def test_a_text_as_criteria_of_rubrics_is_one_item(tmp_path: Path) -> None:
    text = """
tests:
  - {id: a, input: hi, assertions: [{type: rubrics, criteria: Names the month}]}
"""
    (problem,) = problems_of(tmp_path, text)
    assert (problem.severity, problem.json_path) == ("warning", "$.tests[0].assertions[0].criteria")
    (case,) = cases_of(tmp_path, text)
    (rubric,) = case.evaluators or ()
    assert isinstance(rubric, EvaluatorConfig)
    assert "Names the month" in str(rubric.settings)


@pytest.mark.parametrize("key", ["name: x", "environment: {type: host}"])
def test_an_agentv_5_file_with_providers_is_not_called_promptfoos(key: str, tmp_path: Path) -> None:
    text = f'{key}\nproviders: [p]\nprompts: ["{{{{ q }}}}"]\ntests: [{{id: a, vars: {{q: hi}}, assert: [Says hi]}}]\n'
    (problem,) = problems_of(tmp_path, text)
    assert problem.message == "an AgentV 5 file; 1.5 to 4.42 are read"


def test_problems_of_a_workspace_have_their_whole_path(tmp_path: Path) -> None:
    text = """
workspace: {template: ., isolation: per_test, scope: suite}
tests: [{id: a, criteria: ok, input: hi}]
"""
    (problem,) = problems_of(tmp_path, text)
    assert (problem.json_path, problem.line) == ("$.workspace.scope", 2)
