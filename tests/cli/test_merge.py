"""`agentv run --shard` and `agentv merge`: parts of a run that make the whole, with one verdict."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.carrying import Project

from agentv.engine.planning.selection import parse_shard
from agentv.storage.run.find import list_runs
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError
from agentv.version import __version__

JUDGED = """
from pathlib import Path

def answer(request):
    return "answer" if request.eval_case_id not in (Path(__file__).parent / "wrong").read_text().split() else "no"
"""
CASE = {"expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}


def write_stream(
    project: Project, *, gate: str = "pass_rate >= 81%", cases: int = 60, wrong: Sequence[int] = ()
) -> None:
    """Write a dataset in JSON Lines with a gate, and a target that answers some cases wrongly."""
    lines = (json.dumps({"id": f"c{number}", **CASE}) for number in range(cases))
    (project.folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
    write_side_file(project, gate)
    (project.folder / "agent.py").write_text(JUDGED)
    (project.folder / "wrong").write_text(" ".join(f"c{number}" for number in wrong))


def write_side_file(project: Project, gate: str, *, pass_score: float = 0.9) -> None:
    (project.folder / "cases.yaml").write_text(
        f"gates: ['{gate}']\nexecution: {{pass_score: {pass_score}, evaluators: [{project.evaluators}]}}\n"
    )


def run_shard(project: Project, shard: str, *options: str) -> str:
    """Run one shard of the dataset; return its run id."""
    project.call("run", "cases.jsonl", "--shard", shard, "--gate", "none", "--display", "none", *options)
    return runs(project)[-1].run_id


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
    assert "are not shards of one run: eval file suite.yaml was edited" in said
    code, said = project.call("merge", first, other, "--allow-mixed")
    assert (code, "INCOMPLETE: the merged runs are not shards of one run: eval file suite.yaml" in said) == (3, True)


def test_results_of_an_attached_file_that_was_edited_are_not_merged(project: Project) -> None:
    (project.folder / "note.txt").write_text("one")
    content = "[{type: file, value: note.txt}]"
    case = f"{{id: a, expected_outcome: x, input_messages: [{{role: user, content: {content}}}]}}"
    (project.folder / "notes.yaml").write_text(
        f"execution: {{evaluators: [{project.evaluators}]}}\nevalcases: [{case}]"
    )
    assert project.call("run", "notes.yaml", "--display", "none")[0] == 0
    (project.folder / "note.txt").write_text("two")
    assert project.call("run", "notes.yaml", "--display", "none")[0] == 0
    code, said = project.call("merge", "latest~1", "latest")
    assert (code, "two runs have different results of the same case: notes.yaml a (t, trial 1)" in said) == (4, True)


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


def test_a_run_without_a_shard_is_marked_by_comparisons_and_passes_none_of_their_gates(project: Project) -> None:
    project.cases = {f"c{number}": f"question {number}" for number in range(9)}
    project.call("run", "suite.yaml", "--name", "old")
    make_parts(project, 3, "--gate", "none")
    *_, first, _, third = runs(project)
    assert project.call("merge", first.run_id, third.run_id, "--name", "new")[0] == 3
    new = runs(project)[-1].run_id
    for names in (("old", "new"), ("new", "old"), ("old", "new", "old")):
        code, said = project.call("compare", *names, "--gate", "regressions <= 0")
        assert (code, "PASS" in said.splitlines()[-1], f"{new} lacks planned results" in said) == (3, False, True), said
    assert project.call("compare", "old", "new", "--by", "suite", "--gate", "regressions <= 0")[0] == 3
    code, said = project.call("compare", "old", "new")
    assert (code, f"after   {new} new, lacks planned results" in said) == (0, True), said
    sides = json.loads(project.call("compare", "old", "new", "--json")[1])
    assert (sides["before"]["state"], sides["after"]["state"]) == ("finished", "incomplete")
    assert (
        f"run {new} lacks planned results: the baseline has only its stored"
        in project.call("baseline", "save", "new")[1]
    )
    said = project.call("run", "suite.yaml", "--baseline", "new")[1]
    assert f"the baseline {new} lacks planned results: its missing results are not compared" in said
    assert project.call("resume", "new")[0] == 0
    assert project.call("compare", "old", "new", "--gate", "regressions <= 0")[0] == 0


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
    gate = {"expression": "pass_rate >= 90%", "suite": None}
    assert whole.run.plan["gates"] == [gate]
    assert "PASS: pass_rate" in project.call("report", whole.run_id)[1]


def test_runs_without_gates_that_are_no_shards_stay_without(project: Project) -> None:
    for _ in range(2):
        assert project.call("run", "suite.yaml", "--gate", "none", "--display", "none")[0] == 0
    assert "NO GATE" in project.call("merge", "latest", "latest~1")[1]


def test_a_missing_shard_of_a_stream_is_an_incomplete_run(project: Project) -> None:
    """The cases of the missing shard would have failed the gate."""
    shards = [parse_shard(f"{number}/3") for number in (1, 2, 3)]
    wrong = [number for number in range(60) if shards[2].includes("cases.jsonl", f"c{number}")][:12]
    write_stream(project, wrong=wrong)
    first, second, third = (run_shard(project, f"{number}/3") for number in (1, 2, 3))
    code, said = project.call("merge", first, second)
    assert (code, "of 60 planned results are complete" in said) == (3, True), said
    assert "no run of shard 3/3 was named" in said
    merged = runs(project)[-1]
    assert project.call("report", merged.run_id, "--exit-code")[0] == 3
    for references in ((first, third), (third, second)):  # whatever the gate says of the others
        code, said = project.call("merge", *references)
        assert (code, "INCOMPLETE: only " in said) == (3, True), said
        assert project.call("report", "latest", "--exit-code")[0] == 3
    code, said = project.call("merge", first, second, third)
    assert (code, "FAIL: pass_rate is 80 %" in said) == (1, True), said
    code, said = project.call("resume", merged.run_id)
    assert (code, "FAIL: pass_rate is 80 %" in said) == (1, True), said


def test_shards_of_different_splits_are_incomplete_unless_they_have_all_cases(project: Project) -> None:
    write_stream(project)
    third, half, other_half = (run_shard(project, shard) for shard in ("1/3", "2/2", "1/2"))
    code, said = project.call("merge", third, half)
    assert (code, "of 60 planned results are complete" in said) == (3, True), said
    assert project.call("merge", half, third, other_half)[0] == 0


def test_a_stream_with_trials_records_how_many_results_its_shards_have(project: Project) -> None:
    write_stream(project, cases=20)
    for number in (1, 2):
        run_shard(project, f"{number}/2", "--trials", "3")
    reported = [next(event.fields for event in run.events() if event.type == "reported") for run in runs(project)]
    assert {fields["planned_in_all_shards"] for fields in reported} == {60}
    assert sum(int(str(fields["planned"])) for fields in reported) == 60


def edit_dataset(project: Project) -> None:
    (project.folder / "cases.jsonl").write_text((project.folder / "cases.jsonl").read_text() + "\n")


def edit_pass_score(project: Project) -> None:
    write_side_file(project, "pass_rate >= 81%", pass_score=0.1)


def edit_gate(project: Project) -> None:
    write_side_file(project, "pass_rate >= 1%")


def edit_script(project: Project) -> None:
    (project.folder / "agent.py").write_text(JUDGED + "# edited")


def edit_target(project: Project) -> None:
    targets = project.folder / "targets.yaml"
    targets.write_text(targets.read_text().replace("'agent.py:answer'", "'agent.py:answer', timeout_seconds: 7"))


def use_other_version(project: Project) -> None:
    path = runs(project)[0].folder / "run.json"
    path.write_text(path.read_text().replace(f'"agentv_version": "{__version__}"', '"agentv_version": "0.0.9"'))


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (edit_dataset, "eval file cases.jsonl was edited"),
        (edit_pass_score, "pass_score of cases.jsonl (0.9 and 0.1)"),
        (edit_gate, "the gates of the files differ"),
        (edit_script, "script of target t: agent.py was edited"),
        (edit_target, "target t was edited"),
        (use_other_version, f"agentv 0.0.9 and {__version__}"),
    ],
)
def test_shards_made_from_edited_files_are_refused_by_name(
    project: Project, edit: Callable[[Project], None], named: str
) -> None:
    write_stream(project)
    first = run_shard(project, "1/2")
    edit(project)
    second = run_shard(project, "2/2")
    code, said = project.call("merge", first, second)
    assert (code, "are not shards of one run" in said, named in said) == (4, True, True), said
    assert len(runs(project)) == 2
    code, said = project.call("merge", first, second, "--allow-mixed")
    assert (code, "INCOMPLETE: the merged runs are not shards of one run" in said, named in said) == (3, True, True)
    assert project.call("report", "latest", "--exit-code")[0] == 3


def test_a_dataset_that_was_edited_between_shards_is_refused_by_name(project: Project) -> None:
    write_stream(project)
    Path("suite.yaml").unlink(missing_ok=True)
    (project.folder / "whole.yaml").write_text(
        f"execution: {{evaluators: [{project.evaluators}]}}\nevalcases: cases.jsonl\n"
    )
    for number in (1, 2):
        assert project.call("run", "whole.yaml", "--shard", f"{number}/2", "--display", "none")[0] == 0
        edit_dataset(project)
    code, said = project.call("merge", "latest~1", "latest")
    assert (code, "file cases.jsonl was edited" in said) == (4, True), said


def test_a_merged_run_is_judged_by_what_its_shards_stored(project: Project) -> None:
    """Neither edited gates nor a dataset that was cut since change the verdict of the shards."""
    write_stream(project, wrong=range(48, 60))
    first, second = run_shard(project, "1/2"), run_shard(project, "2/2")
    write_stream(project, gate="pass_rate >= 1%", cases=40)
    code, said = project.call("merge", first, second)
    assert (code, "FAIL: pass_rate is 80 %" in said) == (1, True), said
    assert "the gates of the eval files have changed since this run began" in said
    assert "from 'pass_rate >= 81%' to 'pass_rate >= 1%'" in said
