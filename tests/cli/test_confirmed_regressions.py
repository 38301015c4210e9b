"""The gate `confirmed_regressions`: cases that passed in every trial of the baseline and fail now are called again."""

import json
from xml.etree import ElementTree as ET

import pytest
from tests.support.carrying import Project

from agentv.storage.run.stored import StoredRun, open_run

AGENT = """
import json
from pathlib import Path

def answer(request):
    here = Path(__file__).parent
    with (here / "calls").open("a") as calls:
        calls.write(request.eval_case_id + "\\n")
    script = json.loads((here / "script.json").read_text())
    number = (here / "calls").read_text().split().count(request.eval_case_id)
    told = script.get(request.eval_case_id, [])
    outcome = told[min(number, len(told)) - 1] if told else "pass"
    if outcome == "error":
        raise RuntimeError("out of order")
    return f"answer to {request.question}" if outcome == "pass" else "we will see"
"""
GATE = ("--gate", "confirmed_regressions <= 0")


@pytest.fixture
def project(project: Project) -> Project:
    """A project whose agent has a script: the outcome of each call of a case, the last of them for all later calls."""
    (project.folder / "agent.py").write_text(AGENT)
    script(project)
    project.call("run", "suite.yaml", "--name", "before", "--trials", "3", "--gate", "none")
    project.calls()
    return project


def script(project: Project, **outcomes: list[str]) -> None:
    (project.folder / "script.json").write_text(json.dumps(outcomes))


def latest(project: Project) -> StoredRun:
    return open_run(max((project.folder / ".agentv" / "runs").iterdir()))


def reruns(project: Project) -> list[tuple[str, str | None, str | None]]:
    """Return case, re-run and verdict of the stored results that are re-runs."""
    rows = [row for row in latest(project).all_results() if row.rerun is not None]
    return [(row.eval_id, row.rerun, row.verdict) for row in rows]


def run(project: Project, *arguments: str) -> tuple[int, str]:
    return project.call("run", "suite.yaml", "--baseline", "before", *(arguments or GATE))


def test_a_broken_case_is_confirmed_and_named_in_every_report(project: Project) -> None:
    script(project, b=["fail"])
    outputs = [word for each in ("md", "html", "junit.xml", "json") for word in ("-o", f"report.{each}")]
    code, said = run(project, *GATE, *outputs)
    assert project.calls() == ["a", "b", "c", "b", "b"]
    assert reruns(project) == [("b", "confirm", "fail")] * 2
    sentence = "FAIL: confirmed_regressions is 1, not <= 0. 1 result was re-run (2 re-runs); first answers count."
    assert (code, said.splitlines()[-1]) == (1, f"{sentence} Exit code 1.")
    assert "✗ b  0.00 (was 1.00)  failed again in 2 re-runs\n" in said
    written = {path.name: path.read_text() for path in project.folder.glob("report.*")}
    properties = ET.fromstring(written["report.junit.xml"]).iter("property")
    assert sentence in [each.get("value") for each in properties]
    assert json.loads(written["report.json"])["verdict"] == sentence
    assert sentence in written["report.md"]
    assert sentence.replace("<", "&lt;") in written["report.html"]
    for name, text in {"screen": said, **written}.items():
        for part in ("failed on 1 case", "question b", "we will see", "answer to question b"):
            assert part in text or name == "report.json", (name, part)
    (case,) = json.loads(written["report.json"])["gates"][0]["cases"]
    assert (case["eval_id"], case["reruns"], case["before"]["answer"]) == ("b", 2, "answer to question b")


def test_a_case_that_passes_on_a_re_run_is_not_confirmed(project: Project) -> None:
    script(project, b=["fail", "fail", "pass"])
    code, said = run(project)
    counted = "1 result was re-run (2 re-runs); first answers count."
    verdict = f"PASS: confirmed_regressions is 0 (1 of 1 not confirmed), as required (<= 0). {counted} Exit code 0."
    assert (code, said.splitlines()[-1]) == (0, verdict)
    assert "flaky   b (t)" in said
    assert "t: 2 of 3 passed" in said


