"""`agentv run --shard` and `agentv merge`: parts of a run that make the whole, with one verdict."""

import json
from pathlib import Path

import pytest
from tests.support.carrying import Project

from agentv.engine.planning.selection import parse_shard
from agentv.storage.run.find import list_runs
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError


def runs(project: Project) -> list[StoredRun]:
    return [open_run(listed.folder) for listed in list_runs(project.folder / ".agentv")]


def make_parts(project: Project, count: int, *options: str) -> list[str]:
    """Run all shards; return the cases that were called."""
    for number in range(1, count + 1):
        code, said = project.call("run", "suite.yaml", "--shard", f"{number}/{count}", "--display", "none", *options)
        assert code == 0, said
    return project.calls()


def test_parts_make_the_whole_with_one_verdict(project: Project) -> None:
    project.cases = {f"c{number}": f"question {number}" for number in range(30)}
    assert sorted(make_parts(project, 3)) == sorted(project.cases)
    parts = runs(project)
    assert all(0 < len(list(part.results())) < 30 for part in parts)
    code, said = project.call("merge", *(part.run_id for part in parts), "--name", "whole")
    assert code == 0, said
    assert "PASS: 30 of 30 judged results passed" in said
    whole = runs(project)[-1]
    assert (whole.run.name, whole.run.parents) == ("whole", tuple(part.run_id for part in parts))
    rows = list(whole.results())
    assert {row.eval_id for row in rows} == project.cases.keys()
    assert {row.run_id for row in rows} == {part.run_id for part in parts}
    answers = whole.answers_at({row.answer_seq for row in rows if row.answer_seq is not None})
    assert all(answers[row.answer_seq or 0].slot == row.slot for row in rows)
    events = [event.fields for event in whole.events() if event.type == "merged"]
    assert [(event["run_id"], event["shard"]) for event in events] == [
        (part.run_id, f"{number}/3") for number, part in enumerate(parts, start=1)
    ]
    assert project.call("resume", "whole")[0] == 0
    assert project.calls() == []


def test_a_missing_part_is_an_incomplete_run_that_resume_completes(project: Project) -> None:
    project.cases = {f"c{number}": f"question {number}" for number in range(30)}
    make_parts(project, 3)
    first, second, _ = (run.run_id for run in runs(project))
    code, said = project.call("merge", first, second)
    assert (code, "INCOMPLETE: only " in said) == (3, True)
    assert project.call("resume", "latest")[0] == 0
    assert 0 < len(project.calls()) < 30


@pytest.mark.parametrize("number", [-1, 99, 10**30])
def test_a_result_whose_answer_is_missing_is_named_and_nothing_is_merged(project: Project, number: int) -> None:
    project.cases = {f"c{number}": f"question {number}" for number in range(30)}
    make_parts(project, 2)
    first, second = runs(project)
    path = second.folder / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["answer_ref"]["seq"] = number
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (second.folder / "events.jsonl").write_text("")  # which has the checksums of an unedited file
    code, said = project.call("merge", first.run_id, second.run_id)
    assert code == 3
    assert f"{second.folder}: the result of case {rows[0]['eval_id']!r} refers to answer {number}, which is not" in said
    assert len(runs(project)) == 2


def test_a_result_in_two_shards_is_taken_once_unless_it_differs(project: Project) -> None:
    for _ in range(2):
        assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.cases["b"] = "another question"
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    first, same, other = (run.run_id for run in runs(project))
    assert project.call("merge", first, same)[0] == 0
    assert len(list(runs(project)[-1].all_results())) == 3
    code, said = project.call("merge", first, other)
    assert code == 4
    assert "two runs have different results of the same case: suite.yaml b (t, trial 1)" in said


def test_runs_of_other_options_are_no_parts_of_one(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    assert project.call("run", "suite.yaml", "--display", "none", "--trials", "2")[0] == 0
    first, second = (run.run_id for run in runs(project))
    assert "were started with different options" in project.call("merge", first, second)[1]
    assert project.call("merge", first, first)[0] == 4


def test_a_part_of_a_stream_takes_its_cases_as_they_come(project: Project) -> None:
    case = {"expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}
    lines = (json.dumps({"id": f"c{number}", **case}) for number in range(40))
    (project.folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
    Path("cases.yaml").write_text(f"execution: {{evaluators: [{project.evaluators}]}}\n")
    for number in (1, 2):
        assert project.call("run", "cases.jsonl", "--shard", f"{number}/2", "--display", "none")[0] == 0
    assert sorted(project.calls()) == sorted(f"c{number}" for number in range(40))


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_part_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="shard must be I/N"):
        parse_shard(text)


def test_a_case_stays_in_its_part_wherever_it_stands() -> None:
    parts = [parse_shard(f"{number}/4") for number in range(1, 5)]
    taken = [[part.includes("s.yaml", f"c{number}") for part in parts].index(True) for number in range(400)]
    assert all(50 < taken.count(number) < 150 for number in range(4))


def test_shards_without_gates_make_a_run_with_the_gates_of_the_files(project: Project) -> None:
    """`--gate none` lets a shard pass whatever its part of the results is; the files say what the whole must reach."""
    project.cases = {f"c{number}": f"question {number}" for number in range(30)}
    (project.folder / ".agentv.yaml").write_text("gates: [pass_rate >= 90%]\n")
    make_parts(project, 2, "--gate", "none")
    code, said = project.call("merge", *(part.run_id for part in runs(project)))
    assert code == 0, said
    assert "PASS: pass_rate is 100 % (point estimate), as required (>= 90 %)" in said
    whole = runs(project)[-1]
    assert whole.run.plan["gates"] == [{"expression": "pass_rate >= 90%", "suite": None}]
    assert "PASS: pass_rate" in project.call("report", whole.run_id)[1]


def test_runs_without_gates_that_are_no_shards_stay_without(project: Project) -> None:
    for _ in range(2):
        assert project.call("run", "suite.yaml", "--gate", "none", "--display", "none")[0] == 0
    assert "NO GATE" in project.call("merge", "latest", "latest~1")[1]
