"""`agentv baseline save`, and runs that are held against a baseline."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.carrying import Project

EVALUATORS = "{name: has, type: contains, value: answer}, {name: long, type: regex, pattern: '.{12}'}"


def last_run(project: Project) -> Path:
    return max((project.folder / ".agentv" / "runs").iterdir())


def test_the_same_run_gives_the_same_file_with_a_line_per_case(project: Project) -> None:
    project.cases = {"b": "question b", "a": "question a"}
    project.call("run", "suite.yaml", "--trials", "2")
    assert project.call("baseline", "save")[0] == 0
    first = (project.folder / "baseline.jsonl").read_text()
    code, said = project.call("baseline", "save", "latest", "-o", "again.jsonl", "--json")
    assert (code, json.loads(said)["cases"]) == (0, 2)
    assert (project.folder / "again.jsonl").read_text() == first
    assert "question" not in first
    assert "answer to" not in first
    head, *cases = map(json.loads, first.splitlines())
    assert head["schema"] == "agentv-baseline-1"
    assert [case["eval_id"] for case in cases] == ["a", "b"]
    assert (cases[0]["rows"], cases[0]["measures"]["score"], cases[0]["measures"]["evaluator:has"]) == (2, 1.0, 1.0)


def test_a_baseline_without_scores_is_refused_and_a_missing_one_is_named(project: Project) -> None:
    project.cases = {"b": "question b", "a": "question a"}
    (project.folder / "broken").write_text("a b")
    assert project.call("run", "suite.yaml")[0] == 3
    code, said = project.call("baseline", "save")
    assert (code, "has no score; a baseline needs results that were judged" in said) == (4, True), said
    assert not (project.folder / "baseline.jsonl").exists()
    (project.folder / "broken").write_text("a")
    assert project.call("run", "suite.yaml")[0] == 3
    code, said = project.call("baseline", "save")
    assert (code, "warning: 1 case of 2 without a score" in said) == (0, True), said


def test_a_file_as_the_run_is_answered_with_the_option_for_it(project: Project) -> None:
    assert project.call("run", "suite.yaml", "-o", "rows.jsonl")[0] == 0
    for name in ("main.jsonl", "rows.jsonl"):
        code, said = project.call("baseline", "save", name)
        assert (code, f"to write the latest run to it: agentv baseline save -o {name}" in said) == (4, True), said
    assert project.call("baseline", "save", "rows.jsonl", "-o", "main.jsonl")[0] == 0


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda lines: lines[:-1], ": the first line announces 2 cases, but 1 follow; write it again"),
        (lambda lines: [*lines, lines[-1]], ":4: case 'b' of suite.yaml, target 't', is listed twice"),
        (lambda lines: [each.replace('"score":1.0', '"score":7') for each in lines], ":2: the measure 'score' is 7"),
        (lambda lines: [*lines[:-1], lines[-1][:40]], ":3: "),
        (lambda lines: [*lines[:1], "<<<<<<< HEAD", *lines[1:]], ":2: JSON is malformed"),
    ],
)
def test_a_damaged_baseline_is_refused_and_hides_no_regression(
    project: Project, damage: Callable[[list[str]], list[str]], said: str
) -> None:
    project.cases = {"b": "question b", "a": "question a"}
    project.call("run", "suite.yaml")
    project.call("baseline", "save")
    file = project.folder / "baseline.jsonl"
    file.write_text("".join(f"{line}\n" for line in damage(file.read_text().splitlines())))
    for arguments in (("compare", "baseline.jsonl", "latest"), ("run", "suite.yaml", "--baseline", "baseline.jsonl")):
        code, printed = project.call(*arguments)
        assert (code, f"error: baseline.jsonl{said}" in printed) == (4, True), printed


def test_an_unfinished_baseline_is_reported_by_the_comparison(project: Project) -> None:
    project.call("run", "suite.yaml", "--name", "half", "--fail-fast")
    said = project.call("run", "suite.yaml", "--baseline", "half")[1]
    assert "did not finish" not in said
    (project.folder / "broken").write_text("a")
    project.call("run", "suite.yaml", "--name", "stopped", "--fail-fast")
    (project.folder / "broken").unlink()
    said = project.call("run", "suite.yaml", "--baseline", "stopped")[1]
    assert re.search(r"note: the baseline \S+ did not finish: its missing results are not compared", said)


def test_rows_of_another_program_are_held_to_the_range_of_scores(project: Project) -> None:
    (project.folder / "rows.jsonl").write_text('{"eval_id": "a", "score": 7}\n')
    code, printed = project.call("compare", "rows.jsonl", "rows.jsonl")
    assert (
        code,
        printed.startswith("error: rows.jsonl:1: expected a result with `eval_id` and a `score` of 0..1"),
    ) == (
        4,
        True,
    )


def test_a_run_is_held_against_a_run_a_tag_or_a_file(project: Project) -> None:
    project.call("run", "suite.yaml", "--name", "first")
    earlier = last_run(project).name
    project.call("runs", "tag", "latest", "good")
    project.call("baseline", "save")
    project.evaluators = EVALUATORS.replace(".{12}", "question a")
    for reference in ("first", "good", "baseline.jsonl", "latest", earlier):
        code, said = project.call("run", "suite.yaml", "--baseline", reference, "--gate", "regressions <= 2")
        assert (code, said.splitlines()[-1]) == (0, "PASS: regressions is 2, as required (<= 2). Exit code 0."), (
            reference
        )
        assert (
            "mean difference -0.33 (-1.00 to +1.00) over 3 cases in both\n          2 cases regressed, 0 improved"
            in said
        )
        (moved,) = (line.removeprefix("Changes: agentv ") for line in said.splitlines() if line.startswith("Changes"))
        assert "fell: 2" in project.call(*moved.split())[1]
        project.call("runs", "rm", "latest", "--yes")


def test_a_missing_case_is_no_regression_and_is_reported(project: Project) -> None:
    project.call("run", "suite.yaml")
    project.cases = {"a": "question a", "new": "question n"}
    code, said = project.call("run", "suite.yaml", "--baseline", "latest", "--gate", "regressions <= 0", "-o", "r.md")
    assert (code, "over 1 case in both, 2 only in the baseline\n" in said) == (0, True)
    assert "| mean score of 1 case in both, 2 only in the baseline |" in (project.folder / "r.md").read_text()
    project.call("report", "latest", "-o", "r.json")
    assert json.loads((project.folder / "r.json").read_text())["baseline"]["lost"] == 2


def test_the_differences_are_kept_with_the_run_and_reported_alike(project: Project) -> None:
    project.call("run", "suite.yaml")
    project.evaluators = EVALUATORS.replace(".{12}", "question a")
    project.call("run", "suite.yaml", "--baseline", "latest", "--gate", "none", "-o", "first.json")
    project.call("report", "latest", "-o", "later.json")
    first, later = (json.loads((project.folder / f"{name}.json").read_text()) for name in ("first", "later"))
    assert first["baseline"] == later["baseline"]
    assert (later["baseline"]["regressed"], later["baseline"]["evaluators"]) == (2, {"has": 0.0})


def test_latest_stays_the_run_that_it_was_when_the_run_is_taken_up_again(project: Project) -> None:
    project.call("run", "suite.yaml")
    earlier = last_run(project).name
    project.call("run", "suite.yaml", "--baseline", "latest")
    assert json.loads((last_run(project) / "run.json").read_text())["plan"]["options"]["baseline"] == earlier
    assert f"baseline  {earlier}" in project.call("resume", "latest")[1]
    project.call("runs", "rm", earlier, "--yes")
    code, said = project.call("resume", "latest")
    assert (code, f"no longer compared with its baseline {earlier}" in said) == (0, True)


def test_a_gate_on_regressions_needs_a_baseline_that_is_there(project: Project) -> None:
    code, said = project.call("run", "suite.yaml", "--gate", "regressions <= 0")
    assert (code, said) == (
        4,
        "error: gate 'regressions <= 0' needs a baseline; name the earlier run with --baseline RUN\n",
    )
    code, said = project.call("run", "suite.yaml", "--baseline", "nightly")
    tag = "To give a run this tag: agentv runs tag RUN nightly"
    assert (code, said) == (4, f"error: there is no run 'nightly'; no run is stored yet. {tag}\n")


def test_exported_rows_and_rows_of_older_programs_are_compared_too(project: Project) -> None:
    project.call("run", "suite.yaml", "-o", "rows.jsonl")
    (project.folder / "older.jsonl").write_text('{"evalId": "a", "score": 0.5}\n{"test_id": "b", "score": 1}\n')
    code, said = project.call("compare", "older.jsonl", "rows.jsonl", "--format", "agentv-ts")
    assert (code, json.loads(said)["summary"]) == (
        0,
        {"total": 5, "matched": 2, "wins": 1, "losses": 0, "ties": 1, "meanDelta": 0.25},
    )


def test_a_file_that_cannot_be_read_is_named_with_its_line(project: Project) -> None:
    path = project.folder / "bad.jsonl"
    for text, problem in (
        ('{"eval_id": "a", "score": 1}\n{"score": 1}\n', "bad.jsonl:2: expected a result with `eval_id` and a `score`"),
        ("nonsense\n", "bad.jsonl:1: "),
        ('{"schema": "agentv-baseline-2"}\n', "upgrade agentv"),
    ):
        path.write_text(text)
        code, said = project.call("compare", "bad.jsonl", "bad.jsonl")
        assert (code, problem in said) == (4, True), said


def test_shards_and_retries_are_compared_with_the_baseline_as_one_run(project: Project) -> None:
    project.call("run", "suite.yaml")
    project.call("baseline", "save")
    held = ("--baseline", "baseline.jsonl", "--gate", "regressions <= 0", "--display", "none")
    project.evaluators = EVALUATORS.replace(".{12}", "question a")
    for part in ("1/2", "2/2"):
        project.call("run", "suite.yaml", "--shard", part, *held)
    code, said = project.call("merge", "latest~1", "latest")
    assert (code, "over 3 cases in both\n          2 cases regressed, 0 improved" in said) == (1, True), said
    project.evaluators = "{name: has, type: contains, value: answer}"
    code, said = project.call("rescore", "latest")
    assert (code, said.splitlines()[-1]) == (
        0,
        "PASS: regressions is 0, as required (<= 0). Answers were rescored 1 time. Exit code 0.",
    )


def test_a_baseline_counts_the_trials_of_its_run(project: Project) -> None:
    project.cases = {"a": "question a"}
    project.call("run", "suite.yaml", "--trials", "3", "-o", "rows.jsonl")
    rows = [json.loads(line) for line in (project.folder / "rows.jsonl").read_text().splitlines()]
    for row in rows[:1]:
        row.update(score=0.0, status="fail", verdict="fail")
    (project.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert project.call("baseline", "save", "rows.jsonl", "-o", "baseline.jsonl")[0] == 0
    project.evaluators = "{name: has, type: contains, value: nothing of it}"
    project.call("run", "suite.yaml", "--trials", "3")
    for before in ("rows.jsonl", "baseline.jsonl"):
        assert "2 of 3 -> 0 of 3 trials passed" in project.call("compare", before, "latest")[1], before


def test_a_baseline_keeps_the_number_of_errors(project: Project) -> None:
    project.cases = {"a": "question a", "b": "question b"}
    (project.folder / "broken").write_text("a")
    project.call("run", "suite.yaml", "--trials", "2")
    project.call("baseline", "save")
    (project.folder / "broken").unlink()
    said = project.call("compare", "baseline.jsonl", "latest")[1]
    assert "without a result before: 1" in said, said
    file = project.folder / "baseline.jsonl"
    file.write_text(file.read_text().replace('"without_result":2', '"without_result":-2'))
    code, said = project.call("compare", "baseline.jsonl", "latest")
    assert (code, "baseline.jsonl:2: 'without_result' is -2, not a whole number of 0 to 1,000,000" in said) == (4, True)