def test_an_error_in_a_re_run_leaves_the_gate_undecided(project: Project) -> None:
    script(project, b=["fail", "fail", "error"])
    code, said = run(project)
    assert code == 3
    assert (
        "INCOMPLETE: confirmed_regressions is 0 (1 of 1 undecided): its re-runs have an error "
        "(agentv retry --errors) or are missing (agentv resume), so 'confirmed_regressions <= 0' is undecided."
        in said.splitlines()[-1]
    )


def test_more_confirmed_cases_than_allowed_fail_whatever_is_undecided(project: Project) -> None:
    script(project, a=["fail"], b=["fail", "error"])
    for bound, code in ((0, 1), (1, 3), (2, 0)):
        assert run(project, "--gate", f"confirmed_regressions <= {bound}")[0] == code
        project.calls()


def test_only_cases_that_passed_every_trial_and_fail_in_most_now_are_called_again(project: Project) -> None:
    script(project, a=["pass", "fail", "pass"], b=["fail"], c=["fail", "pass", "fail"])
    project.call("run", "suite.yaml", "--name", "mixed", "--trials", "3", "--gate", "none")
    project.calls()
    script(project, a=["fail"], b=["fail"], c=["fail"])
    code, said = project.call("run", "suite.yaml", "--baseline", "mixed", *GATE)
    assert (code, project.calls()) == (0, ["a", "b", "c"])
    script(project, a=["fail", "pass", "pass"], b=["fail", "fail", "pass", "fail"])
    code, said = run(project, *GATE, "--trials", "3")
    assert project.calls() == ["a"] * 3 + ["b"] * 3 + ["c"] * 3 + ["b"] * 2
    assert "confirmed_regressions is 1, not <= 0" in said


def test_the_suite_says_how_often_a_case_is_called_again(project: Project) -> None:
    project.write()
    (project.folder / "often.yaml").write_text("confirm_reruns: 4\n" + (project.folder / "suite.yaml").read_text())
    script(project, b=["fail"])
    project.call("run", "often.yaml", "--baseline", "before", *GATE)
    assert project.calls().count("b") == 5


def test_a_budget_that_ends_during_the_re_runs_stops_the_run_which_resumes(project: Project) -> None:
    price = "{input_per_million: 1, output_per_million: 1}"
    (project.folder / "targets.yaml").write_text(
        f"targets: [{{name: t, provider: python, callable: 'priced.py:answer', workers: 1, price: {price}}}]"
    )
    agent = AGENT.replace('return f"answer', 'return priced(f"answer').replace('"we will see"', '"we will see")')
    priced = (
        "from agentv import ProviderResponse\ndef priced(text):\n    return ProviderResponse(text, cost_usd=0.01)\n"
    )
    (project.folder / "priced.py").write_text(priced + agent)
    script(project, b=["fail"])
    code, said = run(project, *GATE, "--budget-usd", "0.041")
    assert (code, "STOPPED: $0.0400 of the budget" in said) == (2, True), said
    assert project.calls() == ["a", "b", "c", "b"]
    (project.folder / "calls").write_text("b\n")
    code, said = project.call("resume", "latest", "--budget-usd", "1")
    assert (code, project.calls()) == (1, ["b", "b"]), said
    assert "confirmed_regressions is 1, not <= 0" in said


def test_a_later_report_gives_the_same_verdict(project: Project) -> None:
    script(project, a=["fail"], b=["fail", "pass"])
    code, said = run(project)
    assert code == 1
    _, later = project.call("report", "latest")
    assert later.splitlines()[-1] == said.splitlines()[-1]
    assert "✗ a  0.00 (was 1.00)  failed again in 2 re-runs\n" in later


