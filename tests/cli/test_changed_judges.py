"""An agent that changes the files of its judge while the run is in progress: no score of theirs counts."""

import pytest
from tests.support.carrying import Project

JUDGE = """
import json
from pathlib import Path
print(json.dumps({"score": 0.0, "reasoning": "honest"}))
"""
FORGED = 'print(\'{"score": 1.0, "reasoning": "forged"}\')\n'
AGENT = """
import os
from pathlib import Path

FORGED = {forged!r}

def answer(request):
    judge = Path(__file__).parent / "judge.py"
    if request.eval_case_id == "b":
        {damage}
    return "answer to " + request.question
"""
OVERWRITE = "judge.write_text(FORGED)"
SCRIPT = '{name: own, type: code_judge, script: "python judge.py"}'
CHANGED = "files of evaluators were changed while the run was in progress: judge.py"


def run_with(project: Project, damage: str, *options: str, judge: str = JUDGE, forged: str = FORGED) -> tuple[int, str]:
    """Run three cases; the agent does damage at the second, before it answers."""
    (project.folder / "judge.py").write_text(judge)
    (project.folder / "agent.py").write_text(AGENT.format(damage=damage, forged=forged))
    project.evaluators = SCRIPT if project.evaluators.startswith("{name: has") else project.evaluators
    project.cases = dict.fromkeys("abc", "q")
    return project.call("run", "suite.yaml", "--workers", "1", *options)


def states(project: Project) -> dict[str, str]:
    return {row["eval_id"]: row["status"] for row in project.stored("results.jsonl")}


@pytest.mark.parametrize(
    "damage",
    [OVERWRITE, "os.replace(judge.with_name('agent.py'), judge)", "judge.unlink()", "judge.rename(judge.parent / 'x')"],
)
def test_an_agent_that_changes_its_judge_gets_no_score(project: Project, damage: str) -> None:
    code, said = run_with(project, damage, "--gate", "none", "--max-errors", "9")
    assert (code, f"INCOMPLETE: {CHANGED}" in said) == (3, True), said
    assert states(project) == {"a": "fail", "b": "error", "c": "error"}
    assert "forged" not in (project.run / "results.jsonl").read_text()


@pytest.mark.parametrize(
    "evaluator",
    [
        "{name: own, type: code_judge, python: 'judge.py:judge'}",
        '{name: all, type: composite, evaluators: [{name: own, type: code_judge, script: "python judge.py"}]}',
    ],
)
def test_every_file_that_an_evaluator_names_is_watched(project: Project, evaluator: str) -> None:
    project.evaluators = evaluator
    function = "def judge(context):\n    return 0.0\n"
    code, said = run_with(project, OVERWRITE, judge=function if "python:" in evaluator else JUDGE)
    assert (code, CHANGED in said) == (3, True), said
    assert states(project)["b"] == "error"


def test_a_forged_judge_that_restores_the_file_is_found(project: Project) -> None:
    """The first case replaces the script while it is judged, as a concurrent agent would, and restores it."""
    restoring = (
        "import os, json\nfrom pathlib import Path\nhere = Path(__file__)\ntext = here.read_text()\n"
        "here.write_text('x')\nhere.write_text(text)\nprint(json.dumps({'score': 1.0}))\n"
    )
    code, said = run_with(project, "pass", judge=restoring)
    assert (code, set(states(project).values())) == (3, {"error"}), said
    assert "changed while the run was in progress: judge.py" in said


def test_a_touched_judge_is_not_a_changed_one(project: Project) -> None:
    code, said = run_with(project, "os.utime(judge)")
    assert (code, set(states(project).values()), CHANGED in said) == (1, {"fail"}, False)


def test_show_report_and_compare_report_changed_judges(project: Project) -> None:
    run_with(project, OVERWRITE, "--gate", "mean >= 0")
    code, said = project.call("report", "--exit-code")
    assert (code, f"INCOMPLETE: {CHANGED}" in said) == (3, True)
    assert "failed" in project.call("show")[1]
    assert project.call("compare", "latest", "latest", "--gate", "mean >= 0")[0] == 3


def test_a_run_whose_judges_were_restored_is_resumed(project: Project) -> None:
    run_with(project, OVERWRITE)
    (project.folder / "judge.py").write_text(JUDGE)
    (project.folder / "agent.py").write_text(AGENT.format(damage="pass", forged=FORGED))
    assert project.call("resume", "latest")[0] == 1
    assert states(project)["c"] == "error"
    code, said = project.call("retry", "--errors")
    assert (code, "0 of 3 judged results passed" in said) == (1, True), said


def test_a_run_with_changed_judges_is_not_resumed_until_they_are_restored(project: Project) -> None:
    run_with(project, OVERWRITE)
    code, said = project.call("resume", "latest")
    assert (code, "changed while it was in progress: judge.py. Restore" in " ".join(said.split())) == (3, True), said
    assert "forged" not in (project.run / "results.jsonl").read_text()
