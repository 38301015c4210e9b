"""Names of evaluators of other tools in a file of ours, answered with the evaluator to use here."""

import re

import pytest
from tests.support.carrying import Project

from agentv.evaluators import EVALUATORS
from agentv.importers.promptfoo.assertions import ASSERTION_TYPES
from agentv.importers.pydantic_evals import EVALUATOR_NAMES
from agentv.loading.suites.other_evaluators import other_tools_advice

INSPECT = ("includes", "match", "exact", "pattern", "choice", "f1", "model_graded_qa", "model_graded_fact")
DEEPEVAL = ("GEval", "g-eval", "geval", "HallucinationMetric", "hallucination", "ContextualRecallMetric", "ExactMatch")


def checked(project: Project, kind: str) -> str:
    case = f"{{id: a, input: hi, evaluators: [{{name: e, type: {kind!r}, value: hi}}]}}"
    (project.folder / "foreign.yaml").write_text(f"cases: [{case}]\n")
    code, said = project.call("check", "foreign.yaml")
    assert code == 4, said
    return re.sub(r".*\]\.type  ", "", said.splitlines()[0])


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("icontains", "use contains with `ignore: case`"),
        ("not-icontains", "use contains with `ignore: case`; `negate: true` reverses it"),
        ("g-eval", "use rubric, with the requirements as `rubrics`"),
        ("exact_match", "use equals, with the expected text as `value`"),
        ("IsInstance", "an answer is a text here; use is_json with a schema"),
        ("python", "use code_judge with `python: FILE.py:FUNCTION`"),
    ],
)
def test_an_evaluator_of_another_tool_is_answered_with_ours(project: Project, kind: str, answer: str) -> None:
    assert checked(project, kind) == f"unknown evaluator type {kind!r}; {answer}"


def test_a_typo_still_lists_the_types_and_suggests_one(project: Project) -> None:
    said = checked(project, "contians")
    assert (said.count("; known: "), said.count("; did you mean 'contains'?")) == (1, 1)


def test_a_type_of_agentv_5_names_ours_too(project: Project) -> None:
    said = checked(project, "llm-rubric")
    assert "if this is a file of agentv, use rubric, with the requirements as `rubrics`" in said


@pytest.mark.parametrize("name", sorted({*ASSERTION_TYPES, *EVALUATOR_NAMES, *INSPECT, *DEEPEVAL}))
def test_every_evaluator_of_a_known_tool_has_an_answer(name: str) -> None:
    ours = name in EVALUATORS or name.replace("-", "_").casefold() in EVALUATORS
    assert ours or other_tools_advice(name) is not None
