"""Cases with `skip` and `incomplete`: they are in the report, and none of them passes."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.cli.main import agentv

TARGETS = "targets:\n  - {name: fixed, provider: mock, response: yes it is}\n"
YES = "{name: says_yes, type: contains, value: 'yes'}"
NO = "{name: says_no, type: contains, value: 'no such text'}"


def call(*arguments: str) -> int:
    code: int = agentv.main(list(arguments), standalone_mode=False) or 0
    return code


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("targets.yaml").write_text(TARGETS)


def write(cases: str, top: str = "") -> None:
    Path("a.eval.yaml").write_text(f"target: fixed\n{top}evalcases:\n{cases}")


def run(*more: str) -> tuple[int, list[dict[str, Any]]]:
    code = call("run", "a.eval.yaml", "-o", "rows.jsonl", *more)
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    return code, rows


def states(rows: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(row["eval_id"], row["verdict"] or row["status"], row.get("reasoning")) for row in rows]


def test_a_skipped_case_is_not_called_and_keeps_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        f"  - {{id: a, input_messages: [{{role: user, content: hi}}], evaluators: [{YES}]}}\n"
        "  - {id: b, skip: its prompt is a script}\n"
    )
    code, rows = run()
    assert code == 0
    assert states(rows) == [("a", "pass", None), ("b", "skipped", "its prompt is a script")]
    assert rows[1]["candidate_answer"] == ""
    assert "PASS: 1 of 1 judged result passed (100 %). 1 result was skipped." in capsys.readouterr().out


def test_a_run_of_skipped_cases_only_is_incomplete(capsys: pytest.CaptureFixture[str]) -> None:
    write("  - {id: a, skip: lost}\n  - {id: b, skip: lost}\n")
    code, _ = run()
    assert code == 3
    assert "INCOMPLETE: no result could be judged. 2 results were skipped." in capsys.readouterr().out


def test_an_incomplete_case_may_fail_but_not_pass() -> None:
    write(
        f"  - {{id: a, input_messages: [{{role: user, content: hi}}], evaluators: [{YES}], incomplete: no html}}\n"
        f"  - {{id: b, input_messages: [{{role: user, content: hi}}], evaluators: [{NO}], incomplete: no html}}\n"
    )
    code, rows = run()
    assert code == 1
    assert states(rows) == [("a", "skipped", "no html"), ("b", "fail", None)]
    assert rows[0]["score"] is None
    assert [each["score"] for each in rows[0]["evaluator_results"]] == [1.0]


def test_a_prompt_may_be_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        f"  - {{id: a, evaluators: [{YES}]}}\n  - {{id: b, skip: lost}}\n",
        "prompts:\n  - {id: short, text: Be short.}\n  - {id: script, skip: made by x.sh}\n",
    )
    assert call("check", "a.eval.yaml") == 0
    out = capsys.readouterr().out
    assert "warning: prompt 'script' is not sent (`skip`): made by x.sh" in out
    assert "warning: case 'b' is not run (`skip`): lost" in out
    code, rows = run()
    assert code == 0
    found = sorted((row["eval_id"], row["prompt"], row["status"], row.get("reasoning")) for row in rows)
    assert found == [
        ("a", "script", "skipped", "made by x.sh"),
        ("a", "short", "pass", None),
        ("b", "script", "skipped", "lost"),
        ("b", "short", "skipped", "lost"),
    ]


def test_a_dataset_may_be_skipped_as_a_whole() -> None:
    Path("rows.csv").write_text("q\none\ntwo\n")
    Path("a.eval.yaml").write_text("target: fixed\nevalcases: {file: rows.csv, case: {skip: lost}}\n")
    code, rows = run()
    assert (code, [row["reasoning"] for row in rows]) == (3, ["lost", "lost"])


def test_check_reports_cases_that_are_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "  - {id: a, skip: its prompt is a script}\n  - {id: b, skip: lost}\n"
        f"  - {{id: c, input_messages: [{{role: user, content: hi}}], evaluators: [{YES}], incomplete: no html}}\n"
    )
    assert call("check", "a.eval.yaml") == 0
    out = capsys.readouterr().out
    assert "a.eval.yaml:3:1  $  warning: 2 cases are not run (`skip`), the first: its prompt is a script" in out
    assert "a.eval.yaml:5:1  $  warning: case 'c' is checked only in part (`incomplete`): no html" in out


def test_a_dry_run_counts_no_call_for_a_skipped_case(capsys: pytest.CaptureFixture[str]) -> None:
    write("  - {id: a, skip: lost}\n")
    assert call("run", "a.eval.yaml", "--dry-run") == 0
    assert "results planned: 1; target calls: 0" in capsys.readouterr().out


def test_resume_runs_a_case_whose_skip_was_removed() -> None:
    write("  - {id: a, skip: lost}\n")
    run()
    write(f"  - {{id: a, input_messages: [{{role: user, content: hi}}], evaluators: [{YES}]}}\n")
    assert call("resume", "latest") == 0
    assert call("resume", "latest") == 0


def test_resume_judges_a_case_again_that_became_incomplete() -> None:
    case = f"id: a, input_messages: [{{role: user, content: hi}}], evaluators: [{YES}]"
    write(f"  - {{{case}}}\n")
    assert run()[0] == 0
    write(f"  - {{{case}, incomplete: no html}}\n")
    assert call("resume", "latest") == 3
    assert call("resume", "latest") == 3
    write(f"  - {{{case}}}\n")
    assert call("resume", "latest") == 0


def test_an_exported_case_is_still_incomplete() -> None:
    write(f"  - {{id: a, input_messages: [{{role: user, content: hi}}], evaluators: [{NO}], incomplete: no html}}\n")
    assert run()[0] == 1
    assert call("runs", "export", "latest", "--failed", "-o", "failed.eval.yaml") == 0
    assert "incomplete: no html" in Path("failed.eval.yaml").read_text()


CODE_JUDGE = "def check(case):\n    return {'skipped': 'there is no node'}\n"
SKIPPING = "{name: script, type: code_judge, python: 'judge.py:check', required: REQUIRED}"


@pytest.mark.parametrize(("required", "state"), [("true", "skipped"), ("0", "skipped"), ("false", "pass")])
def test_a_required_code_judge_that_skips_leaves_no_pass(required: str, state: str) -> None:
    Path("judge.py").write_text(CODE_JUDGE)
    judge = SKIPPING.replace("REQUIRED", required)
    write(f"  - {{id: a, input_messages: [{{role: user, content: hi}}], evaluators: [{judge}, {YES}]}}\n")
    _, rows = run()
    assert states(rows)[0][:2] == ("a", state)
    assert "there is no node" in rows[0]["reasoning"]


def test_a_member_that_is_required_and_skipped_leaves_no_pass() -> None:
    Path("judge.py").write_text(CODE_JUDGE)
    judge = SKIPPING.replace("REQUIRED", "0")
    group = f"{{name: all, type: composite, aggregator: {{type: all}}, evaluators: [{judge}, {YES}]}}"
    write(f"  - {{id: a, input_messages: [{{role: user, content: hi}}], evaluators: [{group}]}}\n")
    code, rows = run()
    assert (code, states(rows)) == (3, [("a", "skipped", "script: there is no node")])