def test_without_a_baseline_a_gate_of_the_command_line_is_refused(project: Project) -> None:
    code, said = project.call("run", "suite.yaml", *GATE)
    assert (code, "needs a baseline; name the earlier run with --baseline RUN" in said) == (4, True)
    assert project.calls() == []


def test_without_a_baseline_a_gate_of_a_file_is_not_evaluated(project: Project) -> None:
    (project.folder / ".agentv.yaml").write_text("gates: [confirmed_regressions <= 0]\n")
    code, said = project.call("run", "suite.yaml")
    assert (
        code,
        "Not evaluated: confirmed_regressions <= 0 (no --baseline; save one with: agentv baseline save)" in said,
    ) == (0, True)
    script(project, b=["fail"])
    assert project.call("run", "suite.yaml")[0] == 1


def test_recorded_answers_are_not_called_again(project: Project) -> None:
    (project.folder / "targets.yaml").write_text("targets: [{name: t, provider: replay, run: before}]")
    code, said = run(project)
    assert (code, "Not evaluated: confirmed_regressions <= 0 (target 't' replays recorded answers" in said) == (
        0,
        True,
    ), said


def test_a_dry_run_says_what_confirming_can_cost_at_most(project: Project) -> None:
    code, said = run(project, *GATE, "--dry-run")
    assert (code, "target calls: 3, and at most 6 more to confirm regressions" in said) == (0, True), said
    assert project.calls() == []


def test_a_killed_confirmation_is_continued_where_it_ended(project: Project) -> None:
    script(project, b=["fail"])
    run(project)
    folder = latest(project).folder
    for name, lost in (("results.jsonl", 1), ("events.jsonl", 3)):  # all but the first re-run, `reported` and `ended`
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:-lost]))
    (project.folder / "calls").write_text("b\n")
    code, said = project.call("resume", "latest")
    assert (code, project.calls()) == (1, ["b", "b"]), said
    assert "failed again in 2 re-runs" in said
    assert reruns(project) == [("b", "confirm", "fail")] * 2


def test_retry_calls_a_re_run_with_an_error_again(project: Project) -> None:
    script(project, b=["fail", "fail", "error", "fail"])
    assert run(project)[0] == 3
    code, said = project.call("retry", "latest", "--errors")
    assert code == 1, said
    assert [verdict for _, _, verdict in reruns(project)] == ["fail", None, "fail"]


def test_shards_confirm_their_own_cases_and_a_merged_run_counts_them(project: Project) -> None:
    project.cases = {name: f"question {name}" for name in "abcdefgh"}
    project.call("run", "suite.yaml", "--name", "whole", "--gate", "none")
    project.calls()
    script(project, b=["fail"], e=["fail", "pass"])
    for part in ("1/2", "2/2"):
        project.call("run", "suite.yaml", "--baseline", "whole", "--shard", part, *GATE)
    assert len(project.calls()) == 8 + 2 * 2
    runs = sorted(path.name for path in (project.folder / ".agentv" / "runs").iterdir())[-2:]
    code, said = project.call("merge", *runs)
    assert (code, project.calls()) == (1, []), said
    assert "confirmed_regressions is 1 (1 of 2 not confirmed), not <= 0" in said


def test_a_rescored_run_judges_its_cases_without_new_calls(project: Project) -> None:
    script(project, b=["fail"])
    run(project)
    project.calls()
    project.evaluators = "{name: has, type: contains, value: e}"  # "we will see" passes, as do all others
    code, said = project.call("rescore", "latest")
    assert (code, project.calls()) == (0, []), said
    assert "PASS: confirmed_regressions is 0, as required (<= 0)." in said


def test_each_target_and_prompt_is_confirmed_by_itself(project: Project) -> None:
    (project.folder / "targets.yaml").write_text(
        "targets: [{name: t, provider: python, callable: 'agent.py:answer'}, {name: u, provider: mock, response: no}]"
    )
    project.call("run", "suite.yaml", "--name", "two", "--target", "t", "--target", "u", "--gate", "none")
    project.calls()
    script(project, b=["fail"])
    arguments = ("--baseline", "two", "--target", "t", "--target", "u")
    code, said = project.call("run", "suite.yaml", *arguments, *GATE)
    assert (code, project.calls()) == (1, ["a", "b", "c", "b", "b"])
    assert "  ✗ t  0.00 (was 1.00)  failed again in 2 re-runs\n" in said


