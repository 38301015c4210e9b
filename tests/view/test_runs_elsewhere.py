"""Runs are shown whatever their folders are named, in the project and outside of it."""

import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.support.served import serving_in_thread
from tests.support.viewer import Client, serving_view
from tests.view.conftest import CASES, FOUR, answer
from tests.view.projects import Elements

from agentv import evaluate
from agentv.view.access import Access
from agentv.view.library import Library
from agentv.view.server import ViewServer


@pytest.mark.parametrize("name", ["a copy#1", "a..b", "latest"])
def test_links_of_a_copied_run_lead_to_it(tmp_path: Path, name: str) -> None:
    run_id = evaluate(CASES, task=answer, evaluators=[FOUR], folder=tmp_path / "other").run_id
    shutil.copytree(tmp_path / "other" / "runs" / run_id, tmp_path / name)
    evaluate(CASES[:1], task=answer, evaluators=[FOUR], folder=tmp_path / "home")
    access = Access.create(token="secret")
    with serving_in_thread(ViewServer(Library(tmp_path / "home", folders=[tmp_path / name]), access)) as server:
        client = Client(server.port)
        client.get("/?token=secret")
        assert_links_lead_to_pages(client, run_id)


def assert_links_lead_to_pages(client: Client, run: str) -> None:
    for page in (f"/r/{run}", f"/r/{run}/rows", f"/r/{run}/grid", f"/r/{run}/row/3"):
        addresses = {each["href"] for tag, each in Elements(client.get(page).text).found if tag == "a"}
        of_run = {each for each in addresses if each.startswith("/r/")}
        assert of_run
        assert {client.get(each).status for each in of_run} == {200}


@pytest.mark.parametrize("name", ["before the fix", "latest", "20300101T000000.000-abcdef"])
def test_links_of_a_renamed_run_lead_to_it(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    run_id = evaluate(CASES, task=answer, evaluators=[FOUR], folder=home).run_id
    (home / "runs" / run_id).rename(home / "runs" / name)
    with serving_view(home) as viewer:
        client = viewer.client()
        assert f'href="/r/{run_id}"' in client.get("/").text
        assert f"folder {name}" in client.get("/").text
        for reference in (run_id, quote(name), run_id[:22]):
            assert_links_lead_to_pages(client, reference)


def test_a_copy_of_a_run_in_the_project_is_not_taken_for_the_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_id = evaluate(CASES, task=answer, evaluators=[FOUR], folder=home).run_id
    copy = home / "runs" / "copy"
    shutil.copytree(home / "runs" / run_id, copy)
    with serving_view(home) as viewer:
        client = viewer.client()
        assert_links_lead_to_pages(client, run_id)
        for path in ("/r/copy", "/r/copy/rows"):
            reply = client.get(path)
            assert (reply.status, f"agentv view {copy}" in reply.text) == (409, True)
        assert client.get("/").text.count(f'href="/r/{run_id}"') == 1
    access = Access.create(token="secret")
    with serving_in_thread(ViewServer(Library(home, folders=[copy]), access)) as server:
        client = Client(server.port)
        client.get("/?token=secret")
        assert_links_lead_to_pages(client, run_id)
        assert Library(home, folders=[copy]).open(run_id).folder == copy
