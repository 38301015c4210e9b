"""The trend of an eval file: the numbers of `agentv trend`, drawn for each target, at an address with its path."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.trending import SUITE, TARGET, begin_run, keep_run, passing, row
from tests.support.viewer import Client, serving_view

from agentv.types.records.answer import ResultKey
from agentv.view.address import path_to

ADDRESS = path_to("trend", SUITE)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    home = tmp_path_factory.mktemp("trending") / ".agentv"
    passed = [36, 35, 36, 34, 36, 20, 21, 20]
    return home, [keep_run(home, day, passing(each)) for day, each in enumerate(passed, start=1)]


@pytest.fixture(scope="module")
def client(runs: tuple[Path, list[str]]) -> Iterator[Client]:
    with serving_view(runs[0]) as viewer:
        yield viewer.client()


def test_the_page_draws_the_pass_rate_of_each_run_with_its_change(client: Client) -> None:
    page = client.get(ADDRESS)
    assert page.status == 200
    assert page.text.count('<circle cx="') == 8
    assert "▲ the level changes" in page.text
    assert f'<h2 dir="auto">{TARGET}</h2>' in page.text
    assert "50 % of 40 (95 % CI: 35.2 to 64.8 %)" in page.text


def test_its_data_are_those_of_the_command(client: Client, runs: tuple[Path, list[str]]) -> None:
    data = client.get(f"{ADDRESS}.json").json()
    assert (data["schema"], data["metric"]) == ("agentv-trend-1", "pass_rate")
    (series,) = data["series"]
    assert (series["suite"], series["target"]) == (SUITE, TARGET)
    assert [point["run_id"] for point in series["points"]] == runs[1]
    assert [point["value"] for point in series["points"]][-2:] == [0.525, 0.5]


@pytest.mark.parametrize("metric", ["mean", "p95(duration_s)", "cost_usd"])
def test_other_metrics_are_chosen_by_the_address(client: Client, metric: str) -> None:
    page = client.get(f"{ADDRESS}?metric={metric}")
    assert page.status == 200
    assert client.get(f"{ADDRESS}.json?metric={metric}").json()["metric"] == metric


def test_a_run_links_to_the_trend_of_its_eval_file_and_back(client: Client, runs: tuple[Path, list[str]]) -> None:
    newest = runs[1][-1]
    assert f'href="{ADDRESS}"' in client.get(f"/r/{newest}").text
    assert f'href="/r/{newest}"' in client.get(ADDRESS).text


def test_a_file_or_target_that_no_run_has_is_not_found(client: Client) -> None:
    reply = client.get("/trend/none.yaml")
    assert reply.status == 404
    assert "none.yaml" in reply.text
    assert client.get(f"{ADDRESS}?target=nobody").status == 404


def test_an_eval_file_in_json_has_a_page_and_data(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    path = "evals/refunds.json"
    plan = {"suites": [{"path": path, "sha256": "aa"}]}
    store = begin_run(home, 1, [], plan=plan)
    slot = ResultKey(path, "case-1", TARGET)
    store.append(replace(row("case-1", 1.0, run_id=store.run_id), slot=slot))
    store.close("finished")
    with serving_view(home) as viewer:
        client = viewer.client()
        page, data = client.get(path_to("trend", path)), client.get(f"{path_to('trend', path)}.json")
    assert (page.status, data.status) == (200, 200)
    assert "<h1" in page.text
    assert data.json()["series"][0]["suite"] == path


def test_a_metric_that_does_not_exist_is_explained(client: Client) -> None:
    reply = client.get(f"{ADDRESS}?metric=speed")
    assert reply.status == 400
    assert "speed" in reply.text


def test_partial_runs_are_left_out_until_they_are_asked_for(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    keep_run(home, 1, passing(36))
    keep_run(home, 2, passing(36), state="stopped")
    with serving_view(home) as viewer:
        client = viewer.client()
        assert "1 partial run left out" in client.get(ADDRESS).text
        assert len(client.get(f"{ADDRESS}.json?all=1").json()["series"][0]["points"]) == 2
