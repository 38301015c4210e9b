"""`agentv show` with options that choose, sort and page rows, and what it does without an index."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.command_line import Call, command_line
from tests.support.stored import RUN, at_noon, make_answer, make_case, make_result, make_run

from agentv.cli.results.show import _SORTS, _STATES
from agentv.scoring.counting.tallies import JUDGED_STATES
from agentv.storage.index.row_query import SORT_KEYS
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.types.records.answer import AnswerRef

ROWS: tuple[tuple[str, str, str, str | None, float | None, tuple[str, ...], dict[str, int]], ...] = (
    ("a", "v1", "pass", "pass", 1.0, ("refund",), {"level": 1}),
    ("b", "v1", "fail", "borderline", 0.7, ("refund", "slow"), {"level": 2}),
    ("c", "v2", "fail", "fail", 0.1, (), {}),
    ("d", "v2", "error", None, None, ("slow",), {"level": 2}),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / ".agentv"
    store = RunFolder(runs_folder(home), RUN.run_id, clock=at_noon)
    store.begin(make_run(plan={"suites": [{"path": "evals/refunds.yaml"}]}))
    for eval_id, target, status, verdict, score, tags, metadata in ROWS:
        slot = replace(make_result().slot, eval_id=eval_id, target=target)
        store.append_case(make_case(eval_id=eval_id))
        answer = store.append_answer(make_answer(slot=slot))
        judged: dict[str, Any] = {"status": status, "verdict": verdict, "score": score}
        store.append(
            make_result(slot=slot, tags=tags, metadata=metadata, answer_ref=AnswerRef(answer.seq or 0), **judged)
        )
    store.close("finished")
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def call(home: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    assert home.exists()
    return command_line(capsys)


def shown(call: Call, *options: str) -> dict[str, Any]:
    code, out, err = call("show", "--json", *options)
    assert (code, err) == (0, "")
    loaded: dict[str, Any] = json.loads(out)
    return loaded


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--state error --state fail", "cd"),
        ("--failed", "bcd"),
        ("--target v1", "ab"),
        ("--tag slow", "bd"),
        ("--tag slow --tag refund --target v1", "ab"),
        ("--suite evals/refunds.yaml", "abcd"),
        ("--suite refunds", "abcd"),
        ("--suite refunds.yaml", "abcd"),
        ("--suite shop/evals/refunds.yaml", "abcd"),
        ("--text C", "c"),
        ("--metadata level=2", "bd"),
        ("--metadata level --metadata level=1", "a"),
        ("--metadata level=1 --metadata level", "a"),
        ("--sort score", "cbad"),
        ("--sort=-score", "abcd"),
        ("--sort=-id", "dcba"),
        ("--sort state", "dcba"),
        ("--page 2 --page-size 3", "d"),
        ("--page 9", ""),
        ("--page-size 1 --sort=-written", "d"),
    ],
)
def test_options_choose_and_sort_rows(call: Call, options: str, expected: str) -> None:
    assert "".join(row["eval_id"] for row in shown(call, *options.split())["rows"]) == expected


def test_options_that_no_result_matches_give_a_sentence(call: Call) -> None:
    code, out, err = call("show", "--tag", "slow", "--target", "v3")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "No result matches these options."


def test_two_values_of_a_metadata_key_are_an_error(call: Call) -> None:
    code, out, err = call("show", "--metadata", "level=1", "--metadata", "level=2")
    assert (code, out) == (4, "")
    assert "--metadata level is given with two values" in err


def test_a_suite_that_the_run_does_not_have_is_an_error(call: Call) -> None:
    code, out, err = call("show", "--suite", "refund")
    assert (code, out) == (4, "")
    assert "unknown suite 'refund'; known: evals/refunds.yaml. Did you mean 'refunds'?" in err


def test_a_page_comes_with_its_place_and_the_counts_to_narrow_it_by(call: Call) -> None:
    output = shown(call, "--page", "1", "--page-size", "1", "--tag", "slow")
    assert output["counts"] == {"pass": 1, "borderline": 1, "fail": 1, "error": 1}
    assert output["page"] == {
        "number": 1,
        "size": 1,
        "total": 2,
        "skipped_lines": 0,
        "facets": {
            "states": {"borderline": 1, "error": 1},
            "targets": {"v1": 1, "v2": 1},
            "tags": {"refund": 2, "slow": 2},
            "suites": {"evals/refunds.yaml": 2},
            "prompts": {},
        },
    }
    assert "page" not in shown(call)


def test_a_page_of_text_says_what_it_is_a_part_of(call: Call) -> None:
    code, out, _ = call("show", "--page", "2", "--page-size", "3")
    assert code == 0
    assert "4 results: 1 pass, 1 borderline, 1 fail, 1 error" in out
    assert "\ncases 4 to 4 of 4; page 2 of 2\n" in out
    assert "\nno cases of 4; page 9 of 1\n" in call("show", "--page", "9")[1]


def test_a_case_with_options_that_no_row_of_it_fits_says_so(call: Call) -> None:
    code, _, err = call("show", "latest", "a", "--target", "v2")
    assert code == 4
    assert "has no result that matches the other options" in err


def test_what_contradicts_or_is_unknown_is_refused(call: Call) -> None:
    assert call("show", "--failed", "--state", "pass")[0] == 4
    assert call("show", "--sort", "colour")[0] == 4
    assert call("show", "--state", "broken")[0] == 4


def test_an_unusable_index_is_reported_only_with_v(call: Call, home: Path) -> None:
    before = call("show", "--failed"), call("runs", "list")
    for file in home.glob("index.db*"):
        file.unlink()
    (home / "index.db").mkdir()
    assert (call("show", "--failed"), call("runs", "list")) == before
    code, out, err = call("show", "--failed", "-v")
    assert (code, out, err.count("their folders are read instead")) == (0, before[0][1], 1)
    code, out, err = call("runs", "list", "-v")
    assert (code, out, err.count("their folders are read instead")) == (0, before[1][1], 1)


def test_an_unreadable_line_is_an_error_with_its_place(call: Call, home: Path) -> None:
    path = runs_folder(home) / RUN.run_id / "results.jsonl"
    path.write_bytes(path.read_bytes() + b"not json\n")
    code, out, err = call("show", "--failed")
    assert (code, out) == (3, "")
    assert "results.jsonl:5: " in err


def test_the_options_offer_all_states_and_sort_keys() -> None:
    assert _SORTS == SORT_KEYS
    assert (*JUDGED_STATES, "error", "skipped") == _STATES
