"""A target that judges its own answers because no judge is set: `check` and `run` say so."""

from pathlib import Path

import pytest
from tests.support.carrying import Project

CASES = "cases: [{id: a, input: hi, expected: hi}]\n"
TARGET = "{name: a, provider: python, callable: 'agent.py:answer'}"
JUDGE = "{name: j, provider: python, callable: 'judge.py:judge'}"
SENTENCE = (
    "no judge is set: target 'a' judges its own answers; name one with `judge: NAME` in the target or the eval file"
)


def write(folder: Path, *, cases: str = CASES, targets: str = TARGET, top: str = "target: a\n") -> None:
    (folder / "own.yaml").write_text(top + cases)
    (folder / "targets.yaml").write_text(f"targets: [{targets}]\n")


def test_check_and_run_name_the_target_that_judges_itself(project: Project) -> None:
    write(project.folder, cases=CASES + "  # a second case\n")
    code, said = project.call("check", "own.yaml")
    assert (code, said.count(f"own.yaml  $  warning: {SENTENCE}")) == (0, 1), said
    code, said = project.call("run", "own.yaml", "--display", "plain", "-o", "report.md")
    assert (code, said.count(f"note: {SENTENCE}")) == (3, 1), said
    assert said.count(SENTENCE) == 1, said  # printed at the start, and not again at the end
    assert "the judge 'a' (no judge is set; this is the target itself) gave no usable verdict" in said
    assert SENTENCE in (project.folder / "report.md").read_text()


@pytest.mark.parametrize(
    "files",
    [
        {"top": "target: a\njudge: j\n", "targets": f"{TARGET}, {JUDGE}"},
        {"top": "target: a\njudge: a\n"},
        {"top": "target: a\n", "targets": f"{TARGET[:-1]}, judge: j}}, {JUDGE}"},
        {"top": "target: a\nevaluators: [{name: e, type: llm_judge, judge: j}]\n", "targets": f"{TARGET}, {JUDGE}"},
        {"top": "target: a\nevaluators: [{name: e, type: contains, value: hi}]\n"},
    ],
    ids=["of the file", "the target by name", "of the target", "of the evaluator", "a rule"],
)
def test_a_judge_that_is_set_or_not_needed_is_not_reported(project: Project, files: dict[str, str]) -> None:
    write(project.folder, **files)
    for words in (("check", "own.yaml"), ("run", "own.yaml", "--display", "plain")):
        said = project.call(*words)[1]
        assert "no judge is set" not in said


def test_a_member_of_a_composite_needs_the_judge_too(project: Project) -> None:
    member = "{name: m, type: llm_judge}"
    write(project.folder, top=f"target: a\nevaluators: [{{name: c, type: composite, evaluators: [{member}]}}]\n")
    assert SENTENCE in project.call("check", "own.yaml")[1]
    assert f"note: {SENTENCE}" in project.call("run", "own.yaml", "--display", "plain")[1]
