"""`agentv runs export`: some cases of a run as a new eval file."""

from pathlib import Path

import yaml
from tests.support.carrying import Project

SUITE = """
criteria: [{name: tone, description: friendly, scale: likert5}]
execution: {evaluators: [{name: e, type: contains, value: "a"}]}
evalcases:
  - {id: good, expected_outcome: x, input_messages: [{role: user, content: a}], tags: [t]}
  - id: bad
    expected_outcome: x
    input_messages: [{role: user, content: [{type: text, value: b}, {type: file, value: notes.txt}]}]
    metadata: {owner: me}
"""


def prepare(project: Project) -> Path:
    evals = project.folder / "evals"
    evals.mkdir()
    (evals / "suite.yaml").write_text(SUITE)
    (evals / "notes.txt").write_text("n")
    (project.folder / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: echo}]")
    code, said = project.call("run", "evals")
    assert code == 1, said
    return project.folder


def test_cases_that_failed_become_a_suite_that_names_their_origin(project: Project) -> None:
    folder = prepare(project)
    code, said = project.call("runs", "export", "--case", "bad", "-o", "failed.yaml")
    assert code == 0
    assert "Wrote failed.yaml: 1 case" in said
    assert "options of evals/suite.yaml (target, workspace, trials, time limits, gates) are not copied" in said
    written = yaml.safe_load((folder / "failed.yaml").read_text())
    (case,) = written["evalcases"]
    (run,) = (folder / ".agentv" / "runs").iterdir()
    assert case["id"] == "bad"
    assert case["metadata"] == {
        "owner": "me",
        "origin": {"run": run.name, "suite": "evals/suite.yaml", "eval_id": "bad"},
    }
    assert case["input"][0]["content"][1] == {"type": "file", "value": "evals/notes.txt"}
    assert case["execution"]["evaluators"] == [{"name": "e", "type": "contains", "value": "a"}]
    assert written["criteria"][0]["name"] == "tone"
    assert written["dialect"] == "agentv"
    assert project.call("check", "failed.yaml")[0] == 0


def test_exported_cases_have_the_short_words(project: Project) -> None:
    folder = prepare(project)
    project.call("runs", "export", "--case", "good", "-o", "good.yaml")
    (case,) = yaml.safe_load((folder / "good.yaml").read_text())["evalcases"]
    assert case["input"] == "a"
    assert "input_messages" not in case


def test_an_exported_dataset_runs_as_the_suite_did(project: Project) -> None:
    prepare(project)
    assert project.call("runs", "export", "--failed", "-o", "again.jsonl")[0] == 0
    before = project.call("show", "--json")[0]
    assert before == 0
    code, said = project.call("run", "again.jsonl")
    assert code == 1
    assert "0 of 2" in said


def test_an_export_overwrites_nothing_and_says_when_there_is_nothing(project: Project) -> None:
    folder = prepare(project)
    (folder / "kept.yaml").write_text("mine")
    code, said = project.call("runs", "export", "-o", "kept.yaml")
    assert (code, (folder / "kept.yaml").read_text()) == (4, "mine")
    assert "kept.yaml exists already" in said
    code, said = project.call("runs", "export", "--errors", "-o", "none.yaml")
    assert code == 5
    assert not (folder / "none.yaml").exists()
