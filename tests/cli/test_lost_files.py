"""Files of a run that are removed or cut while it runs: the run is incomplete, whatever it has counted."""

import json
from pathlib import Path

import pytest
from tests.support.carrying import Project

AGENT = """
import os, shutil
from pathlib import Path

def answer(request):
    if request.eval_case_id == "c7":
        (run,) = (Path(__file__).parent / ".agentv" / "runs").iterdir()
        {damage}
    return "answer to " + request.question
"""
REMOVE_RUN = "shutil.rmtree(run)"


def run_with(project: Project, damage: str, *options: str) -> tuple[int, str]:
    """Run ten cases; the target damages the files of the run at the eighth."""
    (project.folder / "agent.py").write_text(AGENT.format(damage=damage))
    project.cases = {f"c{number}": f"question {number}" for number in range(10)}
    return project.call("run", "suite.yaml", *options)


@pytest.mark.parametrize(
    ("damage", "said_of_it"),
    [
        (REMOVE_RUN, "cannot be found"),
        ("os.truncate(run / 'results.jsonl', 100)", "results.jsonl has "),
        ("os.truncate(run / 'answers.jsonl', 0)", "answers.jsonl has "),
        ("os.truncate(run / 'cases.jsonl', 0)", "cases.jsonl has "),
        ("os.truncate(run / 'events.jsonl', 0)", "events.jsonl has "),
        ("(run / 'results.jsonl').unlink()", "results.jsonl cannot be found"),
        ("shutil.copy(run / 'results.jsonl', run / 'x'); (run / 'x').rename(run / 'results.jsonl')", "was replaced"),
        ("(run / 'run.json').unlink()", "run.json was removed or changed"),
        ("(run / 'run.json').write_text('{}')", "run.json was removed or changed"),
    ],
)
def test_a_run_that_lost_its_files_is_incomplete(project: Project, damage: str, said_of_it: str) -> None:
    code, said = run_with(project, damage)
    assert (code, "INCOMPLETE: files of the run were lost while it ran: " in said, said_of_it in said) == (
        3,
        True,
        True,
    )
    assert "PASS" not in said


def test_exports_of_a_run_that_lost_its_files_say_so(project: Project) -> None:
    code, _ = run_with(project, REMOVE_RUN, "-o", "report.json", "-o", "report.md", "-o", "report.junit.xml")
    assert code == 3
    for name in ("report.json", "report.md", "report.junit.xml"):
        assert "files of the run were lost while it ran" in (project.folder / name).read_text()


def test_a_failed_gate_does_not_hide_that_files_were_lost(project: Project) -> None:
    code, said = run_with(project, REMOVE_RUN, "--gate", "mean >= 0.5", "--gate", "errors >= 1")
    assert (code, "INCOMPLETE: files of the run were lost" in said) == (3, True)


def test_a_run_whose_results_were_cut_is_completed_by_resume(project: Project) -> None:
    assert run_with(project, "os.truncate(run / 'results.jsonl', 0)", "--display", "none")[0] == 3
    assert project.call("report", "--exit-code")[0] == 3
    (project.folder / "agent.py").write_text(AGENT.format(damage="pass"))
    code, said = project.call("resume")
    assert (code, "PASS: 10 of 10 judged results passed" in said) == (0, True), said


def test_a_removed_blob_is_a_lost_file(project: Project) -> None:
    agent = AGENT.format(damage="shutil.rmtree(run / 'blobs')").replace(
        '"answer to " + request.question', '"answer" + "x" * 400_000 * (request.eval_case_id == "c1")'
    )
    (project.folder / "agent.py").write_text(agent)
    project.cases = {f"c{number}": f"question {number}" for number in range(10)}
    code, said = project.call("run", "suite.yaml", "--workers", "1")
    assert (code, "of blobs/ cannot be found" in said) == (3, True), said


@pytest.mark.parametrize("damage", [REMOVE_RUN, "os.truncate(run / 'answers.jsonl', 0)"])
def test_a_run_with_segments_that_lost_its_files_is_incomplete(project: Project, damage: str) -> None:
    code, said = run_with(project, damage, "--segments", "elsewhere")
    assert (code, "files of the run were lost while it ran" in said) == (3, True), said


def test_a_stored_scoring_that_lost_its_files_is_incomplete(project: Project) -> None:
    (project.folder / "judge.py").write_text(
        "import shutil\nfrom pathlib import Path\n\ndef judge(context):\n"
        "    for run in (Path(__file__).parent / '.agentv' / 'runs').glob('*'):\n"
        "        shutil.rmtree(run) if 'a3' in str(context) else None\n"
        "    return {'score': 1.0}\n"
    )
    Path("config.yaml").write_text("evaluators: [{name: own, type: code_judge, python: 'judge.py:judge'}]\n")
    lines = [json.dumps({"id": f"c{number}", "prompt": "q", "response": f"a{number}"}) for number in range(6)]
    Path("log.jsonl").write_text("\n".join(lines) + "\n")
    code, said = project.call("score", "log.jsonl", "--config", "config.yaml")
    assert (code, "files of the run were lost while it ran" in said) == (3, True), said
