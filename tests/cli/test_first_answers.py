"""A failed run cannot be made a pass by asking again: the first answers count, in every number and report."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.carrying import Project

from agentv.storage.run.stored import open_run

AGENT = """
from pathlib import Path
from random import Random

def answer(request):
    tries, rate, broken = Path("state").read_text().split(" ")
    if request.eval_case_id in broken.split(","):
        raise RuntimeError("out of order")
    return "yes" if Random(f"{request.eval_case_id} {tries} 49").random() < float(rate) else "no"
"""
TARGET = "targets: [{{name: t, provider: python, callable: 'agent.py:answer', timeout_seconds: {}}}]"
GATE = ("--gate", "pass_rate >= 90%", "--display", "none")


def set_agent(project: Project, *, tries: int, rate: float = 0.7, broken: str = "-") -> None:
    """Make the agent answer otherwise: each number of tries draws anew whether an answer is right."""
    (project.folder / "state").write_text(f"{tries} {rate} {broken}")


@pytest.fixture
def noisy(project: Project) -> Project:
    """A project of 60 cases whose agent is right in 70 % of them, drawn anew for each number of tries."""
    (project.folder / "agent.py").write_text(AGENT)
    (project.folder / "targets.yaml").write_text(TARGET.format(30))
    project.cases = {f"c{number}": f"question c{number}" for number in range(60)}
    project.evaluators = "{name: has, type: contains, value: yes}"
    set_agent(project, tries=0)
    return project


def rate_of(project: Project) -> float:
    """Return the pass rate in the report of the run."""
    (target,) = report_of(project)["targets"]
    return float(target["pass_rate"])


def report_of(project: Project) -> dict[str, Any]:
    _, said = project.call("report", "latest", "--json")
    found: dict[str, Any] = json.loads(said)
    return found


def test_failed_cases_that_are_retried_three_times_leave_the_run_as_it_was(noisy: Project) -> None:
    code, said = noisy.call("run", "suite.yaml", *GATE)
    assert (code, rate_of(noisy)) == (1, 0.7), said
    for tries in (1, 2, 3):
        set_agent(noisy, tries=tries)
        code, said = noisy.call("retry", "--failed")
        assert code == 1, said
        assert "pass_rate is 70 %" in said
        times = "" if tries == 1 else f" ({18 * tries} re-runs)"
        assert f"18 results were re-run{times}; first answers count." in " ".join(said.split())
    assert len(noisy.stored("results.jsonl")) == 60 + 3 * 18
    assert {row.get("rerun") for row in noisy.stored("results.jsonl")} == {None, "failed"}
    assert {row.get("rerun") for row in noisy.stored("answers.jsonl")} == {None, "failed"}
    found = report_of(noisy)
    assert (rate_of(noisy), found["exit_code"], found["reruns"]) == (0.7, 1, 18)
    assert found["counts"] == open_run(noisy.run).counts() == {"pass": 42, "fail": 18}
    changed = {row.eval_id for row in open_run(noisy.run).reruns() if row.verdict == "pass"}
    assert {case.split(" ")[0] for case in found["flaky"]} == changed
    assert len(changed) > 10


def test_cases_that_passed_are_retried_without_a_change_of_the_rate(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    set_agent(noisy, tries=0, rate=0.0)
    code, said = noisy.call("retry", "--case", "c*")
    assert (code, rate_of(noisy)) == (1, 0.7)
    assert "60 results were re-run" in " ".join(said.split())
    assert {row.get("rerun") for row in noisy.stored("results.jsonl")} == {None, "case"}


SKIPPING = """
import json, sys
answer = json.load(sys.stdin)["candidate_answer"]
print(json.dumps({"skipped": "no node here"} if answer == "no" else {"score": 1.0}))
"""


@pytest.mark.parametrize("command", [("retry", "--case", "c*"), ("resume", "latest", "--fresh")])
def test_an_answer_that_no_evaluator_scored_is_the_first_answer(noisy: Project, command: tuple[str, ...]) -> None:
    (noisy.folder / "judge.py").write_text(SKIPPING)
    noisy.evaluators = "{name: j, type: code_judge, script: [python, judge.py], required: false}"
    noisy.cases = {"c1": "one"}
    set_agent(noisy, tries=0, rate=0.0)
    noisy.call("run", "suite.yaml", "--gate", "none")
    (noisy.folder / "agent.py").write_text(AGENT + "\n# edited\n")
    set_agent(noisy, tries=1, rate=1.0)
    noisy.call(*command)
    assert report_of(noisy)["counts"] == {"skipped": 1}
    assert [row.rerun for row in open_run(noisy.run).reruns()] == [{"retry": "case", "resume": "fresh"}[command[0]]]


def test_an_edited_agent_and_fresh_leave_the_first_answers(noisy: Project) -> None:
    set_agent(noisy, tries=0, rate=0.35)
    noisy.call("run", "suite.yaml", *GATE)
    before = rate_of(noisy)
    (noisy.folder / "agent.py").write_text(AGENT + "\n# edited\n")
    set_agent(noisy, tries=1, rate=1.0)
    code, said = noisy.call("resume", "latest", "--fresh")
    assert (code, rate_of(noisy), before < 0.5) == (1, before, True)
    assert "start a new run with: agentv run" in " ".join(said.split())
    assert "60 results were re-run; first answers count." in " ".join(said.split())
    assert len(noisy.stored("answers.jsonl")) == 120


def test_a_target_with_other_settings_is_asked_once_and_changes_no_rate(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    for timeout_s, answers in ((31, 120), (31, 120), (32, 180), (31, 180)):
        (noisy.folder / "targets.yaml").write_text(TARGET.format(timeout_s))
        set_agent(noisy, tries=timeout_s, rate=1.0)
        code, said = noisy.call("resume", "latest")
        assert (code, rate_of(noisy), len(noisy.stored("answers.jsonl"))) == (1, 0.7, answers), said
    assert {row.get("rerun") for row in noisy.stored("results.jsonl")} == {None, "fresh"}
    noisy.evaluators = "{name: has, type: contains, value: no}"
    assert noisy.call("resume", "latest")[0] == 1  # the first answers are judged again, whatever the target is now
    assert len(noisy.stored("answers.jsonl")) == 180
    assert rate_of(noisy) == pytest.approx(0.3)


def test_a_baseline_and_a_trend_have_the_first_numbers(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    set_agent(noisy, tries=1, rate=1.0)
    noisy.call("retry", "--failed")
    assert noisy.call("baseline", "save", "latest", "-o", "base.jsonl")[0] == 0
    saved = [json.loads(line) for line in Path("base.jsonl").read_text().splitlines()]
    rows = [row for row in saved if "eval_id" in row]
    assert (len(rows), sum(row["measures"]["pass"] for row in rows)) == (60, 42)
    assert "70" in noisy.call("trend")[1]
    assert noisy.call("runs", "list", "--json")[1].count('"pass": 42') == 1


def test_an_export_leaves_reruns_out_unless_they_are_asked_for(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    set_agent(noisy, tries=1)
    noisy.call("retry", "--failed", "-o", "now.jsonl")
    noisy.call("report", "latest", "-o", "rows.jsonl", "-o", "rows.csv")
    noisy.call("report", "latest", "-o", "all.jsonl", "--include-reruns")
    for name, expected in (("now.jsonl", 60), ("rows.jsonl", 60), ("all.jsonl", 78)):
        lines = [json.loads(line) for line in Path(name).read_text().splitlines()]
        assert len(lines) == expected, name
        assert sum("rerun" in line for line in lines) == expected - 60
    assert len(Path("rows.csv").read_text().splitlines()) == 61
    _, said = noisy.call("compare", "rows.jsonl", "all.jsonl", "--json")
    assert (json.loads(said)["ties"], json.loads(said)["regressed"]) == (60, [])


def test_a_missing_answer_is_supplied_and_counts(noisy: Project) -> None:
    set_agent(noisy, tries=0, broken="c1,c2,c3")
    assert noisy.call("run", "suite.yaml", *GATE)[0] == 1
    assert report_of(noisy)["counts"]["error"] == 3
    set_agent(noisy, tries=0)
    assert noisy.call("retry", "--errors")[0] == 1
    assert (rate_of(noisy), "reruns" in report_of(noisy)) == (0.7, False)
    assert all("rerun" not in row for row in noisy.stored("results.jsonl"))


def test_of_an_edited_question_the_first_answer_counts(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    set_agent(noisy, tries=1, rate=1.0)
    noisy.call("retry", "--failed")
    failed = [row.eval_id for row in open_run(noisy.run).results() if row.verdict == "fail"]
    noisy.cases[failed[0]] += " reworded"
    noisy.call("resume", "latest")
    assert open_run(noisy.run).counts() == {"pass": 43, "fail": 17}
    assert report_of(noisy)["reruns"] == 17
    set_agent(noisy, tries=1, rate=0.0)
    noisy.call("retry", "--case", failed[0])
    assert open_run(noisy.run).counts() == {"pass": 43, "fail": 17}


def test_a_renamed_eval_file_keeps_its_first_answers(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    (noisy.folder / "suite.yaml").unlink()
    noisy.suite = "other.yaml"
    (noisy.folder / "agent.py").write_text(AGENT + "\n# edited\n")
    (noisy.folder / "targets.yaml").write_text(TARGET.format(31))
    set_agent(noisy, tries=1, rate=1.0)
    run_json = noisy.run / "run.json"
    run_json.write_text(run_json.read_text().replace('"paths":["suite.yaml"]', '"paths":["other.yaml"]'))
    noisy.call("resume", "latest", "--fresh")
    assert open_run(noisy.run).counts() == {"pass": 42, "fail": 18}


def test_an_interrupted_retry_goes_on_with_the_cases_that_it_has_not_asked(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    set_agent(noisy, tries=1)
    noisy.call("retry", "--failed")
    events = noisy.stored("events.jsonl")
    begun = max(number for number, event in enumerate(events) if event["type"] == "generation_started")
    noisy.forget("events.jsonl", range(begun + 1, len(events)))
    noisy.forget("results.jsonl", range(70, 78))
    noisy.forget("answers.jsonl", range(70, 78))
    code, said = noisy.call("resume", "latest")
    assert (code, len(noisy.stored("answers.jsonl")), len(noisy.stored("results.jsonl"))) == (1, 78, 78), said
    assert report_of(noisy)["reruns"] == 18


def as_of_an_older_version(project: Project) -> None:
    """Make the run one of a version in which the newest answer counted, and passed its gate."""
    for name in ("results.jsonl", "answers.jsonl"):
        lines = [{key: line[key] for key in line if key != "rerun"} for line in project.stored(name)]
        (project.run / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    events = project.stored("events.jsonl")
    for event in events:
        event.pop("checksums", None)
    *_, reported = (event for event in events if event["type"] == "reported")
    reported["counts"] = {"pass": 60, "borderline": 0, "fail": 0, "error": 0, "skipped": 0}
    reported["exit_code"] = 0
    reported["gates"][0] |= {"passed": True, "value": 1.0}
    del reported["gates"][0]["state"]
    (project.run / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))


def test_a_run_of_an_older_version_is_counted_by_its_first_answers(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    set_agent(noisy, tries=1, rate=1.0)
    noisy.call("retry", "--failed")
    as_of_an_older_version(noisy)
    found = report_of(noisy)
    assert (rate_of(noisy), found["exit_code"], found["reruns"]) == (0.7, 1, 18)
    assert "counted the newest answers; now the first answers count" in " ".join(found["notes"])
    assert noisy.call("runs", "list", "--json")[1].count('"pass": 42') == 1
    assert [row.rerun for row in open_run(noisy.run).reruns()] == ["failed"] * 18
    set_agent(noisy, tries=2)
    code, said = noisy.call("retry", "--failed")
    assert (code, "pass_rate is 70 %" in said, "18 results were re-run" in " ".join(said.split())) == (1, True, True)
    assert report_of(noisy)["exit_code"] == 1


def test_an_older_run_whose_rows_were_edited_is_still_refused(noisy: Project) -> None:
    noisy.call("run", "suite.yaml", *GATE)
    set_agent(noisy, tries=1, rate=1.0)
    noisy.call("retry", "--failed")
    as_of_an_older_version(noisy)
    results = noisy.run / "results.jsonl"
    lines = noisy.stored("results.jsonl")
    passed = next(line for line in lines if line["verdict"] == "pass")
    passed |= {"status": "error", "score": None, "verdict": None, "error": {"kind": "auth", "message": "x"}}
    results.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert report_of(noisy)["exit_code"] == 3


def test_replay_uses_the_answers_that_count(project: Project) -> None:
    project.cases = {"a": "one"}
    project.call("run", "suite.yaml")
    for question in ("two", "one"):  # edited and back: the first answer to the question as it is now counts
        project.cases = {"a": question}
        project.call("resume", "latest")
    assert [answer["text"] for answer in project.stored("answers.jsonl")] == ["answer to one", "answer to two"]
    run = open_run(project.run)
    assert [row.candidate_answer for row in run.results()] == ["answer to one"]
    assert [answer.text for answer in run.answers()] == ["answer to one"]
    (project.folder / "targets.yaml").write_text(
        f"targets: [{{name: t, provider: replay, run: {project.run.name}, recorded_target: t}}]"
    )
    project.evaluators = "{name: same, type: contains, value: answer to one}"
    code, said = project.call("run", "suite.yaml", "--name", "again")
    assert code == 0, said
