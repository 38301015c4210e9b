"""Results of a run that its baseline does not have: gates for change cannot measure them, and every report says so."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.support.carrying import Project

AGENT = """
import json
import re
from pathlib import Path

def answer(request):
    broken = json.loads((Path(__file__).parent / "broken.json").read_text())
    return "we will see" if request.eval_case_id in broken else f"answer to {request.question}"
"""
CHANGE = ("--gate", "not worse", "--gate", "confirmed_regressions <= 0")


@pytest.fixture
def project(project: Project) -> Project:
    (project.folder / "agent.py").write_text(AGENT)
    break_cases(project)
    return project


def break_cases(project: Project, *names: str) -> None:
    (project.folder / "broken.json").write_text(json.dumps(names))


def write_targets(project: Project, **responses: str) -> None:
    targets = [{"name": "t", "provider": "python", "callable": "agent.py:answer"}]
    mocks = [{"name": name, "provider": "mock", "response": response} for name, response in responses.items()]
    (project.folder / "targets.yaml").write_text(json.dumps({"targets": targets + mocks}))


def save_baseline(project: Project, *arguments: str) -> None:
    project.call("run", "suite.yaml", *arguments, "--name", "before", "--gate", "none")
    project.call("baseline", "save", "before")


def last_line_of_report(project: Project) -> str:
    return project.call("report", "latest")[1].splitlines()[-1]


def states(project: Project) -> list[str]:
    return [each["state"] for each in json.loads((project.folder / "report.json").read_text())["gates"]]


@pytest.mark.parametrize("gate", ["confirmed_regressions <= 0", "regressions <= 0", "not worse"])
def test_a_gate_for_change_never_passes_if_no_case_is_in_both(project: Project, gate: str) -> None:
    project.cases = {"old": "first"}
    save_baseline(project)
    project.cases = {"a": "first", "b": "second"}
    break_cases(project, "a")
    code, said = project.call("run", "suite.yaml", "--baseline", "baseline.jsonl", "--gate", gate)
    assert code == 3, said
    name = gate.removesuffix(" <= 0")
    sentence = f"{name} could not be measured (there are no pairs of judged cases), so {gate!r} is undecided"
    assert f"INCOMPLETE: {sentence}. 2 cases are not in the baseline: 1 passed, 1 failed." in said
    assert last_line_of_report(project) == said.splitlines()[-1]


def test_a_target_that_the_baseline_lacks_leaves_gates_undecided(project: Project) -> None:
    write_targets(project, good="answer", good2="nonsense")
    save_baseline(project, "--target", "t", "--target", "good")
    arguments = ("run", "suite.yaml", "--baseline", "baseline.jsonl", *CHANGE, "--gate", "regressions <= 0")
    code, said = project.call(*arguments, "--target", "t", "--target", "good2", "-o", "report.json")
    assert (code, states(project)) == (3, ["undecided"] * 3), said
    assert "(target 'good2' is not in the baseline), so 'not worse' is undecided" in said
    assert "(target 'good2' is not in the baseline), so 'confirmed_regressions <= 0' is undecided" in said
    assert (
        "3 cases are not in the baseline: 0 passed, 3 failed. Save one that has them with: agentv baseline save; "
        "or leave them out with --target." in said
    )
    assert last_line_of_report(project) == said.splitlines()[-1]
    code, said = project.call(*arguments, "--target", "t")
    assert code == 0, said


def test_a_gate_that_fails_on_what_can_be_compared_fails(project: Project) -> None:
    write_targets(project, good="answer", good2="nonsense")
    save_baseline(project, "--target", "t", "--target", "good")
    break_cases(project, "a")
    arguments = ("run", "suite.yaml", "--baseline", "baseline.jsonl", *CHANGE, "-o", "report.json")
    code, said = project.call(*arguments, "--target", "t", "--target", "good2")
    assert (code, states(project)) == (1, ["undecided", "failed"]), said


@pytest.mark.parametrize("gate", ["confirmed_regressions <= 0", "regressions <= 0", "not worse"])
def test_a_gate_for_change_never_passes_if_most_cases_are_new(project: Project, gate: str) -> None:
    project.cases = {name: f"question {name}" for name in "abcdef"}
    said = project.call("run", "suite.yaml", "--case", "a", "--case", "b", "--name", "few")[1]
    said = project.call("baseline", "save", "few")[1]
    assert re.search(r"warning: run \S+ was made with --case a --case b: the baseline has only what this", said)
    break_cases(project, *"cdef")
    arguments = ("run", "suite.yaml", "--baseline", "baseline.jsonl", "--gate", gate)
    code, said = project.call(*arguments)
    name = gate.removesuffix(" <= 0")
    assert code == 3, said
    assert said.splitlines()[-1] == (
        f"INCOMPLETE: {name} could not be measured (most cases are not in the baseline), so {gate!r} is undecided. "
        "4 cases are not in the baseline: 0 passed, 4 failed. Save one that has them with: agentv baseline save; "
        "or leave them out with --case. Exit code 3."
    )
    assert last_line_of_report(project) == said.splitlines()[-1]
    assert project.call(*arguments, "--case", "[abcd]")[0] == 0
    if gate != "confirmed_regressions <= 0":
        assert project.call("compare", "few", "latest~1", "--gate", gate)[0] == 3


def test_a_regression_fails_its_gate_even_if_most_cases_are_new(project: Project) -> None:
    project.cases = {"a": "question a"}
    save_baseline(project)
    project.cases |= {"b": "question b", "c": "question c"}
    break_cases(project, "a")
    code, said = project.call("run", "suite.yaml", "--baseline", "baseline.jsonl", "--gate", "regressions <= 0")
    assert code == 1, said


def test_new_cases_are_counted_in_every_report_and_listed(project: Project) -> None:
    project.cases |= {"d": "question d"}
    save_baseline(project)
    project.cases |= {name: f"question {name}" for name in ("new-1", "new-2", "new-3", "new-4")}
    break_cases(project, "new-1", "new-2", "new-3")
    outputs = [word for each in ("md", "html", "junit.xml", "json") for word in ("-o", f"report.{each}")]
    code, said = project.call("run", "suite.yaml", "--baseline", "baseline.jsonl", *CHANGE, *outputs)
    sentence = "4 cases are not in the baseline: 1 passed, 3 failed."
    assert code == 0
    assert said.splitlines()[-1].startswith("PASS: ")
    assert sentence in said.splitlines()[-1]
    written = {path.name: path.read_text() for path in project.folder.glob("report.*")}
    properties = ET.fromstring(written["report.junit.xml"]).iter("property")
    assert any(sentence in (each.get("value") or "") for each in properties)
    assert sentence in json.loads(written["report.json"])["verdict"]
    assert sentence in written["report.md"]
    assert sentence in written["report.html"]
    for text in (said, written["report.md"], written["report.html"]):
        assert all(name in text for name in ("new-1", "new-2", "new-3"))
        assert "did not pass: 3 cases" in text
    assert last_line_of_report(project) == said.splitlines()[-1]


def test_new_cases_are_named_where_regressions_fill_the_list(project: Project) -> None:
    """Ten cases are shown with their texts; the gate's own cases come first, and there are more of them."""
    old = {f"old-{number}": f"question {number}" for number in range(12)}
    project.cases = dict(old)
    save_baseline(project)
    project.cases |= {name: f"question {name}" for name in ("new-1", "new-2", "new-3")}
    break_cases(project, *old, "new-1", "new-3")
    gate = ("--gate", "confirmed_regressions <= 0")
    code, said = project.call("run", "suite.yaml", "--baseline", "baseline.jsonl", *gate, "-o", "report.md")
    assert code == 1, said
    assert "not in the baseline: new-1, new-3\nold-" in said
    assert "and 4 more: " in said
    assert "not in the baseline: `new-1`, `new-3`" in (project.folder / "report.md").read_text()
    assert "not in the baseline: new-1, new-3\n" in project.call("report", "latest")[1]


