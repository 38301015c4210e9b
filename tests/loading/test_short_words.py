"""`input` and `expected` of cases: a text, content or messages; and files that may be AgentV's instead."""

import json
from pathlib import Path

import pytest

from agentv.engine.plugins.loading import load_specs
from agentv.loading.check.check import check_paths
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase
from agentv.types.errors import EvalFileError
from agentv.types.messages import FilePart, Message

SPECS = load_specs()
SYSTEM = Message("system", "Be short")


def case_of(folder: Path, text: str, name: str = "suite.yaml") -> EvalCase:
    (case,) = load_suite(written(folder, text, name), specs=SPECS).cases
    assert isinstance(case, EvalCase)
    return case


def written(folder: Path, text: str, name: str = "suite.yaml") -> Path:
    (folder / "note.txt").write_text("a note")
    path = folder / name
    path.write_text(text)
    return path


def warnings_of(folder: Path, text: str, name: str = "suite.yaml") -> list[str]:
    checked = check_paths([str(written(folder, text, name))], cwd=folder, env={}, specs=SPECS)
    return [problem.json_path for problem in checked.problems if "AgentV 2" in problem.message]


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hi", (Message("user", "hi"),)),
        ("{role: system, content: Be short}", (SYSTEM,)),
        ("[{role: system, content: Be short}, {role: user, content: hi}]", (SYSTEM, Message("user", "hi"))),
        ("{city: Paris}", (Message("user", {"city": "Paris"}),)),
    ],
    ids=["text", "message", "messages", "object"],
)
def test_input_is_a_text_or_messages(value: str, messages: tuple[Message, ...], tmp_path: Path) -> None:
    case = case_of(tmp_path, f"evalcases: [{{id: a, input: {value}, expected: yes it is}}]")
    assert case.input_messages == messages
    assert case.expected_messages == (Message("assistant", "yes it is"),)


def test_input_may_attach_files(tmp_path: Path) -> None:
    parts = "[{type: text, value: Read this}, {type: file, value: note.txt}]"
    (message,) = case_of(tmp_path, f"evalcases: [{{id: a, input: {parts}, expected: ok}}]").input_messages
    assert isinstance(message.content, tuple)
    assert isinstance(message.content[1], FilePart)
    assert message.content[1].text == "a note"


@pytest.mark.parametrize("word", ["expected", "expected_output", "expectedOutput", "expected_messages"])
def test_expected_has_longer_names(word: str, tmp_path: Path) -> None:
    case = case_of(tmp_path, f"evalcases: [{{id: a, input: hi, {word}: hello}}]")
    assert case.expected_messages == (Message("assistant", "hello"),)


@pytest.mark.parametrize("word", ["null", '""', "[]"])
def test_an_empty_expected_is_no_reference(word: str, tmp_path: Path) -> None:
    case = case_of(tmp_path, f"evalcases: [{{id: a, input: hi, expected: {word}, expected_outcome: ok}}]")
    assert case.expected_messages == ()


@pytest.mark.parametrize("word", ["42", "3.0", "true"])
def test_an_unquoted_number_is_refused_since_its_text_is_lost(word: str, tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match="put it in quotes"):
        case_of(tmp_path, f"evalcases: [{{id: a, input: hi, expected: {word}}}]")


def test_a_variable_may_be_a_number(tmp_path: Path) -> None:
    text = 'vars: {n: 42}\nevalcases: [{id: a, input: "{{ n }}", expected: "{{ n }}"}]'
    case = case_of(tmp_path, text)
    assert (case.input_messages, case.expected_messages) == ((Message("user", "42"),), (Message("assistant", "42"),))


LINES = {
    "a row with a further column": {"input": "hi", "expected": "ho", "city": "Paris"},
    "a case with evaluators": {"id": "a", "input": "hi", "evaluators": [{"name": "n", "type": "length", "min": 1}]},
    "a case of messages": {"id": "a", "input": [{"role": "user", "content": "hi"}], "expected_outcome": "ok"},
}


@pytest.mark.parametrize("name", LINES)
def test_lines_have_the_same_words(name: str, tmp_path: Path) -> None:
    case = case_of(tmp_path, json.dumps(LINES[name]), "suite.jsonl")
    assert case.input_messages == (Message("user", "hi"),)


AMBIGUOUS = """
evalcases:
  - id: a
    input: hi
    outcome: ok
    rubrics: [Says hi, {id: b, description: c, required: false}]
    evaluators:
      - {name: t, type: tool_trajectory, mode: exact, expected: [{tool: a}]}
      - name: c
        type: composite
        evaluators: [{name: d, type: llm_judge, weight: 2}]
"""


def test_keys_that_mean_something_else_in_agentv_2_are_warned_of(tmp_path: Path) -> None:
    case = "$.evalcases[0]"
    assert warnings_of(tmp_path, AMBIGUOUS) == [f"{case}.rubrics[0]", f"{case}.evaluators[0]", f"{case}.evaluators[1]"]
    assert [item.required for item in case_of(tmp_path, AMBIGUOUS).rubrics] == [False, False]


@pytest.mark.parametrize(
    "text",
    [
        f"dialect: agentv{AMBIGUOUS}",
        f"dialect: agentv-2{AMBIGUOUS}",
        f"trials: 2{AMBIGUOUS}",
        AMBIGUOUS.replace("input: hi", "input: hi\n    expected: ok"),
        AMBIGUOUS.replace("    outcome: ok\n", ""),
        AMBIGUOUS.replace("input: hi", "input_messages: [{role: user, content: hi}]"),
        AMBIGUOUS + "      - {name: e, type: contains, value: hi}\n",
    ],
    ids=["ours", "theirs", "our setting", "our key", "no outcome", "long words", "our evaluator"],
)
def test_a_file_that_is_surely_ours_or_theirs_is_not_warned_of(text: str, tmp_path: Path) -> None:
    assert warnings_of(tmp_path, text) == []


def test_a_type_of_agentv_2_shows_the_second_generation(tmp_path: Path) -> None:
    text = AMBIGUOUS + "      - {name: e, type: cost, budget: 1}\n"
    assert warnings_of(tmp_path, text) == []
    assert [item.required for item in case_of(tmp_path, text).rubrics] == [True, False]
