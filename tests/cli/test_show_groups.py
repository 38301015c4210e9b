"""`agentv show --by`: rates and means of a stored run by what its rows have in common."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.stored import RUN, at_noon, make_result, make_run

from agentv.cli.main import main
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    store = RunFolder(runs_folder(tmp_path / ".agentv"), RUN.run_id, clock=at_noon)
    store.begin(make_run())
    for number in range(8):
        passed = number % 4 != 0
        for trial in range(2):
            slot = replace(make_result().slot, eval_id=f"c{number}", trial=trial)
            judged = {"status": "pass", "verdict": "pass", "score": 1.0}
            if not passed:
                judged = {"status": "fail", "verdict": "fail", "score": 0.0}
            tags = ("refund",) if number < 6 else ("order", "slow")
            store.append(make_result(slot=slot, tags=tags, metadata={"team": ["core", "web"][number % 2]}, **judged))
    store.close("finished")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["show", "latest", *arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def test_rows_are_counted_by_tag_and_repeats_are_one_case(show: Call) -> None:
    code, out, _ = show("--by", "tag")
    assert code == 0
    assert out == (
        "tag        pass rate        95 % CI  mean       95 % CI  errors\n"
        "refund  66.7 % of 12   30 to 90.3 %  0.67  0.30 to 0.90       0\n"
        "order     100 % of 4  34.2 to 100 %  1.00  0.34 to 1.00       0\n"
        "slow      100 % of 4  34.2 to 100 %  1.00  0.34 to 1.00       0\n"
    )


def test_any_key_of_the_metadata_groups_with_or_without_its_prefix(show: Call) -> None:
    plain, named = show("--by", "team", "--json"), show("--by", "metadata.team", "--json")
    assert plain == named
    output = json.loads(plain[1])
    assert output["schema"] == "agentv-show-1"
    assert [(each["by"], each["name"], each["pass_rate"]) for each in output["groups"]] == [
        ("metadata.team", "core", 0.5),
        ("metadata.team", "web", 1.0),
    ]
    assert output["groups"][0]["pass_rate_interval"]["method"] == "clustered-wilson"


def test_only_the_rows_that_are_chosen_are_counted(show: Call) -> None:
    _, out, _ = show("--by", "target", "--tag", "refund", "--json")
    (group,) = json.loads(out)["groups"]
    assert group["judged"] == 12


def test_what_no_row_has_is_refused_with_what_there_is(show: Call) -> None:
    code, out, err = show("--by", "tem")
    assert (code, out) == (4, "")
    assert "no result has 'metadata.tem' to group by" in err
    assert "evaluator, target, suite" in err


def test_a_page_of_rows_cannot_be_counted(show: Call) -> None:
    code, _, err = show("--by", "tag", "--page", "1")
    assert code == 4
    assert "cannot be combined with --page" in err
