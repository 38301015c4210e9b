"""The numbers on pages are those that the commands print, for stored runs of every kind."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest
from tests.support.viewer import Client, serving_view

from agentv.cli.main import main
from agentv.storage.index.file import pages_file
from agentv.storage.index.indexer import Indexer

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"
NAMES = sorted({path.parent.name for path in RUNS.glob("*/run.json")} - {"killed"})
"""`killed` is `resumed` before it was resumed."""
IDS = {name: json.loads((RUNS / name / "run.json").read_bytes())["run_id"] for name in NAMES}
PAIRS = (("plain", "changed"), ("labels", "budget"), ("shard-1", "merged"), ("resumed", "merged"), ("plain", "plain"))

WORST_FIRST = ("fail", "borderline", "error", "pass", "skipped")

Printed: TypeAlias = Callable[..., Any]
"""What `agentv` prints as JSON for some arguments."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    for name, run_id in IDS.items():
        copied = shutil.copytree(RUNS / name, folder / ".agentv" / "runs" / run_id)
        Indexer(pages_file(folder / ".agentv", run_id), copied).run()  # however slow the machine is
    return folder


@pytest.fixture(scope="module")
def client(project: Path) -> Iterator[Client]:
    with serving_view(project / ".agentv") as viewer:
        yield viewer.client()


