"""`agentv trend`: what a suite and target came to, run after run."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.carrying import Project
from tests.support.trending import SUITE, TARGET, begin_run, keep_run, passing, row

from agentv.storage.run.find import runs_folder


@pytest.fixture
def home(project: Project) -> Path:
    return project.folder / ".agentv"


def trend_json(project: Project, *options: str) -> dict[str, Any]:
    code, said = project.call("trend", *options, "--json")
    assert code == 0
    found, _ = json.JSONDecoder().raw_decode(said)  # warnings follow
    assert found["schema"] == "agentv-trend-1"
    assert isinstance(found, dict)
    return found


def points(project: Project, *options: str) -> list[dict[str, Any]]:
    (series,) = trend_json(project, *options)["series"]
    assert (series["suite"], series["target"]) == (SUITE, TARGET)
    return list(series["points"])


def test_a_project_without_runs_has_no_trend(project: Project) -> None:
    assert project.call("trend", "-o", "trend.html")[0] == 0
    assert "There is nothing to show." in (project.folder / "trend.html").read_text()
    assert trend_json(project)["series"] == []


def test_each_run_is_a_point_with_interval_denominator_and_difference(project: Project, home: Path) -> None:
    keep_run(home, 1, passing(20))
    keep_run(home, 2, passing(30), git={"commit": "0123456789abcdef", "dirty": True})
    first, second = points(project)
    assert (first["value"], first["judged"], first["difference"]) == (0.5, 40, None)
    assert (second["value"], second["difference"]) == (0.75, 0.25)
    assert second["interval"]["low"] < 0.75 < second["interval"]["high"]
    assert "commit 01234567*" in project.call("trend")[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--target", "agent-v1"), "unknown target 'agent-v1'; known: agent-v2. Did you mean 'agent-v2'?"),
        (("--suite", "refund"), "unknown suite 'refund'; known: evals/refunds.yaml. Did you mean 'refunds'?"),
        (("--metric", "evaluator(tome).mean"), "unknown evaluator 'tome'; known: contains, tone. Did you mean 'tone'?"),
    ],
)
def test_an_unknown_name_is_reported_with_a_suggestion(
    project: Project, home: Path, options: tuple[str, str], said: str
) -> None:
    assert project.call("trend", *options)[0] == 0  # there is no run yet
    keep_run(home, 1, passing(20))
    assert project.call("trend", *options) == (4, f"error: {said}\n")


@pytest.mark.parametrize(
    ("scores", "state", "why"),
    [
        ([None, None], "finished", "no result was judged: 2 of 2 errors"),
        ([], "interrupted", "interrupted before any result"),
        ([], "failed", "failed before any result"),
        ([1.0], "failed", "the run failed"),
    ],
)
def test_a_run_that_did_not_execute_is_a_gap_and_no_zero(
    project: Project, home: Path, scores: list[float | None], state: str, why: str
) -> None:
    keep_run(home, 1, passing(20))
    keep_run(home, 2, scores, state=state)
    keep_run(home, 3, passing(22))
    before, gap, after = points(project, "--all")
    assert (gap["value"], gap["interval"], gap["gap"]) == (None, None, why)
    assert after["difference"] == pytest.approx(after["value"] - before["value"])
    said = project.call("trend", "--all")[1]
    assert "3 runs, 1 gap, 0.50 to 0.55" in said
    assert f"{gap['run_id']}: {why}" in said


def test_a_drop_that_is_no_chance_is_flagged_where_it_began(project: Project, home: Path) -> None:
    for day in range(1, 13):
        keep_run(home, day, passing(36 if day < 9 else 18))
    (series,) = trend_json(project)["series"]
    (change,) = series["changes"]
    assert change["run_id"] == series["points"][8]["run_id"]
    assert (change["before"], change["after"]) == (pytest.approx(0.9), pytest.approx(0.45))
    assert change["p"] < 0.001


def test_runs_of_an_edited_suite_are_marked_and_never_a_change(project: Project, home: Path) -> None:
    for day in range(1, 13):
        keep_run(home, day, passing(36 if day < 9 else 18), sha256="aa" if day < 9 else "bb")
    (series,) = trend_json(project)["series"]
    assert [point["suite_edited"] for point in series["points"]] == [day == 9 for day in range(1, 13)]
    assert series["changes"] == []


def test_other_gates_and_workers_are_no_edit_of_a_suite(project: Project) -> None:
    project.write()
    cases = (project.folder / "suite.yaml").read_text()
    heads = ("", "gates:\n- mean >= 0.1\n- errors <= 0\n", "workers: 2\ngates: [mean >= 0.2,\n]\n", "trials: 2\n")
    for head in heads:
        (project.folder / "gated.yaml").write_text(head + cases)
        code, said = project.call("run", "gated.yaml")
        assert code == 0, said
    (series,) = trend_json(project)["series"]
    assert [point["suite_edited"] for point in series["points"]] == [False, False, False, True]


def test_a_run_that_is_being_written_is_marked_and_grows(project: Project, home: Path) -> None:
    for day in range(1, 6):
        keep_run(home, day, passing(40))
    store = begin_run(home, 6, [])
    assert points(project)[-1]["gap"] == "being written, no result yet"
    for number in range(10):
        store.append(row(f"case-{number}", 0.0))
    (series,) = trend_json(project)["series"]
    assert (series["points"][-1]["value"], series["points"][-1]["state"]) == (0.0, "running")
    assert series["changes"] == []
    assert "being written" in project.call("trend")[1]
    store.close("finished")
    assert len(trend_json(project)["series"][0]["changes"]) == 1


def test_it_is_written_as_a_page_and_as_markdown(project: Project, home: Path) -> None:
    keep_run(home, 1, passing(20))
    code, said = project.call("trend", "-o", "trend.html", "-o", "trend.md", "--by", "commit")
    assert (code, said.endswith("Wrote trend.html\nWrote trend.md\n"), " commit" in said) == (0, True, False)
    for name in ("trend.html", "trend.md"):
        assert "0.50 of 40" in (project.folder / name).read_text("utf-8")
    code, said = project.call("trend", "-o", "trend.doc")
    assert (code, ".html" in said) == (4, True)


def test_a_run_of_some_cases_says_so_and_is_no_change(project: Project, home: Path) -> None:
    for day in range(1, 6):
        keep_run(home, day, passing(20))
    for day in range(6, 12):
        keep_run(home, day, passing(12, of=12), plan={"options": {"tags": ["easy"], "expression": "not slow"}})
    assert "\nruns    5 runs" in project.call("trend")[1]
    (found,) = trend_json(project, "--all")["series"]
    assert found["changes"] == []
    assert [point["selection"] for point in found["points"][4:6]] == [None, "--tag easy -k 'not slow'"]
    assert found["points"][5]["difference"] is None
    said = project.call("trend", "--all")[1]
    assert "+0.00 since" not in said
    assert "0.00 since the previous run with the same cases" in said
    assert "with --tag easy -k 'not slow'" in said


def test_suites_are_chosen_by_path_or_name_and_targets_by_name(project: Project, home: Path) -> None:
    keep_run(home, 1, passing(20))
    for options in (["--suite", SUITE], ["--suite", "refunds"], ["--suite", "refunds.yaml"], ["--target", TARGET]):
        assert len(trend_json(project, *options)["series"]) == 1


def test_of_older_runs_than_are_shown_nothing_is_read(project: Project, home: Path) -> None:
    old = keep_run(home, 1, passing(1))
    for day in range(2, 5):
        keep_run(home, day, passing(20))
    assert len(points(project)) == 4
    (runs_folder(home) / old / "results.jsonl").write_text("{")
    assert [point["value"] for point in points(project, "--last", "3")] == [0.5, 0.5, 0.5]


def test_a_run_that_cannot_be_read_is_a_gap_and_ends_nothing(project: Project, home: Path) -> None:
    keep_run(home, 1, passing(20))
    broken = keep_run(home, 2, passing(20))
    (runs_folder(home) / broken / "results.jsonl").write_text('{"no": "row"}\n')
    (found,) = trend_json(project)["series"]
    assert [point["value"] for point in found["points"]] == [0.5, None]
    assert "results.jsonl:1" in found["points"][1]["gap"]
    assert found["points"][1]["edits"] == [
        "results.jsonl was changed after it was written: its first 40 lines are not as recorded"
    ]
    lost = keep_run(home, 3, passing(20))
    (runs_folder(home) / lost / "run.json").write_text("{")
    code, said = project.call("trend")
    assert (code, "skipped: " in said, lost in said, "2 runs, 1 gap" in said) == (0, True, True, True)


def test_an_unknown_metric_is_refused_with_those_there_are(project: Project) -> None:
    code, said = project.call("trend", "--metric", "evaluatr(x).mean")
    assert (code, "evaluator(NAME).mean" in said) == (4, True)


@pytest.mark.parametrize(
    ("metric", "key"), [("mean", "mean"), ("pass_rate", "pass_rate"), ("p50(duration_s)", "latency_median")]
)
def test_its_numbers_are_those_of_the_report(project: Project, metric: str, key: str) -> None:
    project.evaluators = "{name: has, type: contains, value: question a}"
    for options in (["--trials", "3"], []):
        assert project.call("run", "suite.yaml", *options, "--gate", "none", "--display", "none")[0] == 0
    project.write()
    assert project.call("retry", "latest", "--failed", "--display", "none")[0] in (0, 1)
    (series,) = trend_json(project, "--metric", metric)["series"]
    for point, reference in zip(series["points"], ("latest~1", "latest"), strict=True):
        code, said = project.call("report", reference, "--json")
        assert code == 0
        (target,) = json.loads(said)["targets"]
        value = {"mean": "mean_score", "pass_rate": "pass_rate", "latency_median": "latency_median_s"}[key]
        assert point["value"] == pytest.approx(target[value])
        assert point["interval"] == target[f"{key}_interval"]


def test_runs_that_are_not_whole_are_left_out_and_counted(project: Project, home: Path) -> None:
    keep_run(home, 1, passing(20))
    keep_run(home, 2, passing(20), state="stopped")
    for day, plan in enumerate(
        ({"options": {"limit": 5}}, {"options": {"shard": "1/2"}}, {"source": "pytest"}), start=3
    ):
        keep_run(home, day, passing(40), plan=plan)
    code, said = project.call("trend")
    assert (code, "1 run" in said) == (0, True)
    left_out = "left out: 4 partial runs (stopped; --limit 5; shard 1/2; pytest); --all shows them"
    assert left_out in said
    assert "5 runs" in project.call("trend", "--all")[1]
    listed = project.call("runs", "list")[1]
    for mark in ("(--limit 5)", "(shard 1/2)", "(pytest)"):
        assert mark in listed
    found = json.loads(project.call("runs", "list", "--json")[1])["runs"]
    assert [each["part"] for each in found] == ["pytest", "shard 1/2", "--limit 5", "stopped", None]
