"""`agentv report`: every format of a stored run has what the run printed at its end."""

import html
import json
import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from tests.support.carrying import Project

from agentv.engine.stored.report import load_report
from agentv.reports.text.amounts import percent_text
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import open_run

TALKING_AGENT = """
def answer(request):
    call = {"tool": "lookup", "input": {"id": 1}}
    said = f"answer to {request.question}"
    return {"text": said, "output_messages": [{"role": "assistant", "content": said, "tool_calls": [call]}]}
"""


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
def test_a_stored_run_is_reported_as_at_its_end(project: Project, options: tuple[str, ...], broken: str) -> None:
    (project.folder / "broken").write_text(broken)
    code, _ = project.call("run", "suite.yaml", "-o", "then.json", "-o", "then.html", *options)
    write(project, "latest", "-o", "now.json", "-o", "now.html")
    assert (project.folder / "now.html").read_text() == (project.folder / "then.html").read_text()
    then, now = (json.loads((project.folder / f"{when}.json").read_text(), parse_float=rounded) for when in TIMES)
    assert now == then
    assert project.call("report", "--exit-code", "-o", "again.json")[0] == code
    assert json.loads((project.folder / "again.json").read_text())["exit_code"] == code


STATES = ("pass", "fail", "error")


class RunNotes(NamedTuple):
    """The content of a run's report in one format."""

    sentence: str
    exit_code: int
    counts: tuple[int, ...]
    """Of rows that passed, failed, and have no result."""
    pass_rate: str


def read_terminal(text: str) -> RunNotes:
    (line,) = (line for line in text.splitlines() if line.startswith("t: "))
    verdict = re.fullmatch(r"(.*) Exit code (\d+)\.", text.splitlines()[-1])
    assert verdict is not None
    return RunNotes(verdict[1], int(verdict[2]), *read_target(line))


def read_target(line: str) -> tuple[tuple[int, ...], str]:
    """Return the counts and the pass rate in the line of a target."""
    rate = re.search(r"(\d+) of (\d+) passed", line)
    errors = re.search(r"(\d+) error", line)
    passed, judged = (0, 0) if rate is None else map(int, rate.groups())
    shown = f"{percent_text(passed / judged)} of {judged}" if judged else "none judged"
    return (passed, judged - passed, int(errors[1]) if errors else 0), shown


def read_markdown(text: str) -> RunNotes:
    verdict = re.search(r"^\*\*`(.*)` Exit code (\d+)\.\*\*$", text, re.MULTILINE)
    assert verdict is not None
    (line,) = (line for line in text.splitlines() if line.startswith("`t`: "))
    return RunNotes(verdict[1], int(verdict[2]), *read_target(line))


def read_page(text: str) -> RunNotes:
    verdict = re.search(r"<h1[^>]*>(.*?) Exit code (\d+)\.</h1>", text)
    assert verdict is not None
    states = re.findall(r'data-state="(\w+)"', text)
    (rate,) = re.findall(r'<th scope="row">pass rate</th><td><span>(.*?)</span>', text)
    counts = tuple(states.count(state) for state in STATES)
    return RunNotes(html.unescape(verdict[1]), int(verdict[2]), counts, rate)


def read_junit(text: str) -> RunNotes:
    root = ET.fromstring(text.encode())
    properties = {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}
    tests, failed, errors = (int(root.attrib[name]) for name in ("tests", "failures", "errors"))
    passed = tests - failed - errors
    rate = f"{percent_text(passed / (passed + failed))} of {passed + failed}" if passed + failed else "none judged"
    return RunNotes(properties["agentv.verdict"], int(properties["agentv.exit_code"]), (passed, failed, errors), rate)


def read_json(text: str) -> RunNotes:
    report = json.loads(text)
    (target,) = report["targets"]
    rate = (
        "none judged" if target["pass_rate"] is None else f"{percent_text(target['pass_rate'])} of {target['judged']}"
    )
    counts = tuple(target["counts"].get(state, 0) for state in STATES)
    return RunNotes(report["verdict"], report["exit_code"], counts, rate)


def read_sarif(text: str, like: RunNotes) -> RunNotes:
    (run,) = json.loads(text)["runs"]
    (invocation,) = run["invocations"]
    rules = [result["ruleId"] for result in run["results"]]
    counts = (like.counts[0], *(rules.count(f"agentv/{state}") for state in STATES[1:]))
    return RunNotes(invocation["exitCodeDescription"], invocation["exitCode"], counts, like.pass_rate)


