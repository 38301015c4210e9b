"""`agentv resume`: what is done is kept, and just the rest is paid for."""

import json
import os
import sys

import pytest
from tests.support.carrying import JUDGE, Project

from agentv import EvalCase, EvaluatorConfig, Message, evaluate
from agentv.storage.run.lock import RunLock
from agentv.storage.run.stored import open_run

HAS = "{name: has, type: contains, value: answer}"


def interrupt(project: Project, *, judged: int, answered: int) -> None:
    """Leave the run of `project` as a kill would have, with so many rows and so many answers."""
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    count = len(project.cases)
    project.forget("results.jsonl", range(judged, count))
    project.forget("answers.jsonl", range(answered, count))
    project.forget("events.jsonl", [len(project.stored("events.jsonl")) - 1])


def current(project: Project) -> dict[str, tuple[str, int]]:
    """Return text and generation of the current rows, by case."""
    return {row.eval_id: (row.candidate_answer, row.generation) for row in open_run(project.run).results()}


def test_finished_results_stay_answers_are_judged_and_the_rest_is_called(project: Project) -> None:
    interrupt(project, judged=1, answered=2)
    code, said = project.call("resume")
    assert (code, project.calls()) == (0, ["c"])
    assert "1 result unchanged; 1 target call, 1 stored answer rescored" in said
    assert current(project) == {name: (f"answer to question {name}", 0) for name in "abc"}
    assert len(project.stored("results.jsonl")) == len(project.stored("answers.jsonl")) == 3
    assert open_run(project.run).state() == "finished"


def test_of_a_thousand_cases_only_edited_and_added_ones_are_called(project: Project) -> None:
    project.cases = {f"c{number}": f"question {number}" for number in range(1_000)}
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    assert len(project.calls()) == 1_000
    cases = list(project.cases.items())
    cases[3], cases[700] = cases[700], cases[3]
    project.cases = {**dict(cases), "c500": "another question", "new": "one more"}
    code, said = project.call("resume", "latest")
    assert (code, project.calls()) == (0, ["c500", "new"])
    assert "PASS: 1,001 of 1,001 judged results passed" in said
    assert current(project)["c500"] == ("answer to another question", 1)
    assert len(current(project)) == 1_001


def test_an_edited_evaluator_scores_stored_answers_and_other_scores_stay(project: Project) -> None:
    (project.folder / "judge.py").write_text(JUDGE)
    project.evaluators = f"{HAS}, {{name: code, type: code_judge, script: [{sys.executable}, judge.py]}}"
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    assert (project.folder / "judged").read_text() == "xxx"
    project.evaluators = project.evaluators.replace("answer}", "to question a}")
    code, said = project.call("resume", "latest")
    assert (code, project.calls()) == (1, [])
    assert "FAIL: 1 of 3 judged results passed" in said
    assert (project.folder / "judged").read_text() == "xxx"
    (project.folder / "judge.py").write_text(JUDGE + "# edited")
    assert project.call("resume", "latest")[0] == 1
    assert (project.folder / "judged").read_text() == "xxxxxx"
    assert project.calls() == []
    assert {generation for _, generation in current(project).values()} == {2}
    assert len(project.stored("results.jsonl")) == 9


def test_a_moved_project_pays_for_no_answer_or_score_twice(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "judge.py").write_text(JUDGE)
    project.evaluators = f"{HAS}, {{name: code, type: code_judge, script: [{sys.executable}, judge.py]}}"
    interrupt(project, judged=2, answered=3)
    assert (project.folder / "judged").read_text() == "xxx"
    project.folder = project.folder.rename(project.folder.with_name("moved"))
    monkeypatch.chdir(project.folder)
    assert (project.call("resume")[0], project.calls()) == (0, [])
    assert (project.folder / "judged").read_text() == "xxxx"


def test_errors_stay_and_the_retry_command_is_printed(project: Project) -> None:
    (project.folder / "broken").write_text("b")
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 3
    project.calls()
    (project.folder / "broken").unlink()
    project.forget("results.jsonl", [2])
    code, said = project.call("resume", "latest")
    assert (code, project.calls()) == (3, [])
    assert f"Retry errors: agentv retry {project.run.name}" in said


