"""The cases that make a gate fail: every report names them first, with question, answers and reasons."""

import json
from re import sub
from xml.etree import ElementTree as ET

import pytest
from tests.support.carrying import Project

AGENT = """
import json
from pathlib import Path

def answer(request):
    wrong = json.loads((Path(__file__).parent / "wrong.json").read_text())
    return "we will see" if request.eval_case_id in wrong else f"answer to {request.question}"
"""
NAMES = [f"case-{number}" for number in range(14)]


@pytest.fixture
def project(project: Project) -> Project:
    (project.folder / "agent.py").write_text(AGENT)
    (project.folder / "wrong.json").write_text("[]")
    project.cases = {name: f"question {name}" for name in NAMES}
    return project


def break_cases(project: Project, *names: str) -> None:
    (project.folder / "wrong.json").write_text(json.dumps(names))


def run_and_report(project: Project, *arguments: str) -> tuple[int, str, dict[str, str]]:
    """Run the suite; return the exit code, what was printed, and the reports by format."""
    files = ("md", "html", "junit.xml", "json")
    outputs = [word for each in files for word in ("-o", f"report.{each}")]
    code, said = project.call("run", "suite.yaml", *arguments, *outputs)
    reports = {each: (project.folder / f"report.{each}").read_text() for each in files}
    _, reports["github"] = project.call("report", "latest", "-o", "-", "--format", "github")
    return code, said, reports


def assert_same_sentence(said: str, reports: dict[str, str]) -> None:
    verdict = json.loads(reports["json"])["verdict"]
    assert f"{verdict} Exit code" in said.splitlines()[-1]
    properties = ET.fromstring(reports["junit.xml"]).iter("property")
    assert verdict in [each.get("value") for each in properties]
    assert verdict in reports["md"]
    assert verdict.replace("<", "&lt;") in reports["html"]
    assert verdict.replace("%", "%25") in reports["github"].splitlines()[0]


def test_a_case_that_fell_is_named_first_with_both_answers(project: Project) -> None:
    break_cases(project, "case-1")
    project.call("run", "suite.yaml", "--name", "before", "--gate", "none")
    break_cases(project, "case-1", "case-3")
    code, said, reports = run_and_report(project, "--baseline", "before", "--gate", "regressions <= 0")
    assert code == 1
    assert_same_sentence(said, reports)
    texts = {
        "question": "question case-3",
        "before": "answer to question case-3",
        "answer": "we will see",
        "expected": "x",
        "reason": 'has: expected "answer", got "we will see"',
    }
    screen = said[said.index("gate 'regressions <= 0' failed on 1 case") :].splitlines()
    assert screen[1] == "✗ case-3  0.00 (was 1.00)"
    assert [line.split(maxsplit=2) for line in screen[2:7]] == [[name, "│", text] for name, text in texts.items()]
    assert said.index("failed on 1 case") < said.index("12 of 14 passed")
    assert said.index("did not pass: 2 cases") < said.index("others that did not pass\n✗ case-1  0.00")
    (gate,) = json.loads(reports["json"])["gates"]
    (case,) = gate["cases"]
    assert (case["eval_id"], case["question"], case["answer"], gate["cases_total"]) == (
        "case-3",
        "question case-3",
        "we will see",
        1,
    )
    assert case["before"] == {"score": 1.0, "answer": "answer to question case-3"}
    del texts["expected"]  # a single letter, which is in other words too
    for kind in ("md", "html", "github"):
        at = [reports[kind].index(text) for text in texts.values() if text in reports[kind]]
        assert at == sorted(at), kind
        assert ("failed on 1 case" in reports[kind]) == (kind != "github")
        assert len(at) >= 3, kind
    assert (
        reports["md"].index("`case-3`")
        < reports["md"].index("others that did not pass")
        < reports["md"].index("`case-1`")
    )
    first = ET.fromstring(reports["junit.xml"]).find("testsuite/testcase")
    assert first is not None
    failure = first.find("failure")
    assert failure is not None
    assert failure.text is not None
    assert (first.get("name"), "before: answer to question case-3" in failure.text) == ("case-3", True)


