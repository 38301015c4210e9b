"""Shapes of AgentV's published example files that were once read wrongly, each in a file of our own making."""

import json
from pathlib import Path

import pytest
from tests.support.fake_server import serving_fake

from agentv.cli.main import agentv
from agentv.engine.plugins.loading import load_specs
from agentv.loading.check.check import check_paths
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.messages import FilePart
from agentv.types.problems import Problem

SPECS = load_specs()


def write(folder: Path, text: str) -> Path:
    (folder / "targets.yaml").write_text("targets: [{name: t, provider: mock, judge: t}]")
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


@pytest.mark.parametrize("key", ["name: x", "environment: {type: host}", "description: x"])
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


def test_an_answer_of_text_alone_made_no_calls_in_files_of_agentv_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
target: t
tests:
  - id: a
    input: hi
    assertions:
      - {name: allowed, type: tool-trajectory, mode: subset, expected: [{tool: read}]}
      - {name: needed, type: tool-trajectory, mode: superset, expected: [{tool: read}]}
      - {name: few, type: execution-metrics, max_tool_calls: 0, max_llm_calls: 1}
      - {name: explores, type: execution-metrics, target_exploration_ratio: 0.5}
"""
    write(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    agentv.main(["run", "suite.eval.yaml", "-o", "rows.jsonl"], standalone_mode=False)
    (row,) = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert {each["name"]: each["score"] for each in row["evaluator_results"]} == {
        "allowed": 1.0,
        "needed": 0.0,
        "few": 1.0,
        "explores": 0.0,
    }


TALK = """
target: t
tests:
  - id: a
    criteria: ok
    mode: conversation
    CHECKS
    turns: [{input: hi}, {input: there, TURN}, {input: bye, assertions: []}]
"""


@pytest.mark.parametrize(
    ("checks", "turn", "status"),
    [
        ("assertions: [{type: contains, value: never}]", "assertions: []", "scored"),
        ("metadata: {}", "assertions: [{type: contains, value: never}]", "scored"),
        ("metadata: {}", "assertions: []", "skipped"),
    ],
)
def test_a_turn_without_checks_scores_1_in_files_of_agentv_4(
    checks: str, turn: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TALK.replace("CHECKS", checks).replace("TURN", turn)
    warnings = [problem for problem in problems_of(tmp_path, text) if problem.severity == "warning"]
    assert [(problem.json_path, "without checks scores 1" in problem.message) for problem in warnings] == [
        ("$.tests[0].turns", status == "scored")
    ]
    monkeypatch.chdir(tmp_path)
    agentv.main(["run", "suite.eval.yaml", "-o", "rows.jsonl", "--gate", "none"], standalone_mode=False)
    (row,) = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert {row["evaluator_results"][index]["status"] for index in (0, 2)} == {status}
    if status == "scored":
        assert [row["evaluator_results"][index]["score"] for index in (0, 2)] == [1.0, 1.0]
    else:
        assert (row["status"], row["score"]) == ("skipped", None)


def test_the_input_of_an_expected_call_is_not_compared_as_in_agentv(tmp_path: Path) -> None:
    calls = "expected: [{tool: a, input: {b: 1}}, {tool: c, args: {d: 1}}]"
    text = f"""
tests:
  - {{id: a, input: hi, assertions: [{{type: tool-trajectory, mode: in_order, {calls}}}]}}
"""
    (problem,) = problems_of(tmp_path, text)
    assert (problem.severity, problem.json_path) == ("warning", "$.tests[0].assertions[0].expected[0].input")
    (case,) = cases_of(tmp_path, text)
    (trajectory,) = case.evaluators or ()
    assert isinstance(trajectory, EvaluatorConfig)
    assert trajectory.settings["expected"] == [{"tool": "a"}, {"tool": "c", "input": {"d": 1}, "args": "exact"}]


def test_a_workspace_in_docker_alone_is_one_error(tmp_path: Path) -> None:
    text = """
workspace: {docker: {image: a}, isolation: per_test}
tests: [{id: a, criteria: ok, input: hi}]
"""
    (problem,) = problems_of(tmp_path, text)
    assert problem.message == "AgentV 4: workspaces in docker are not supported"


def test_a_workspace_beside_a_model_is_there_for_the_graders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "here.txt").write_text("x")
    script = (
        "import json, os, sys\n"
        "found = os.listdir(json.load(sys.stdin)['workspace_path'])\n"
        "print(json.dumps({'score': float('here.txt' in found)}))"
    )
    text = f"""
target: model
workspace: {{template: template, isolation: per_test}}
tests: [{{id: a, input: hi, assertions: [{{type: code-grader, command: [python3, -c, {json.dumps(script)}]}}]}}]
"""
    write(tmp_path, text)
    with serving_fake() as server:
        (tmp_path / "targets.yaml").write_text(
            f"targets: [{{name: model, provider: openai, base_url: '{server.url}/v1', api_key: k, model: fake}}]"
        )
        monkeypatch.chdir(tmp_path)
        agentv.main(["run", "suite.eval.yaml", "-o", "rows.jsonl"], standalone_mode=False)
    (row,) = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert (row["status"], row["score"]) == ("pass", 1.0)
