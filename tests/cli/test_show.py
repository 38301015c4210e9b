"""`agentv show` and `agentv runs list` on stored runs, as a user has them."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.command_line import Call, command_line
from tests.support.stored import NOON, RUN, at_noon, make_answer, make_case, make_result, make_run

from agentv.cli.main import main
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.types.records.answer import AnswerRef

OLDER = "20260130T120000-00c0de"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two stored runs."""
    home = tmp_path / ".agentv"
    for run_id, created_at in ((OLDER, NOON - timedelta(days=1)), (RUN.run_id, NOON)):
        store = RunFolder(runs_folder(home), run_id, clock=at_noon)
        store.begin(make_run(run_id=run_id, created_at=created_at, name="nightly" if run_id == RUN.run_id else None))
        store.append_case(make_case())
        answer = store.append_answer(make_answer())
        store.append(make_result(run_id=run_id, answer_ref=AnswerRef(answer.seq or 0)))
        slot = replace(make_result().slot, eval_id="order-1")
        store.append(make_result(run_id=run_id, slot=slot, status="pass", score=1.0, verdict="pass"))
        store.close("finished")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    assert project.exists()
    return command_line(capsys)


ROWS = """\
run 20260131T120000-7f3a2b  nightly  finished  2026-01-31 12:00 UTC
2 results of agent-v2: 1 pass, 1 fail

  state  case      score
✗ fail   refund-7  0.33   May I return order 7?
    contains: expected "30 days", got "We will look into it."
✓ pass   order-1   1.00

Details of a case: agentv show 20260131T120000-7f3a2b CASE
"""


def test_show_lists_the_cases_of_the_latest_run(call: Call) -> None:
    assert call("show") == (0, ROWS, "")


def test_show_failed_leaves_out_what_passed(call: Call) -> None:
    code, out, _ = call("show", "nightly", "--failed")
    assert code == 0
    assert "refund-7" in out
    assert "order-1" not in out


def test_show_a_case_gives_question_answer_reasons_and_transcript(call: Call) -> None:
    code, out, _ = call("show", "7f3a", "refund-7")
    assert code == 0
    for text in (
        "question\n│ May I return order 7?",
        "reference answer\n│ You have 30 days.",
        "answer\n│ We will look into it.",
        '│ - expected "30 days"',
        '│ lookup_order({"id":7}) -> {"status":"paid"}',
    ):
        assert text in out


def test_show_takes_a_pattern_for_cases(call: Call) -> None:
    _, out, _ = call("show", "latest", "*-[17]")
    assert "refund-7 · agent-v2" in out
    assert "order-1 · agent-v2" in out


def test_show_an_unknown_case_says_the_nearest(call: Call) -> None:
    assert call("show", "latest", "refund-8") == (
        4,
        "",
        f"error: run {RUN.run_id} has no case 'refund-8'. Did you mean 'refund-7'?\n",
    )


def test_show_one_trial_of_a_case(call: Call) -> None:
    code, out, _ = call("show", "latest", "refund-7", "--trial", "1")
    assert (code, out.startswith("✗ refund-7 · agent-v2: fail")) == (0, True)
    code, _, err = call("show", "latest", "refund-7", "--trial", "2")
    assert (code, err) == (4, f"error: case 'refund-7' of run {RUN.run_id} has no trial 2; its last is 1\n")
    code, _, err = call("show", "latest", "--trial", "2")
    assert (code, err) == (4, "error: --trial selects one trial of a case; name the CASE\n")


def test_show_failed_of_a_case_that_passed_says_so(call: Call) -> None:
    code, _, err = call("show", "latest", "order-1", "--failed")
    assert code == 4
    assert err == (
        f"error: no selected result of case 'order-1' of run {RUN.run_id} failed; omit --failed to show the others\n"
    )


def test_show_an_unknown_run_lists_those_there_are(call: Call) -> None:
    code, out, err = call("show", "nope")
    assert (code, out) == (4, "")
    assert err == f"error: there is no run 'nope'; known, latest first: {RUN.run_id} (nightly), {OLDER}\n"


def test_show_json_has_a_versioned_shape(call: Call) -> None:
    _, out, _ = call("show", "--json", "--failed")
    shown = json.loads(out)
    assert (shown["schema"], shown["run"]["run_id"], shown["state"]) == ("agentv-show-1", RUN.run_id, "finished")
    assert shown["counts"] == {"fail": 1, "pass": 1}
    assert [row["eval_id"] for row in shown["rows"]] == ["refund-7"]


def test_show_json_of_a_case_has_case_row_and_answer(call: Call) -> None:
    _, out, _ = call("show", "latest", "refund-7", "--json")
    (case,) = json.loads(out)["cases"]
    assert case["case"]["question"] == "May I return order 7?"
    assert case["row"]["verdict"] == "fail"
    assert case["answer"]["output_messages"][0]["tool_calls"][0]["tool"] == "lookup_order"


def test_runs_list_has_the_latest_first(call: Call) -> None:
    assert call("runs", "list") == (
        0,
        (f"{RUN.run_id}  finished  50 % of 2  nightly\n{OLDER}  finished  50 % of 2\n"),
        "",
    )


def test_runs_list_json_has_a_versioned_shape(call: Call) -> None:
    _, out, _ = call("runs", "list", "--json")
    listed = json.loads(out)
    assert listed["schema"] == "agentv-runs-1"
    assert [run["run_id"] for run in listed["runs"]] == [RUN.run_id, OLDER]
    assert listed["runs"][0]["counts"] == {"pass": 1, "fail": 1}


def test_runs_list_shows_a_broken_run_as_unreadable(call: Call, project: Path) -> None:
    results = runs_folder(project / ".agentv") / RUN.run_id / "results.jsonl"
    results.write_bytes(results.read_bytes() + b"not json\n")
    code, out, err = call("runs", "list")
    assert (code, err) == (0, "")
    broken, whole = out.splitlines()
    assert broken.startswith(f"{RUN.run_id}  unreadable  {results}:3: JSON is malformed")
    assert broken.endswith("  nightly")
    assert whole == f"{OLDER}  finished    50 % of 2"
    listed = json.loads(call("runs", "list", "--json")[1])["runs"]
    assert [run["state"] for run in listed] == ["unreadable", "finished"]
    assert "JSON is malformed" in listed[0]["problem"]
    assert "problem" not in listed[1]


def test_runs_list_before_the_first_run_says_what_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".agentv").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["runs", "list"])
    assert capsys.readouterr().out == f"no runs in {tmp_path / '.agentv'}; start one with `agentv run`\n"