def test_a_baseline_file_has_no_answers_and_says_so_once(project: Project) -> None:
    project.call("run", "suite.yaml")
    project.call("baseline", "save")
    break_cases(project, "case-3", "case-4")
    _, said, reports = run_and_report(project, "--baseline", "baseline.jsonl", "--gate", "regressions <= 0")
    for kind, text in {"screen": said, **reports}.items():
        if kind == "json":
            assert '"answer": null' in text
        elif kind in ("screen", "md", "html"):
            assert sub("`|<[/a-z][^>]*>", "", text).count("(baseline.jsonl has no answers)") == 1, kind
            assert "before   │" not in text, kind


@pytest.mark.parametrize(
    ("gate", "heading"),
    [
        ("pass_rate >= 95%", "did not pass: 12 cases"),
        ("mean >= 0.95", "gate 'mean >= 0.95' failed on 12 cases"),
        ("evaluator(has).mean >= 0.95", "gate 'evaluator(has).mean >= 0.95' failed on 12 cases"),
        ("target(t).pass_rate >= 95%", "gate 'target(t).pass_rate >= 95%' failed on 12 cases"),
        (None, "did not pass: 12 cases"),
    ],
)
def test_a_run_names_ten_of_its_failing_cases_once(project: Project, gate: str | None, heading: str) -> None:
    break_cases(project, *NAMES[:12])
    code, said = project.call("run", "suite.yaml", *(() if gate is None else ("--gate", gate)))
    assert code == 1
    block = said[said.index(heading) :].split("\n\n")[0]
    assert block.count("question │ question case-") == said.count("question │") == 10
    assert "and 2 more: agentv show" in block
    assert block.endswith("--failed\ncase-10, case-11")


def test_a_gate_of_one_tag_names_only_its_cases(project: Project) -> None:
    project.write()
    suite = (project.folder / "suite.yaml").read_text().replace("{id: case-2,", "{id: case-2, tags: [refund],")
    (project.folder / "tagged.yaml").write_text(suite)
    break_cases(project, "case-2", "case-5")
    code, said = project.call("run", "tagged.yaml", "--gate", "tag(refund).pass_rate >= 90%")
    block = said[said.index("failed on 1 case") :].split("\n\n")[0]
    of_gate, _, others = block.partition("others that did not pass")
    assert (code, "case-2" in of_gate, "case-5" in of_gate, "case-5" in others) == (1, True, False, True)


def test_a_gate_that_holds_names_no_case(project: Project) -> None:
    break_cases(project, "case-2")
    code, said = project.call("run", "suite.yaml", "--gate", "pass_rate >= 90%")
    assert (code, "failed on" in said, "did not pass: 1" in said) == (0, False, True)


def test_trials_of_a_case_are_one_case(project: Project) -> None:
    break_cases(project, "case-2")
    _, said = project.call("run", "suite.yaml", "--trials", "3", "--gate", "pass_rate >= 100%")
    assert "did not pass: 1 case\n" in said
    assert "✗ case-2  0 of 3 passed  0.00\n" in said


@pytest.mark.parametrize(
    ("gate", "heading"),
    [("pass_rate >= 100%", "did not pass:"), ("regressions <= 0", "gate 'regressions <= 0' failed on")],
)
def test_a_case_with_several_targets_is_counted_once_and_by_target(project: Project, gate: str, heading: str) -> None:
    (project.folder / "targets.yaml").write_text(
        "targets: [{name: t, provider: python, callable: 'agent.py:answer'}, "
        "{name: u, provider: python, callable: 'agent.py:answer'}]\n"
    )
    targets = ("--target", "t", "--target", "u")
    project.call("run", "suite.yaml", "--name", "before", *targets)
    break_cases(project, "case-2")
    _, said = project.call("run", "suite.yaml", "--baseline", "before", "--gate", gate, *targets)
    assert f"{heading} 1 case (2 counted by target)\n" in said
    _, later = project.call("report", "latest")
    assert f"{heading} 1 case (2 counted by target)\n" in later


@pytest.mark.parametrize("reference", ["before", "baseline.jsonl"])
def test_a_later_report_names_the_same_cases(project: Project, reference: str) -> None:
    project.call("run", "suite.yaml", "--name", "before")
    project.call("baseline", "save")
    break_cases(project, "case-3", "case-4")
    arguments = ("--baseline", reference, "--gate", "regressions <= 0", "--gate", "pass_rate >= 100%")
    _, _, reports = run_and_report(project, *arguments)
    outputs = [word for each in ("md", "json") for word in ("-o", f"later.{each}")]
    project.call("report", "latest", *outputs)
    gates = [json.loads(text)["gates"] for text in (reports["json"], (project.folder / "later.json").read_text())]
    assert gates[0] == gates[1]
    assert (project.folder / "later.md").read_text() == reports["md"]