def test_a_removed_case_stays_in_the_run_without_being_counted(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    cases = dict(project.cases)
    del project.cases["b"]
    assert project.call("resume", "latest")[0] == 0
    assert [
        event["slot"]["eval_id"] for event in project.stored("events.jsonl") if event["type"] == "case_retired"
    ] == ["b"]
    assert (list(current(project)), open_run(project.run).counts()) == (["a", "c"], {"pass": 2})
    assert [row.eval_id for row in open_run(project.run).all_results()] == ["a", "b", "c"]
    project.calls()
    project.cases = cases
    assert project.call("resume", "latest")[0] == 0
    assert (list(current(project)), project.calls()) == (["a", "b", "c"], [])


def test_an_unreadable_stored_result_is_reported_and_nothing_is_called(project: Project) -> None:
    interrupt(project, judged=2, answered=2)
    rows = project.run / "results.jsonl"
    rows.write_text(rows.read_text("utf-8").replace('"score":1.0', '"score":5.0', 1), "utf-8")
    code, said = project.call("resume")
    assert (code, project.calls()) == (3, [])
    assert "a stored line of case 'a' cannot be read: score: expected a score from 0 to 1" in said
    assert "Traceback" not in said


def test_a_suite_that_was_renamed_keeps_its_answers_and_scores(project: Project) -> None:
    judge = f"{{name: code, type: code_judge, script: [{sys.executable}, judge.py]}}"
    project.evaluators = judge
    assert project.call("run", ".", "--display", "none")[0] == 0
    project.calls()
    (project.folder / project.suite).unlink()
    project.suite = "renamed.yaml"
    code, said = project.call("resume", "latest")
    assert (code, project.calls()) == (0, []), said
    assert (project.folder / "judged").read_text() == "xxx"
    assert [row.slot.suite for row in open_run(project.run).results()] == ["renamed.yaml"] * 3


def test_a_changed_target_script_is_reported_and_fresh_calls_it_again(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    script = project.folder / "agent.py"
    script.write_text(script.read_text().replace("answer to", "new answer to"))
    code, said = project.call("resume", "latest")
    assert (code, project.calls()) == (0, [])
    assert "its code has changed since the run began (agent.py); its stored answers are used; --fresh" in said
    assert project.call("resume", "latest", "--fresh")[0] == 0
    assert project.calls() == ["a", "b", "c"]
    assert {generation for _, generation in current(project).values()} == {0}
    assert [row.rerun for row in open_run(project.run).reruns()] == ["fresh"] * 3


def test_without_a_name_the_latest_run_that_did_not_finish_is_meant(project: Project) -> None:
    interrupt(project, judged=0, answered=0)
    unfinished = project.run.name
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    code, said = project.call("resume")
    assert (code, project.calls()) == (0, ["a", "b", "c"])
    assert f"agentv show {unfinished}" in said
    assert project.call("resume") == (
        4,
        "error: every run is finished; to run cases that were edited or added since, use `agentv resume latest`\n",
    )


def test_a_second_writer_is_refused_and_the_first_is_named(project: Project) -> None:
    interrupt(project, judged=1, answered=1)
    lock = RunLock(project.run)
    code, said = project.call("resume")
    lock.release()
    assert (code, project.calls()) == (3, [])
    assert f"is being written by process {os.getpid()} on " in said
    assert project.call("resume")[0] == 0


def test_a_run_goes_on_from_another_folder_with_its_own_paths_and_options(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "deep").mkdir()
    assert (
        project.call("run", "suite.yaml", "--display", "none", "--case", "[ab]", "--name", "n", "--gate", "none")[0]
        == 0
    )
    project.calls()
    project.forget("results.jsonl", [0])
    project.forget("answers.jsonl", [0])
    monkeypatch.chdir(project.folder / "deep")
    code, said = project.call("resume", "n")
    assert (code, project.calls()) == (0, ["a"])
    assert "NO GATE: 2 of 2" in said
    assert {row.slot.suite for row in open_run(project.run).results()} == {"suite.yaml"}


def test_an_export_of_a_resumed_run_has_all_of_its_rows(project: Project) -> None:
    interrupt(project, judged=1, answered=2)
    assert project.call("resume", "-o", "rows.jsonl")[0] == 0
    rows = [json.loads(line)["eval_id"] for line in (project.folder / "rows.jsonl").read_text().splitlines()]
    assert sorted(rows) == ["a", "b", "c"]


def test_a_run_that_python_started_says_that_its_files_are_not_known(project: Project) -> None:
    has = EvaluatorConfig("has", "contains", {"value": "4"})
    evaluate(
        [EvalCase("a", (Message("user", "2 + 2?"),))],
        task=lambda _request: "4",
        evaluators=[has],
        folder=project.folder / ".agentv",
    )
    code, said = project.call("resume", "latest")
    assert code == 4
    assert "does not record its eval files" in said


def test_a_run_that_stopped_early_says_how_it_goes_on(project: Project) -> None:
    project.evaluators = "{name: has, type: contains, value: nothing of that}"
    code, said = project.call("run", "suite.yaml", "--fail-fast")
    assert code == 1
    assert f"Resume: agentv resume {project.run.name}" in said


def test_a_finished_fail_is_not_made_a_pass_by_edited_gates(project: Project) -> None:
    (project.folder / ".agentv.yaml").write_text("gates: [pass_rate >= 90%]\n")
    project.cases["b"] = "wrong"
    project.evaluators = "{name: has, type: contains, value: question}"
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 1
    (project.folder / ".agentv.yaml").write_text("gates: [pass_rate >= 10%]\n")
    code, said = project.call("resume", "latest")
    assert (code, "FAIL: pass_rate is 66.67 %" in said) == (1, True), said
    assert "have changed since this run began, from 'pass_rate >= 90%' to 'pass_rate >= 10%'" in said
    code, said = project.call("report", "latest", "--exit-code")
    assert (code, "from 'pass_rate >= 90%' to 'pass_rate >= 10%'; this run is judged by those" in said) == (1, True)
    (project.folder / ".agentv.yaml").unlink()
    assert "from 'pass_rate >= 90%' to the default gate" in project.call("report", "latest")[1]
    assert project.call("retry", "latest", "--case", "a")[0] == 1
    assert project.call("report", "latest", "--exit-code")[0] == 1


def test_results_after_a_resume_have_the_pass_score_stored_with_the_run(project: Project) -> None:
    folder = project.folder
    suite = "execution: {pass_score: %s, evaluators: [{name: has, type: code_judge, script: [%s, half.py]}]}"
    (folder / "half.py").write_text("print('{\"score\": 0.5}')")
    case = "{id: a, expected_outcome: x, input_messages: [{role: user, content: hi}]}"
    (folder / "half.yaml").write_text(suite % (0.9, sys.executable) + f"\nevalcases: [{case}]\n")
    assert project.call("run", "half.yaml", "--display", "none")[0] == 1
    added = case.replace("id: a", "id: b")
    (folder / "half.yaml").write_text(suite % (0.4, sys.executable) + f"\nevalcases: [{case}, {added}]\n")
    code, said = project.call("resume", "latest")
    assert (code, "FAIL: 0 of 2 judged results passed" in said) == (1, True), said
    assert "pass_score is 0.4 now; this run is judged by the one stored with it, 0.9" in said