@pytest.mark.parametrize(
    ("options", "wrong", "broken", "exit_code"),
    [
        ((), "", "", 0),
        ((), "b", "", 1),
        ((), "", "b", 3),
        ((), "a", "b", 1),
        ((), "", "a b c", 3),
        (("--max-errors", "1"), "", "b", 0),
        (("--gate", "pass_rate >= 50%"), "a", "", 0),
        (("--gate", "pass_rate >= 90%", "--gate", "mean >= 0.5"), "a", "", 1),
        (("--gate", "none"), "a b c", "", 0),
        (("--fail-fast", "--gate", "none"), "a", "", 2),
    ],
)
def test_every_format_has_the_same_numbers(
    project: Project, options: tuple[str, ...], wrong: str, broken: str, exit_code: int
) -> None:
    (project.folder / "broken").write_text(broken)
    for name in wrong.split():
        project.cases[name] = "nothing of that"
    project.evaluators = "{name: has, type: contains, value: question}"
    files = ("x.md", "x.html", "x.junit.xml", "x.json", "x.sarif")
    code, said = project.call("run", "suite.yaml", *options, *(f"-o{file}" for file in files))
    texts = [(project.folder / file).read_text() for file in files]
    printed = read_terminal(said)
    assert (code, printed.exit_code) == (exit_code, exit_code)
    readers = (read_markdown, read_page, read_junit, read_json)
    assert [read(text) for read, text in zip(readers, texts, strict=False)] == [printed] * 4
    assert read_sarif(texts[4], printed) == printed
    write(project, *(f"-o{file}" for file in files))
    same = [(project.folder / file).read_text() for file in files]
    assert same[:3] == texts[:3]
    assert read_json(same[3]) == printed


def test_rows_are_those_that_the_run_exported(project: Project) -> None:
    project.call("run", "suite.yaml", "-o", "then.jsonl", "-o", "then.yaml")
    write(project, "-o", "now.jsonl", "-o", "now.yaml")
    for suffix in ("jsonl", "yaml"):
        assert (project.folder / f"now.{suffix}").read_text() == (project.folder / f"then.{suffix}").read_text()


def test_traces_are_taken_from_the_answers(project: Project) -> None:
    (project.folder / "agent.py").write_text(TALKING_AGENT)
    project.call("run", "suite.yaml", "-o", "then.jsonl", "--include-trace")
    write(project, "-o", "now.jsonl", "--include-trace")
    assert '"lookup"' in (project.folder / "now.jsonl").read_text()
    assert (project.folder / "now.jsonl").read_text() == (project.folder / "then.jsonl").read_text()
    write(project, "-o", "without.jsonl")
    assert "output_messages" not in (project.folder / "without.jsonl").read_text()


@pytest.mark.parametrize("name", ["md", "junit.xml", "html", "csv", "sarif", "github", "yaml", "json"])
def test_standard_output_gets_any_format(project: Project, name: str) -> None:
    project.call("run", "suite.yaml")
    write(project, "-o", f"x.{name}")
    code, said = project.call("report", "--format", name)
    assert (code, said) == (0, (project.folder / f"x.{name}").read_text())


@pytest.mark.parametrize("name", ["md", "junit.xml", "html", "csv", "yaml", "jsonl"])
def test_in_a_workflow_log_no_line_of_an_answer_is_a_command(
    project: Project, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "agent.py").write_text(
        "def answer(request): return 'answer\\n::error::x\\n  ::warning::y\\n##[group]z'"
    )
    project.call("run", "suite.yaml")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, said = project.call("report", "--format", name)
    assert code == 0
    assert not re.search(r"^\s*::|##\[", said.replace("\\n", ""), re.MULTILINE)


def test_json_on_the_screen_is_the_report(project: Project) -> None:
    project.call("run", "suite.yaml", "-o", "x.json")
    code, said = project.call("report", "--json")
    assert (code, json.loads(said)["schema"]) == (0, "agentv-report-1")
    assert project.call("report", "--json", "-o", "-")[0] == 4


def test_a_format_that_there_is_not_is_refused(project: Project) -> None:
    project.call("run", "suite.yaml")
    code, said = project.call("report", "--format", "htm")
    assert code == 4
    assert "Did you mean 'html'?" in said


PLUGIN = """
from agentv import report

@report("sum.json")
def total(report, rows):
    print("and goes on")
    return f"{sum(row.score for row in rows)}\\n"
"""


