"""`agentv report`: whatever a run told at its end is told of the stored run, in every format."""

import json
from pathlib import Path

import pytest
from tests.carrying import Project

from agentv.pipeline.stored_report import load_report
from agentv.storage import RunFolder, open_run


def write(project: Project, *arguments: str) -> None:
    code, said = project.call("report", *arguments)
    assert code == 0, said


TIMES = ("then", "now")


def rounded(number: str) -> float:
    """Return a number without what is lost of a time when it is written as milliseconds."""
    return round(float(number), 9)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--gate", "mean >= 0.9", "--gate", "pass_rate >= 10%"),
        ("--gate", "none"),
        ("--gate", "cost_usd <= 1"),
        ("--trials", "2", "--name", "nightly"),
        ("--fail-fast",),
        ("--max-errors", "2"),
    ],
)
@pytest.mark.parametrize("broken", ["", "b", "a b c"])
def test_a_stored_run_is_told_as_it_was_at_its_end(project: Project, options: tuple[str, ...], broken: str) -> None:
    (project.folder / "broken").write_text(broken)
    code, _ = project.call("run", "suite.yaml", "-o", "then.json", "-o", "then.html", *options)
    write(project, "latest", "-o", "now.json", "-o", "now.html")
    assert (project.folder / "now.html").read_text() == (project.folder / "then.html").read_text()
    then, now = (json.loads((project.folder / f"{when}.json").read_text(), parse_float=rounded) for when in TIMES)
    assert now == then
    assert project.call("report", "--exit-code", "-o", "again.json")[0] == code
    assert json.loads((project.folder / "again.json").read_text())["exit_code"] == code


def test_rows_are_those_that_the_run_exported(project: Project) -> None:
    project.call("run", "suite.yaml", "-o", "then.jsonl", "-o", "then.yaml")
    write(project, "-o", "now.jsonl", "-o", "now.yaml")
    for suffix in ("jsonl", "yaml"):
        assert (project.folder / f"now.{suffix}").read_text() == (project.folder / f"then.{suffix}").read_text()


def test_without_a_file_the_end_of_the_run_is_printed_again(project: Project) -> None:
    _, said = project.call("run", "suite.yaml")
    code, told = project.call("report")
    assert code == 0
    assert said.endswith(told)


def test_a_run_that_was_killed_is_told_from_its_rows(project: Project) -> None:
    project.call("run", "suite.yaml", "--gate", "mean >= 0.5")
    project.forget("events.jsonl", [1, 2])
    project.forget("results.jsonl", [2])
    report = load_report(open_run(project.run))
    assert (report.state, report.exit_code) == ("interrupted", 130)
    assert report.verdict.sentence == "INTERRUPTED: 2 of 3 planned rows are kept."
    assert [gate.expression for gate in report.verdict.gates] == ["mean >= 0.5"]


def test_a_run_that_goes_on_is_not_told_with_the_verdict_of_before(project: Project) -> None:
    project.call("run", "suite.yaml")
    stored = open_run(project.run)
    store = RunFolder(project.run.parent, project.run.name, clock=lambda: stored.run.created_at)
    store.begin(stored.run)
    report = load_report(stored)
    store.close("interrupted")
    assert (report.state, report.exit_code) == ("running", 3)
    assert report.verdict.sentence.startswith("INCOMPLETE: the run is not over.")


def test_a_run_of_an_older_agentv_is_judged_by_its_own_options(project: Project) -> None:
    (project.folder / "broken").write_text("a")
    project.call("run", "suite.yaml", "--max-errors", "1")
    project.forget("events.jsonl", [1])
    report = load_report(open_run(project.run))
    assert (report.exit_code, report.verdict.sentence) == (
        0,
        "PASS: 2 of 2 judged rows passed (100 %). 1 row without a result.",
    )
    assert "an older agentv made this run" in report.notes[0]


def test_a_format_that_is_none_is_refused_before_anything_is_written(project: Project) -> None:
    project.call("run", "suite.yaml")
    code, said = project.call("report", "-o", "x.html", "-o", "x.pdf")
    assert code == 4
    assert "cannot tell the format of 'x.pdf'; a file for -o ends in .jsonl, " in said
    assert [path.name for path in Path.cwd().glob("*x.*")] == []
