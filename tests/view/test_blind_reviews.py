"""Whoever reviews blind sees judge, target and other reviewers nowhere before all answers are labelled."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.support.reviewed import NOON, REASON, TARGET, ScriptedReviewer, serving_review, serving_session, store_run
from tests.support.viewer import Client

from agentv.cli.main import agentv
from agentv.engine.labels.reviews import ReviewPlan, open_queue
from agentv.storage.run.reviews import queue_names
from agentv.storage.run.stored import StoredRun, open_run
from agentv.view.reviews import ReviewSession

BLIND = ReviewPlan(name="blind", criterion="helpful", n=10, reviewers=("ada", "bob"), overlap=1.0)
OPEN = ReviewPlan(name="open", criterion="overall", n=10, reviewers=("ada", "bob"), overlap=1.0, blind=False)
OTHER_PAGES = ("/", "/r/latest", "/r/latest/rows", "/r/latest/grid", "/r/latest/row/0", "/categories/latest")


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    return store_run(tmp_path / ".agentv")


def assert_refused(client: Client, *paths: str) -> None:
    for path in paths:
        for address in (path, "/.json" if path == "/" else f"{path}.json"):
            reply = client.get(address)
            assert reply.status == 403, address
            assert TARGET not in reply.text
            assert REASON not in reply.text


def copy_run(run: StoredRun, run_id: str) -> StoredRun:
    """Return a run with the same answers, as a cache or a merge makes it."""
    folder = run.folder.with_name(run_id)
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("reviews", "labels*"))
    record = folder / "run.json"
    record.write_text(record.read_text().replace(run.run_id, run_id))
    return open_run(folder)


def test_a_link_opens_no_queue_that_is_reviewed_elsewhere(run: StoredRun) -> None:
    open_queue(run, OPEN, now=NOON)
    with serving_review(run, BLIND) as (viewer, _):
        ada = ScriptedReviewer(viewer.client("ada"), "blind")
        queue = f"/q/open@{run.run_id}"
        assert_refused(ada.client, queue, f"{queue}/next", f"{queue}/conflicts", f"/q/blind@{run.run_id}/next")
        ada.review()
        assert_refused(ada.client, f"{queue}/next")


def test_an_unblinded_queue_waits_for_the_blind_ones_of_its_run(run: StoredRun) -> None:
    open_queue(run, OPEN, now=NOON)
    blind = ReviewSession(run, open_queue(run, BLIND, now=NOON))
    with serving_review(run, OPEN) as (viewer, _), serving_session(blind) as blind_viewer:
        ada, bob = viewer.client("ada"), viewer.client("bob")
        assert_refused(ada, "/q/open/next", "/q/open/conflicts", *OTHER_PAGES)
        assert "10 answers of queue 'blind'" in ada.get("/q/open/next").text
        ScriptedReviewer(blind_viewer.client("ada"), "blind").review()
        assert TARGET in ada.get("/q/open/next").text
        assert ada.get("/r/latest").status == 200
        assert_refused(bob, "/q/open/next")


def test_an_unblinded_queue_of_another_run_with_the_same_answers_waits(run: StoredRun) -> None:
    open_queue(run, BLIND, now=NOON)
    copy = copy_run(run, "20260202T120000-c")
    with serving_review(copy, OPEN) as (viewer, _):
        assert_refused(viewer.client("ada"), "/q/open/next")


def test_an_unblinded_queue_of_a_run_with_other_answers_does_not_wait(tmp_path: Path, run: StoredRun) -> None:
    open_queue(run, BLIND, now=NOON)
    other = store_run(tmp_path / ".agentv", run_id="20260202T120000-d", key="v1:another-")
    with serving_review(other, OPEN) as (viewer, _):
        ada = viewer.client("ada")
        assert ada.get("/q/open/next").status == 200
        assert_refused(ada, *OTHER_PAGES)


def test_pages_stay_closed_while_a_blind_queue_of_another_server_is_open(run: StoredRun) -> None:
    open_queue(run, BLIND, now=NOON)
    second = ReviewPlan(name="second", criterion="overall", n=10, reviewers=("ada", "bob"), overlap=1.0)
    with serving_review(run, second) as (viewer, session):
        ada = ScriptedReviewer(viewer.client("ada"), "second")
        ada.review()
        assert session.labels().waiting("ada") == []
        assert_refused(ada.client, *OTHER_PAGES, "/q/second/conflicts")


def test_a_broken_queue_of_another_run_keeps_no_page_closed(run: StoredRun) -> None:
    copy = copy_run(run, "20260202T120000-c")
    open_queue(copy, BLIND, now=NOON)
    (copy.folder / "reviews" / "blind.json").write_text("{")
    with serving_review(run, OPEN) as (viewer, _):
        assert viewer.client("ada").get("/q/open/next").status == 200


@pytest.fixture
def reviewed(run: StoredRun) -> Iterator[ScriptedReviewer]:
    with serving_review(run, BLIND) as (viewer, _):
        ada = ScriptedReviewer(viewer.client("ada"), "blind")
        ada.review()
        ScriptedReviewer(viewer.client("bob"), "blind").review()
        yield ada


def correct(reviewer: ScriptedReviewer) -> None:
    item = reviewer.client.get(f"{reviewer.path}.json?item=0").json()
    for _ in range(2):
        assert reviewer.send(item, ("verdict", "unsure")).status == 200


def test_a_correction_before_any_other_page_is_blind(run: StoredRun, reviewed: ScriptedReviewer) -> None:
    correct(reviewed)
    assert [(each.blind, each.shown) for each in list(run.all_labels())[20:]] == [(True, ())]


@pytest.mark.parametrize(
    ("path", "shown"), [("/r/latest", ("judge", "labels", "target")), ("/q/blind/conflicts", ("labels",))]
)
def test_a_correction_after_another_page_is_not_blind(
    run: StoredRun, reviewed: ScriptedReviewer, path: str, shown: tuple[str, ...]
) -> None:
    assert reviewed.client.get(path).status == 200
    correct(reviewed)
    assert [(each.blind, each.shown) for each in list(run.all_labels())[20:]] == [(False, shown)]


@pytest.mark.usefixtures("reviewed")
def test_a_correction_after_the_end_of_the_server_is_not_blind(run: StoredRun) -> None:
    with serving_review(run, BLIND) as (viewer, _):
        correct(ScriptedReviewer(viewer.client("ada"), "blind"))
    assert [(each.blind, each.shown) for each in list(run.all_labels())[20:]] == [
        (False, ("judge", "labels", "target"))
    ]


def test_an_answer_that_was_labelled_unblinded_before_is_not_blind(run: StoredRun) -> None:
    for plan, limit in ((OPEN, None), (BLIND, 3)):
        with serving_review(run, replace(plan, n=40, reviewers=("ada",), overlap=0.0)) as (viewer, _):
            ScriptedReviewer(viewer.client("ada"), plan.name or "").review(limit=limit)
    assert {each.blind for each in run.labels() if each.criterion == "helpful"} == {False}


def test_an_unblinded_queue_is_refused_for_a_reviewer_with_a_blind_one(
    run: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_queue(run, BLIND, now=NOON)
    monkeypatch.chdir(tmp_path)
    options = ("--no-blind", "--queue", "open", "--criterion", "overall", "--reviewer", "bob")
    done = CliRunner().invoke(agentv, ["review", "--no-open", *options])
    message = " ".join((done.output + str(done.exception)).split())
    assert "bob still has to label 10 answers of queue 'blind'" in message
    assert queue_names(run.folder) == ["blind"]