def test_new_cases_of_several_targets_have_their_unit(project: Project) -> None:
    write_targets(project, good="answer")
    save_baseline(project, "--target", "t", "--target", "good")
    project.cases |= {"new": "question new"}
    break_cases(project, "new")
    arguments = ("--target", "t", "--target", "good", "--baseline", "baseline.jsonl", *CHANGE)
    code, said = project.call("run", "suite.yaml", *arguments)
    assert code == 0, said
    assert "1 case (2 counted by target) is not in the baseline: 1 passed, 1 failed." in said


def test_a_prompt_that_the_baseline_lacks_leaves_gates_undecided(project: Project) -> None:
    suite = """
prompts: {PROMPTS}
evaluators: [{name: has, type: contains, value: answer}]
evalcases:
  - {id: a, input: '{{ question }}', vars: {question: first}}
"""
    file = Path(project.folder / "prompted.yaml")
    one, two = "{id: v1, text: 'answer {{ question }}'}", "{id: v2, text: 'be short: {{ question }}'}"
    file.write_text(suite.replace("{PROMPTS}", f"[{one}, {two}]"))
    code, said = project.call("run", "prompted.yaml", "--gate", "none", "--name", "before")
    assert code == 0, said
    file.write_text(suite.replace("{PROMPTS}", f"[{one}, {two.replace('v2', 'v3')}]"))
    code, said = project.call("run", "prompted.yaml", "--baseline", "before", *CHANGE)
    assert code == 3, said
    assert "(prompt 'v3' is not in the baseline), so 'not worse' is undecided" in said
    assert "or leave them out with --prompt." in said