def test_cases_of_several_failed_gates_are_listed_once(project: Project) -> None:
    project.call("run", "suite.yaml", "--name", "before")
    break_cases(project, *NAMES[:12])
    _, said = project.call(
        "run", "suite.yaml", "--baseline", "before", "--gate", "regressions <= 0", "--gate", "mean >= 0.9"
    )
    assert said.count("question │") == 10
    assert said.count("✗ case-0  0.00 (was 1.00)  also 'mean >= 0.9'") == 1
    assert said.count("and 2 more: agentv show") == said.count("more: agentv") == 1


def test_a_case_stands_once_with_its_targets_and_equal_answers_once(project: Project) -> None:
    (project.folder / "targets.yaml").write_text(
        "targets: [{name: t, provider: python, callable: 'agent.py:answer'}, "
        "{name: u, provider: python, callable: 'agent.py:answer'}, {name: v, provider: mock, response: no idea}]\n"
    )
    break_cases(project, "case-2")
    _, said = project.call("run", "suite.yaml", "--case", "case-2", "--target", "t", "--target", "u", "--target", "v")
    block = said[said.index("✗ case-2\n") :].split("\n\n")[0]
    assert block.splitlines() == [
        "✗ case-2",
        "  question │ question case-2",
        "  expected │ x",
        "  ✗ t  0.00",
        "  ✗ u  0.00",
        "    answer │ we will see",
        '    reason │ has: expected "answer", got "we will see"',
        "  ✗ v  0.00",
        "    answer │ no idea",
        '    reason │ has: expected "answer", got "no idea"',
    ]


def test_a_run_that_passed_has_a_line_for_each_failing_case(project: Project) -> None:
    break_cases(project, "case-2")
    short, full = (project.call("run", "suite.yaml", "--gate", "pass_rate >= 50%", *each)[1] for each in ((), ("-v",)))
    assert '✗ case-2  0.00  has: expected "answer", got "we will see"\n\n' in short
    assert "✗ case-2  0.00\n  question │" in full


def test_the_comment_on_a_pull_request_stays_short(project: Project) -> None:
    break_cases(project, "case-3")
    project.cases = {f"case-{number}": f"question {number}" for number in range(150)}
    project.call("run", "suite.yaml", "--name", "before", "--gate", "none")
    break_cases(project, *[f"case-{number}" for number in range(3, 111)])
    _, _, reports = run_and_report(project, "--baseline", "before", "--gate", "regressions <= 0")
    assert "and 98 more" in reports["md"]
    assert len(reports["md"]) < 6_500


def test_not_worse_names_every_case_that_fell(project: Project) -> None:
    project.call("run", "suite.yaml", "--name", "before")
    break_cases(project, *NAMES[:12])
    code, said = project.call("run", "suite.yaml", "--baseline", "before", "--gate", "not worse")
    assert code == 1
    block = said[said.index("gate 'not worse' failed on 12 cases") :].split("\n\n")[0]
    assert block.count("before   │ answer to question case-") == 10
    assert "and 2 more: agentv show" in block
    _, later = project.call("report", "latest")
    assert "gate 'not worse' failed on 12 cases" in later


def test_not_worse_names_the_cases_of_targets_that_got_worse(project: Project) -> None:
    (project.folder / "targets.yaml").write_text(
        "targets:\n"
        "  - {name: t, provider: python, callable: 'agent.py:answer'}\n"
        "  - {name: u, provider: mock, response: answer}\n"
    )
    targets = ("--target", "t", "--target", "u")
    project.call("run", "suite.yaml", "--name", "before", *targets)
    break_cases(project, *NAMES[:8])
    code, said = project.call("run", "suite.yaml", "--baseline", "before", "--gate", "not worse", *targets)
    block = said[said.index("gate 'not worse' failed on 8 cases") :].split("\n\n")[0]
    assert (code, block.count(" · t  0.00"), block.count(" · u  ")) == (1, 8, 0)