@pytest.fixture
def printed(project: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Printed:
    monkeypatch.chdir(project)
    monkeypatch.delenv("AGENTV_STORE", raising=False)

    def call(*arguments: str) -> Any:
        with pytest.raises(SystemExit):
            main([*arguments, "--json"])
        return json.loads(capfdbinary.readouterr().out)

    return call


def all_rows(client: Client, run_id: str, query: str = "") -> list[dict[str, Any]]:
    """Return the results that match, which fit on one page; each trial is one."""
    data = client.get(f"/r/{run_id}/rows.json?trial=all&{query}").json()
    rows: list[dict[str, Any]] = data["rows"]
    assert len(rows) == data["total"]
    return rows


def name_of(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(row.get(part) for part in ("suite", "eval_id", "target", "trial", "prompt"))


def state_of(row: dict[str, Any]) -> str:
    """Return the state of a result as the command's tables show it."""
    return str(row["status"] if row["status"] in ("error", "skipped") else row["verdict"])


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_run_has_the_numbers_of_its_report(client: Client, printed: Printed, name: str) -> None:
    assert client.get(f"/r/{IDS[name]}.json").json() == printed("report", IDS[name])


def judged_score(row: dict[str, Any]) -> float | None:
    """Return the score that people see: that of an error counts the failed judge as 0, and is not shown."""
    return None if row["status"] == "error" else row.get("score")


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_of_a_run_are_those_of_show(client: Client, printed: Printed, name: str) -> None:
    shown = printed("show", IDS[name])
    rows = all_rows(client, IDS[name])
    assert Counter(row["state"] for row in rows) == shown["counts"]
    expected = {
        name_of(row): (state_of(row), judged_score(row), row.get("cost_usd"), row["candidate_answer"])
        for row in shown["rows"]
    }
    assert {name_of(row): (row["state"], row["score"], row["cost_usd"], row["answer"]) for row in rows} == expected


@pytest.mark.parametrize("name", NAMES)
def test_each_filter_finds_what_show_finds(client: Client, printed: Printed, name: str) -> None:
    data = client.get(f"/r/{IDS[name]}/rows.json?trial=all").json()
    for key in ("state", "target", "tag", "suite"):
        for value, count in data["facets"][key].items():
            rows = all_rows(client, IDS[name], f"{key}={quote(value)}")
            assert len(rows) == count, (key, value)
            shown = printed("show", IDS[name], f"--{key}", value)["rows"]
            assert set(map(name_of, rows)) == set(map(name_of, shown)), (key, value)


@pytest.mark.parametrize("name", NAMES)
def test_the_trials_of_a_case_are_one_row_which_shows_the_worst(client: Client, printed: Printed, name: str) -> None:
    cases: dict[tuple[object, ...], list[tuple[int, int, str]]] = {}
    for row in printed("show", IDS[name])["rows"]:
        case = tuple(row.get(part) for part in ("suite", "eval_id", "target", "prompt"))
        cases.setdefault(case, []).append((WORST_FIRST.index(state_of(row)), row.get("trial") or 0, state_of(row)))
    expected = {
        case: (min(trials)[1], min(trials)[2], sum(state == "pass" for *_, state in trials), len(trials))
        for case, trials in cases.items()
    }
    data = client.get(f"/r/{IDS[name]}/rows.json").json()
    found = {
        tuple(row.get(part) for part in ("suite", "eval_id", "target", "prompt")): (
            *(row.get("trial") or 0, row["state"]),
            *(row["passed"], row["trials"]),
        )
        for row in data["rows"]
    }
    assert data["total"] == len(found)
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_columns_of_a_grid_have_the_rates_of_the_report(client: Client, printed: Printed, name: str) -> None:
    report, grid = printed("report", IDS[name]), client.get(f"/r/{IDS[name]}/grid.json").json()
    cells = (report.get("matrix") or {}).get("cells") or report["targets"]
    expected = {
        (each["target"], each.get("prompt")): (each["counts"], each["pass_rate"], each["mean_score"]) for each in cells
    }
    found = {
        (each["target"], each["prompt"]): (each["counts"], each["pass_rate"], each["mean_score"])
        for each in grid["columns"]
    }
    assert found == expected
    cells_found = [cell for case in grid["cases"] for cell in case["cells"]]
    if len(grid["cases"]) == grid["total"]:
        assert sum(cell["trials"] for cell in cells_found) == sum(report["counts"].values())
        assert sum(cell["passed"] for cell in cells_found) == report["counts"].get("pass", 0)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_comparison_has_the_numbers_of_compare(client: Client, printed: Printed, pair: tuple[str, str]) -> None:
    before, after = (IDS[name] for name in pair)
    page = client.get(f"/compare/{before}..{after}.json").json()
    command = printed("compare", before, after)
    (score,) = (each for each in command["measures"] if each["measure"] == "score")
    assert (page["finding"], page["direction"]) == (command["finding"], command["direction"])
    assert (page["difference"], page["p"]) == (score["difference"], score["p"])
    assert page["interval"] == (score["interval"] and [score["interval"]["low"], score["interval"]["high"]])
    assert page["differs"] == command["differs"]
    assert page["counts"]["lost"] == len(command["regressed"])
    assert page["counts"]["won"] == len(command["improved"])
    for only, listed in (("lost", "regressed"), ("won", "improved")):
        cases = client.get(f"/compare/{before}..{after}.json?only={only}").json()["cases"]
        assert [(each["eval_id"], each["difference"]) for each in cases] == [
            (each["eval_id"], each["difference"]) for each in command[listed]
        ]


@pytest.mark.parametrize("metric", ["pass_rate", "mean", "cost_usd", "p95(duration_s)"])
@pytest.mark.parametrize("suite", ["plain.yaml", "trials.yaml", "labels.yaml", "errors.yaml", "long.yaml"])
def test_a_trend_has_the_points_of_trend(client: Client, printed: Printed, suite: str, metric: str) -> None:
    page = client.get(f"/trend/{suite}.json?metric={quote(metric)}").json()
    command = printed("trend", "--suite", suite, "--metric", metric, "--last", "30")
    assert [(each["target"], each["points"]) for each in page["series"]] == [
        (each["target"], each["points"]) for each in command["series"]
    ]


def test_a_judge_has_the_numbers_of_calibrate(client: Client, printed: Printed) -> None:
    command = printed("judge", "calibrate", IDS["labels"], "--no-save")
    for card in command["cards"]:
        page = client.get(f"/judge/{card['evaluator']}.json?run={IDS['labels']}").json()
        (found,) = [each for each in page["cards"] if each["criterion"] == card["criterion"]]
        assert found | {"calibration": card["calibration"]} == card  # the command adds what it saved
