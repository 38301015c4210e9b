"""The gate `not worse`: it fails if the mean score is significantly lower than in the baseline."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.support.carrying import Project

AGENT = """
import json
from pathlib import Path

def answer(request):
    broken = json.loads((Path(__file__).parent / "broken.json").read_text())
    return "we will see" if request.eval_case_id in broken else f"answer to {request.question}"
"""
CASES = [f"c{number:02}" for number in range(20)]


@pytest.fixture
def project(project: Project) -> Project:
    """A project of 20 cases with a baseline in which all pass."""
    (project.folder / "agent.py").write_text(AGENT)
    project.cases = {name: f"question {name}" for name in CASES}
    break_cases(project)
    project.call("run", "suite.yaml", "--name", "before")
    return project


def break_cases(project: Project, *names: str) -> None:
    (project.folder / "broken.json").write_text(json.dumps(names))


def run(project: Project, *arguments: str) -> tuple[int, str]:
    return project.call("run", "suite.yaml", "--baseline", "before", "--gate", "not worse", *arguments)


WORSE = "FAIL: 4 cases fell, none rose: worse, but 'not worse' is required."


def test_a_run_that_is_worse_fails_with_the_same_sentence_in_every_report(project: Project) -> None:
    break_cases(project, *CASES[:4])
    outputs = [word for each in ("md", "html", "junit.xml", "json") for word in ("-o", f"report.{each}")]
    code, said = run(project, *outputs)
    assert (code, said.splitlines()[-1]) == (1, f"{WORSE} Exit code 1.")
    assert "4 cases fell, none rose: worse" in said
    written = {path.name: path.read_text() for path in project.folder.glob("report.*")}
    assert WORSE in written["report.md"]
    assert WORSE.replace("'", "&#x27;") in written["report.html"] or WORSE in written["report.html"]
    properties = ET.fromstring(written["report.junit.xml"]).iter("property")
    assert WORSE in [each.get("value") for each in properties]
    report = json.loads(written["report.json"])
    assert (report["verdict"], report["gates"][0]["state"], report["gates"][0]["value"]) == (WORSE, "failed", 1.0)
    assert report["baseline"]["finding"] == "4 cases fell, none rose: worse"
    assert [each["eval_id"] for each in report["gates"][0]["cases"]] == CASES[:4]


def test_a_report_of_a_stored_run_says_the_same(project: Project) -> None:
    break_cases(project, *CASES[:4])
    run(project)
    _code, said = project.call("report", "latest", "-o", "report.json")
    report = json.loads((project.folder / "report.json").read_text())
    assert (report["exit_code"], report["verdict"], report["gates"][0]["state"]) == (1, WORSE, "failed"), said


def test_chance_differences_pass(project: Project) -> None:
    break_cases(project, *CASES[:3])
    code, said = run(project)
    sentence = "3 cases fell, none rose: no significant difference (n needed: 36), as required (not worse)"
    assert (code, said.splitlines()[-1]) == (0, f"PASS: {sentence}. Exit code 0.")
    code, said = run(project, "--gate", "regressions <= 0")
    assert (code, said.splitlines()[-1]) == (1, "FAIL: regressions is 3, not <= 0. Exit code 1.")


def test_without_a_baseline_a_gate_of_the_command_line_is_refused(project: Project) -> None:
    code, said = project.call("run", "suite.yaml", "--gate", "not worse")
    assert (code, said) == (4, "error: gate 'not worse' needs a baseline; name the earlier run with --baseline RUN\n")


def test_and_one_of_a_file_is_not_evaluated(project: Project) -> None:
    (project.folder / ".agentv.yaml").write_text("gates: [not worse]\n")
    code, said = project.call("run", "suite.yaml")
    left = "not worse (no --baseline; save one with: agentv baseline save)"
    passed = f"PASS: 20 of 20 judged results passed (100 %). Not evaluated: {left}. Exit code 0."
    assert (code, said.splitlines()[-1]) == (0, passed)
    break_cases(project, *CASES[:4])
    assert project.call("run", "suite.yaml", "--baseline", "before")[0] == 1


def test_compare_has_the_gate_too(project: Project) -> None:
    break_cases(project, *CASES[:4])
    project.call("run", "suite.yaml", "--name", "after", "--gate", "none")
    code, said = project.call("compare", "before", "after", "--gate", "not worse")
    assert code == 1
    assert f"{WORSE} Exit code 1." in said
    assert said.splitlines()[-1] == "4 cases fell, none rose: worse"
    assert project.call("compare", "after", "before", "--gate", "not worse")[0] == 0
    found = json.loads(project.call("compare", "before", "after", "--format", "json")[1])
    assert {key: found[key] for key in ("finding", "direction", "fell", "rose")} == {
        "finding": "4 cases fell, none rose: worse",
        "direction": "worse",
        "fell": 4,
        "rose": 0,
    }
    for written in ("markdown", "html"):
        assert "4 cases fell, none rose: worse" in project.call("compare", "before", "after", "--format", written)[1]


def test_a_stream_of_answers_has_no_earlier_run(project: Project) -> None:
    Path("log.jsonl").write_text("{}\n")
    Path("config.yaml").write_text("evaluators: [{name: tone, type: contains, value: fine}]\n")
    code, said = project.call("score", "log.jsonl", "--config", "config.yaml", "--gate", "not worse")
    assert code == 4
    assert "'not worse' cannot be measured here" in said
