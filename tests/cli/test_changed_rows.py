"""The verdict of a stored run comes from its rows: a recorded one that they do not give is exit code 3."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.carrying import Project

RECORDED = "recorded at the end: PASS: 3 of 3 judged results passed (100 %). (exit code 0)"
CHANGED = "was changed after it was written"


def lines_of(project: Project, name: str = "results.jsonl") -> list[str]:
    return (project.run / name).read_text().splitlines(keepends=True)


def write_lines(project: Project, lines: list[str], name: str = "results.jsonl") -> None:
    (project.run / name).write_text("".join(lines))


def delete(project: Project) -> None:
    (project.run / "results.jsonl").unlink()


def empty(project: Project) -> None:
    write_lines(project, [])


def fail_one(project: Project) -> None:
    lines = lines_of(project)
    row = json.loads(lines[1]) | {"status": "fail", "score": 0.0, "verdict": "fail"}
    write_lines(project, [lines[0], json.dumps(row) + "\n", lines[2]])


def remove_the_middle(project: Project) -> None:
    lines = lines_of(project)
    write_lines(project, [lines[0], lines[2]])


def truncate(project: Project) -> None:
    path = project.run / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-40])


def swap_lines(project: Project) -> None:
    lines = lines_of(project)
    write_lines(project, [lines[1], lines[0], lines[2]])


def edit_a_reason(project: Project) -> None:
    lines = lines_of(project)
    row = json.loads(lines[1]) | {"candidate_answer": "never said"}
    write_lines(project, [lines[0], json.dumps(row) + "\n", lines[2]])


def append_a_row(project: Project) -> None:
    row = json.loads(lines_of(project)[0])
    row["slot"]["eval_id"] = row["eval_id"] = "later"
    write_lines(project, [*lines_of(project), json.dumps(row) + "\n"])


Damage = Callable[[Project], None]
CHANGES_NUMBERS = (delete, empty, fail_one, remove_the_middle, truncate)


@pytest.mark.parametrize("damage", CHANGES_NUMBERS)
def test_report_shows_both_verdicts_when_the_rows_give_another(project: Project, damage: Damage) -> None:
    assert project.call("run", "suite.yaml")[0] == 0
    damage(project)
    code, said = project.call("report", "--exit-code")
    assert code == 3
    assert RECORDED in said
    assert "INCOMPLETE: the stored results do not give the recorded verdict" in said
    code, said = project.call("report", "--exit-code", "--json")
    assert (code, json.loads(said)["exit_code"]) == (3, 3)


@pytest.mark.parametrize("damage", [swap_lines, edit_a_reason])
def test_report_warns_of_a_changed_file_with_equal_numbers(project: Project, damage: Damage) -> None:
    project.call("run", "suite.yaml")
    damage(project)
    code, said = project.call("report", "--exit-code")
    assert code == 0
    assert f"results.jsonl {CHANGED}" in said


def test_a_changed_answer_is_a_warning(project: Project) -> None:
    project.call("run", "suite.yaml")
    lines = lines_of(project, "answers.jsonl")
    write_lines(project, [lines[0].replace("question a", "question x"), *lines[1:]], "answers.jsonl")
    code, said = project.call("report", "--exit-code")
    assert (code, f"answers.jsonl {CHANGED}" in said, "results.jsonl" in said) == (0, True, False)


def test_a_recorded_sentence_alone_decides_nothing(project: Project) -> None:
    project.cases["b"] = "wrong"
    project.evaluators = "{name: has, type: contains, value: question}"
    assert project.call("run", "suite.yaml")[0] == 1
    path = project.run / "events.jsonl"
    path.write_text(path.read_text().replace("FAIL: 2 of 3", "PASS: 3 of 3"))
    code, said = project.call("report", "--exit-code")
    assert code == 1
    assert "FAIL: 2 of 3 judged results passed" in said
    assert f"events.jsonl {CHANGED}" in said


@pytest.mark.parametrize(
    "command", [("resume", "latest"), ("retry", "latest", "--case", "*"), ("rescore", "latest")], ids=lambda it: it[0]
)
def test_a_run_with_changed_rows_is_not_continued(project: Project, command: tuple[str, ...]) -> None:
    project.call("run", "suite.yaml")
    fail_one(project)
    before = (project.run / "results.jsonl").read_bytes()
    code, said = project.call(*command)
    assert code == 3
    assert RECORDED in said
    assert "delete" in said  # what to do: then every stored answer is scored again
    assert (project.run / "results.jsonl").read_bytes() == before


@pytest.mark.parametrize(("damage", "lost"), [(delete, 3), (empty, 3), (truncate, 1), (remove_the_middle, 1)])
def test_resume_scores_the_stored_answers_of_lost_rows(project: Project, damage: Damage, lost: int) -> None:
    project.call("run", "suite.yaml")
    project.calls()
    damage(project)
    code, said = project.call("resume", "latest")
    assert (code, project.calls()) == (0, [])
    assert f"{lost} stored answer" in said
    assert f"results.jsonl {CHANGED}" in said
    assert project.call("report", "--exit-code")[0] == 0


def test_resume_warns_of_a_changed_file_with_equal_numbers(project: Project) -> None:
    project.call("run", "suite.yaml")
    edit_a_reason(project)
    code, said = project.call("resume", "latest")
    assert (code, f"results.jsonl {CHANGED}" in said) == (0, True)
    code, said = project.call("report", "--exit-code")
    assert (code, f"results.jsonl {CHANGED}" in said) == (0, True)


def test_rows_appended_later_are_no_difference(project: Project) -> None:
    project.call("run", "suite.yaml")
    append_a_row(project)
    code, said = project.call("report", "--exit-code")
    assert (code, CHANGED in said) == (0, False)
    assert "4 of 4 judged results passed" in said


def test_a_result_that_is_appended_again_is_refused(project: Project) -> None:
    project.cases["b"] = "wrong"
    project.evaluators = "{name: has, type: contains, value: question}"
    assert project.call("run", "suite.yaml", "--gate", "pass_rate >= 80%")[0] == 1
    write_lines(project, [*lines_of(project), *lines_of(project)[:1] * 9])
    code, said = project.call("report", "--exit-code")
    assert code == 3
    assert "results.jsonl:4: repeats the result of case 'a' in line 1; delete the line" in " ".join(said.split())


def test_a_copied_run_is_reported_like_the_original(project: Project) -> None:
    project.call("run", "suite.yaml")
    _, said = project.call("report", "latest", "--json")
    copy = project.run.with_name("20300101T000000.000-abcdef")
    shutil.copytree(project.run, copy)
    code, again = project.call("report", str(copy), "--json", "--exit-code")
    folder = json.loads(said)["folder"]
    assert (code, json.loads(again) | {"folder": folder}) == (0, json.loads(said))


@pytest.mark.parametrize(
    "command",
    [
        ("rescore", "latest", "--evaluators", "new.yaml"),
        ("retry", "latest", "--case", "a"),
        ("resume", "latest"),
    ],
    ids=lambda it: it[0],
)
def test_a_continued_run_has_no_difference(project: Project, command: tuple[str, ...]) -> None:
    (project.folder / "new.yaml").write_text("evaluators: [{name: short, type: length, max: 1, unit: words}]")
    project.call("run", "suite.yaml")
    then, _ = project.call(*command)
    code, said = project.call("report", "--exit-code")
    assert (code, CHANGED in said, "do not give" in said) == (then, False, False)


def test_other_gates_at_a_resume_are_no_difference(project: Project) -> None:
    project.cases["b"] = "wrong"
    project.evaluators = "{name: has, type: contains, value: question}"
    assert project.call("run", "suite.yaml")[0] == 1
    (project.folder / ".agentv.yaml").write_text('gates: ["pass_rate >= 50%"]')
    code, said = project.call("resume", "latest")
    assert (code, "from the default gate to 'pass_rate >= 50%'" in said) == (1, True), said
    code, said = project.call("report", "--exit-code")
    assert (code, "do not give" in said) == (1, False)


def test_a_retry_without_a_removed_case_is_no_difference(project: Project) -> None:
    project.call("run", "suite.yaml")
    del project.cases["c"]
    project.call("retry", "latest", "--case", "a")
    code, said = project.call("report", "--exit-code")
    assert (code, "do not give" in said) == (0, False)


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_a_killed_run_is_resumed_with_right_checksums(project: Project, lines: int) -> None:
    project.call("run", "suite.yaml")
    project.forget("events.jsonl", range(1, 100))
    project.forget("results.jsonl", range(lines, 100))
    assert "not recorded" not in project.call("report")[1]
    assert project.call("resume", "latest")[0] == 0
    code, said = project.call("report", "--exit-code")
    assert (code, CHANGED in said) == (0, False)


def test_a_merge_refuses_a_shard_with_changed_rows(project: Project) -> None:
    for shard in ("1/2", "2/2"):
        assert project.call("run", "suite.yaml", "--shard", shard)[0] == 0
    runs = sorted((project.folder / ".agentv" / "runs").iterdir())
    rows = runs[0] / "results.jsonl"
    rows.write_text(rows.read_text().replace('"verdict":"pass"', '"verdict":"fail"'))
    code, said = project.call("merge", *(run.name for run in runs))
    assert (code, "do not give the recorded verdict" in said) == (3, True)
    assert sorted((project.folder / ".agentv" / "runs").iterdir()) == runs


def test_a_merged_run_has_right_checksums(project: Project) -> None:
    for shard in ("1/2", "2/2"):
        project.call("run", "suite.yaml", "--shard", shard)
    runs = sorted((project.folder / ".agentv" / "runs").iterdir())
    assert project.call("merge", *(run.name for run in runs))[0] == 0
    code, said = project.call("report", "--exit-code")
    assert (code, CHANGED in said, "not recorded" in said) == (0, False, False)


def test_a_folder_without_checksums_says_so(project: Project) -> None:
    project.call("run", "suite.yaml")
    events = project.stored("events.jsonl")
    for event in events:
        event.pop("checksums", None)
    (project.run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    code, said = project.call("report", "--exit-code")
    assert (code, "checksums of its files: not recorded" in said) == (0, True)


def test_a_gate_on_the_baseline_keeps_its_outcome(project: Project) -> None:
    project.call("run", "suite.yaml")
    gate = ("--baseline", "latest", "--gate", "regressions <= 0", "--gate", "pass_rate >= 100%")
    code, said = project.call("run", "suite.yaml", *gate)
    assert code == 0, said
    again = project.call("report", "--exit-code")
    assert again[0] == 0
    assert "regressions is 0, as required (<= 0)" in again[1]
    shutil.rmtree(min((project.folder / ".agentv" / "runs").iterdir()))
    assert project.call("report", "--exit-code") == again
    fail_one(project)
    assert project.call("report", "--exit-code")[0] == 3


OTHER_VERDICT = "the stored results do not give the recorded verdict"


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("show", "latest", "b"),
        ("show", "--failed"),
        ("show", "--by", "evaluator"),
        ("show", "--side-by-side"),
        ("compare", "latest", "latest"),
        ("trend",),
        ("baseline", "save"),
    ],
    ids=" ".join,
)
def test_commands_that_show_results_warn_of_edited_ones(project: Project, command: tuple[str, ...]) -> None:
    project.cases["d"] = "wrong"
    project.evaluators = "{name: has, type: contains, value: question}"
    project.call("run", "suite.yaml", "--gate", "pass_rate >= 75%")
    code, said = project.call(*command)
    assert (code, "warning" in said) == (0, False)
    fail_one(project)
    code, said = project.call(*command)
    assert code == 0
    assert said.count(f"warning: run {project.run.name}: results.jsonl {CHANGED}") == 1


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("show", "latest", "b"),
        ("report",),
        ("compare", "latest", "latest"),
        ("trend",),
        ("baseline", "save"),
        ("run", "suite.yaml", "--baseline", "latest"),
    ],
    ids=" ".join,
)
def test_a_row_that_can_no_longer_be_read_was_changed(project: Project, command: tuple[str, ...]) -> None:
    project.call("run", "suite.yaml")
    lines = lines_of(project)
    write_lines(project, [lines[0], lines[1].replace('"status":"pass"', '"status":7'), lines[2]])
    code, said = project.call(*command)
    assert (code, f"results.jsonl {CHANGED}" in " ".join(said.split())) == (0 if command == ("trend",) else 3, True)


def forget_checksums(project: Project) -> None:
    events = project.stored("events.jsonl")
    for event in events:
        event.pop("checksums", None)
    (project.run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def test_a_report_finds_edited_results_without_checksums(project: Project) -> None:
    project.call("run", "suite.yaml")
    forget_checksums(project)
    fail_one(project)
    code, said = project.call("report", "--exit-code")
    assert (code, OTHER_VERDICT in said) == (3, True)


def test_json_of_an_edited_run_has_its_edits(project: Project) -> None:
    project.call("run", "suite.yaml")
    run = project.run

    def edits(output: str) -> list[list[str]]:
        shown = json.loads(output[output.index("{") : output.rindex("}") + 1])
        points = [point for series in shown.get("series", ()) for point in series["points"]]
        return [each["edits"] for each in (shown, shown.get("after", {}), *points) if "edits" in each]

    commands = (
        ("show", "--json"),
        ("show", "latest", "a", "--json"),
        ("show", "--by", "target", "--json"),
        ("compare", run.name, run.name, "--json"),
        ("trend", "--json"),
    )
    for command in commands:
        assert edits(project.call(*command)[1]) == [[]]
    fail_one(project)
    for command in commands:
        ((changed,),) = edits(project.call(*command)[1])
        assert changed.startswith(f"results.jsonl {CHANGED}")


@pytest.mark.parametrize("format_name", ["text", "markdown", "html"])
def test_a_comparison_marks_an_edited_run(project: Project, format_name: str) -> None:
    project.call("run", "suite.yaml")
    original = project.run
    copy = original.with_name("20300101T000000.000-abcdef")
    shutil.copytree(original, copy)
    rows = copy / "results.jsonl"
    rows.write_text(rows.read_text().replace('"verdict":"pass"', '"verdict":"fail"'))
    _, said = project.call("compare", original.name, copy.name, "--format", format_name)
    assert "edited after it was written" in said


@pytest.mark.parametrize("damage", [fail_one, edit_a_reason])
@pytest.mark.parametrize("by", [(), ("--by", "target")], ids=" ".join)
def test_a_comparison_with_gates_of_an_edited_run_is_incomplete(
    project: Project, damage: Damage, by: tuple[str, ...]
) -> None:
    project.call("run", "suite.yaml")
    command = ("compare", "latest", "latest", "--gate", "regressions <= 0", *by)
    assert project.call(*command)[0] == 0
    damage(project)
    code, said = project.call(*command)
    assert (code, f"INCOMPLETE: {project.run.name}: results.jsonl {CHANGED}" in said) == (3, True), said


def test_a_trend_warns_of_rows_edited_with_their_old_time(project: Project) -> None:
    project.call("run", "suite.yaml")
    results = project.run / "results.jsonl"
    before = results.stat()
    fail_one(project)
    os.utime(results, ns=(before.st_atime_ns, before.st_mtime_ns))
    _, said = project.call("trend")
    assert said.count(f"warning: run {project.run.name}: results.jsonl {CHANGED}") == 1


def test_a_trend_counts_the_runs_without_checksums(project: Project) -> None:
    project.call("run", "suite.yaml")
    assert "no checksums are recorded" not in project.call("trend")[1]
    forget_checksums(project)
    project.call("run", "suite.yaml")
    assert (
        "note: no checksums are recorded for 1 of 2 runs; changed results cannot be detected there"
        in project.call("trend")[1]
    )


def test_a_run_with_an_edited_baseline_warns(project: Project) -> None:
    project.call("run", "suite.yaml")
    edited = project.run
    fail_one(project)
    _, said = project.call("run", "suite.yaml", "--baseline", edited.name)
    assert f"the baseline, run {edited.name}: results.jsonl {CHANGED}" in " ".join(said.split())


def test_an_edited_run_json_is_a_warning_and_its_tags_are_not(project: Project) -> None:
    project.call("run", "suite.yaml")
    assert project.call("runs", "tag", "latest", "kept")[0] == 0
    assert CHANGED not in project.call("report")[1]
    path = project.run / "run.json"
    path.write_text(path.read_text().replace('"path": "suite.yaml"', '"path": "other.yaml"'))
    assert f"run.json {CHANGED}" in project.call("report")[1]


def test_edited_labels_are_a_warning(project: Project, tmp_path: Path) -> None:
    project.call("run", "suite.yaml")
    scores = tmp_path / "scores.jsonl"
    for annotator in ("ada", "bob"):
        scores.write_text(f'{{"eval_id": "a", "criterion": "has", "score": 1, "annotator": "{annotator}"}}\n')
        assert project.call("label", "--in", str(scores))[0] == 0
    assert CHANGED not in project.call("report")[1]
    labels = project.run / "labels.jsonl"
    labels.write_text(labels.read_text().replace("bob", "eve"))
    assert f"labels.jsonl {CHANGED}: its first 2 lines are not as recorded" in project.call("report")[1]


def test_labels_of_an_unfinished_run_leave_its_lock_alone(project: Project, tmp_path: Path) -> None:
    project.call("run", "suite.yaml")
    lock = project.run / "lock"
    lock.write_text('{"pid":1,"host":"elsewhere","mark":"0123456789abcdef"}')
    scores = tmp_path / "scores.jsonl"
    scores.write_text('{"eval_id": "a", "criterion": "has", "score": 1, "annotator": "ada"}\n')
    code, said = project.call("label", "--in", str(scores))
    assert (code, "no checksum of labels.jsonl was recorded" in said) == (0, True)
    assert "elsewhere" in lock.read_text()