def test_the_numbers_of_regressions_name_their_units(project: Project) -> None:
    target = "provider: python, callable: 'agent.py:answer', workers: 1"
    (project.folder / "targets.yaml").write_text(f"targets: [{{name: t, {target}}}, {{name: u, {target}}}]")
    both = ("--target", "t", "--target", "u")
    project.call("run", "suite.yaml", "--name", "two", *both, "--gate", "none")
    script(project, b=["fail"], c=["fail"])
    code, said = project.call("run", "suite.yaml", "--baseline", "two", *both, *GATE)
    assert code == 1
    called = "4 suspected regressions (in 2 cases, counted by target) are called again to confirm: 8 calls"
    assert said.count(called) == 1
    assert "failed on 2 cases (4 counted by target)" in said
    assert "2 cases regressed, 0 improved" in said
    sentence = "confirmed_regressions is 4 (in 2 cases, counted by prompt and target), not <= 0"
    assert f"FAIL: {sentence}. 4 results were re-run (8 re-runs); first answers count. Exit code 1." in said


def test_a_conversation_is_held_again_as_a_whole(project: Project) -> None:
    suite = """
evalcases:
  - id: talk
    expected_outcome: x
    turns: [{input: first}, {input: second}]
    evaluators: [{name: has, type: contains, value: answer}]
"""
    (project.folder / "talk.yaml").write_text(suite)
    assert project.call("run", "talk.yaml", "--name", "held")[0] == 0
    project.calls()
    script(project, talk=["fail"])
    _, planned = project.call("run", "talk.yaml", "--baseline", "held", *GATE, "--dry-run")
    assert "target calls: 2, and at most 4 more to confirm regressions" in planned
    code, said = project.call("run", "talk.yaml", "--baseline", "held", *GATE)
    assert (code, project.calls()) == (1, ["talk"] * 6), said
    assert "failed again in 2 re-runs" in said


def test_re_runs_are_found_again_if_the_first_trial_has_an_error(project: Project) -> None:
    script(project, b=["error", "fail"])
    code, said = run(project, "--trials", "3", "--max-errors", "1", *GATE)
    assert code == 1, said
    assert "failed again in 2 re-runs" in said
    project.calls()
    code, said = project.call("report", "latest")
    assert "confirmed_regressions is 1, not <= 0" in said
    assert "do not give the recorded verdict" not in said
    assert project.call("resume", "latest")[0] == 1
    assert project.calls() == []


def test_re_runs_that_other_evaluators_judged_do_not_confirm(project: Project) -> None:
    script(project, b=["fail"])
    assert run(project)[0] == 1
    project.evaluators = "{name: has, type: contains, value: nothing}"
    code, said = project.call("rescore", "latest")
    assert "an error (agentv retry --errors) or are missing (agentv resume)" in said
    assert code == 3, said


def test_a_case_is_shown_with_numbered_reruns_and_no_text_twice(project: Project) -> None:
    script(project, b=["fail"])
    run(project, "--trials", "2", *GATE)
    _, said = project.call("show", "latest", "b")
    heads = [line for line in said.splitlines() if line.startswith("✗ b")]
    names = [head.removeprefix("✗ b").partition("  (suite")[0] for head in heads]
    rerun = " · t: fail, score 0.00, re-run {} (to confirm a regression) that does not count"
    assert names == [" · t: fail, score 0.00", rerun.format(1), rerun.format(2)]
    assert "\n  trials 1 and 2 gave this answer\n" in said
    assert (said.count("question\n"), said.count("we will see\n")) == (1, 1)
    assert said.count("answer, scores and steps: the same as above") == 2
