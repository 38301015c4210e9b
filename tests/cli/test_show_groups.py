"""`agentv show --by`: rates and means of a stored run by what its rows have in common."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.command_line import Call, call_agentv
from tests.support.stored import RUN, at_noon, make_result, make_run

from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder


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
        return call_agentv(capsys, "show", "latest", *arguments)

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


@pytest.fixture
def matrix(show: Call, tmp_path: Path) -> Call:
    """Return a call of `agentv show` on a run of six cases with two prompts and two targets."""
    store = RunFolder(runs_folder(tmp_path / ".agentv"), "20990101T000000.000-aaaaaa", clock=at_noon)
    store.begin(make_run(run_id="20990101T000000.000-aaaaaa"))
    for number in range(6):
        for prompt in ("v1", "v2"):
            for target in ("small", "large"):
                slot = replace(make_result().slot, eval_id=f"c{number}", prompt=prompt, target=target)
                judged = {"status": "pass", "verdict": "pass", "score": 1.0}
                if (prompt, target) == ("v1", "small"):
                    judged = {"status": "fail", "verdict": "fail", "score": 0.0}
                store.append(
                    make_result(
                        slot=slot, prompt=prompt, target=target, tags=(["refund", "order"][number % 2],), **judged
                    )
                )
    store.close("finished")
    return show


def test_targets_and_prompts_of_a_group_are_counted_separately(matrix: Call) -> None:
    _, out, _ = matrix("--by", "tag")
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "tag refund pass rate 95 % CI mean 95 % CI errors",
        "v1, small 0 % of 3 0 to 56.1 % 0.00 0.00 to 0.56 0",
        *(f"{each} 100 % of 3 43.9 to 100 % 1.00 0.44 to 1.00 0" for each in ("v1, large", "v2, small", "v2, large")),
        "",
        "tag order pass rate 95 % CI mean 95 % CI errors",
        "v1, small 0 % of 3 0 to 56.1 % 0.00 0.00 to 0.56 0",
        *(f"{each} 100 % of 3 43.9 to 100 % 1.00 0.44 to 1.00 0" for each in ("v1, large", "v2, small", "v2, large")),
    ]
    groups = json.loads(matrix("--by", "tag", "--json")[1])["groups"]
    assert [(each["name"], each["prompt"], each["target"]) for each in groups[:3]] == [
        ("refund", "v1", "small"),
        ("refund", "v1", "large"),
        ("refund", "v2", "small"),
    ]


def test_prompts_are_tables_of_their_targets_and_targets_of_their_prompts(matrix: Call) -> None:
    by_prompt, by_target = (matrix("--by", each)[1].splitlines() for each in ("prompt", "target"))
    assert [line.split("  ")[0] for line in by_prompt] == [
        "prompt v1",
        "small",
        "large",
        "",
        "prompt v2",
        "small",
        "large",
    ]
    assert [line.split("  ")[0] for line in by_target][:3] == ["target small", "v1", "v2"]


def test_only_the_rows_of_a_prompt_are_shown_and_counted(matrix: Call) -> None:
    _, out, _ = matrix("--prompt", "v1", "--by", "prompt", "--target", "small")
    assert [line.split("  ")[0] for line in out.splitlines()] == ["prompt", "v1"]
    rows = json.loads(matrix("--prompt", "v2", "--json")[1])["rows"]
    assert (len(rows), {row["prompt"] for row in rows}) == (12, {"v2"})


def test_weeks_group_by_the_time_of_the_result(matrix: Call) -> None:
    _, out, _ = matrix("--by", "week", "--target", "large", "--prompt", "v2")
    year, week, _ = make_result().timestamp.isocalendar()
    assert out.splitlines()[1].startswith(f"{year}-W{week:02}  100 % of 6")


def test_a_page_of_rows_cannot_be_counted(show: Call) -> None:
    code, _, err = show("--by", "tag", "--page", "1")
    assert code == 4
    assert "cannot be combined with --page" in err