def test_a_format_of_the_project_is_loaded_on_demand(project: Project) -> None:
    project.call("run", "suite.yaml")
    (project.folder / ".agentv.yaml").write_text("plugins: [mine.py]")
    (project.folder / "mine.py").write_text(PLUGIN)
    write(project, "-o", "x.sum.json")
    assert (project.folder / "x.sum.json").read_text() == "3.0\n"
    assert project.call("report", "--format", "sum.json") == (0, "3.0\nand goes on\n"), "output comes first"
    (project.folder / "mine.py").write_text("raise RuntimeError('never imported')")
    write(project, "-o", "x.html")


def test_without_a_file_the_end_of_the_run_is_printed_again(project: Project) -> None:
    _, said = project.call("run", "suite.yaml")
    code, printed = project.call("report")
    assert code == 0
    assert said.endswith(printed)


def test_the_log_names_trials_only_if_cases_have_different_numbers(project: Project) -> None:
    project.evaluators = "{name: no, type: contains, value: nothing}"
    for text, lines in (("", ["a", "b"]), ("execution: {trials: 3}, ", ["a", "a", "b", "b", "b"])):
        project.cases = {"a": "question a", "b": "question b"}
        project.write()
        suite = (project.folder / "suite.yaml").read_text().replace("execution: {", "execution: {trials: 2, ")
        (project.folder / "uneven.yaml").write_text(suite.replace("{id: b, ", "{id: b, " + text))
        said = project.call("run", "uneven.yaml", "--display", "plain", "--gate", "none")[1]
        assert [line.split()[1] for line in said.splitlines() if line.startswith("FAIL")] == lines
        assert ("a trial 2 " in said, "2 cases, 5 results" in said) == (bool(text), bool(text))
        _, later = project.call("report")
        assert "✗ a  0 of 2 passed  0.00  no: expected" in later
        assert f"✗ b  0 of {3 if text else 2} passed  0.00  no: expected" in later


def test_an_output_given_twice_is_written_once(project: Project) -> None:
    code, said = project.call("run", "suite.yaml", "-o", "r.html", "-o", "r.html")
    assert (code, said.count("Wrote ")) == (0, 1)
    assert project.call("report", "-o", "r.md", "-o", "r.md") == (0, "Wrote r.md\n")


def test_a_killed_run_is_reported_from_its_results(project: Project) -> None:
    project.call("run", "suite.yaml", "--gate", "mean >= 0.5")
    project.forget("events.jsonl", [1, 2])
    project.forget("results.jsonl", [2])
    report = load_report(open_run(project.run))
    assert (report.state, report.exit_code) == ("interrupted", 130)
    assert report.verdict.sentence == "INTERRUPTED: 2 of 3 planned results are stored."
    assert [gate.expression for gate in report.verdict.gates] == ["mean >= 0.5"]


def test_a_running_run_is_not_reported_with_its_earlier_verdict(project: Project) -> None:
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
        "PASS: 2 of 2 judged results passed (100 %). 1 result with an error.",
    )
    assert "made by an older agentv" in report.notes[0]


def test_a_format_that_is_none_is_refused_before_anything_is_written(project: Project) -> None:
    project.call("run", "suite.yaml")
    code, said = project.call("report", "-o", "x.html", "-o", "x.pdf")
    assert code == 4
    assert "-o x.pdf: unknown format; the file name must end in .jsonl, " in said
    assert [path.name for path in Path.cwd().glob("*x.*")] == []


def test_a_run_of_the_first_version_is_reported_for_ever(project: Project) -> None:
    folder = next((Path(__file__).parent.parent / "fixtures" / "runs-v1").iterdir())
    code, said = project.call("report", str(folder), "--format", "md")
    assert code == 0
    assert "**`FAIL: 1 of 2 judged results passed (50 %).` Exit code 1.**" in said


def test_an_interrupted_write_leaves_the_files_of_before(project: Project) -> None:
    project.call("run", "suite.yaml", "-o", "x.html")
    before = (project.folder / "x.html").read_text()
    with (project.run / "results.jsonl").open("a") as rows:
        rows.write("{broken\n{}\n")
    code, said = project.call("report", "-o", "x.html", "-o", "y.md")
    assert (code, "results.jsonl:4" in said) == (3, True)
    assert (project.folder / "x.html").read_text() == before
    assert not (project.folder / "y.md").exists()
