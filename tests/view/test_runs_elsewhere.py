"""Runs outside of the project are shown, whatever their folders are named."""

import shutil
from pathlib import Path

import pytest
from tests.support.served import serving_in_thread
from tests.support.viewer import Client
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
        for page in (f"/r/{run_id}", f"/r/{run_id}/rows", f"/r/{run_id}/grid", f"/r/{run_id}/row/3"):
            addresses = {each["href"] for tag, each in Elements(client.get(page).text).found if tag == "a"}
            of_run = {each for each in addresses if each.startswith("/r/")}
            assert of_run
            assert {client.get(each).status for each in of_run} == {200}
