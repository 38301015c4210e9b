"""Reviewers label the answers of a queue in the browser, blind, and only their own."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.hostile_texts import HOSTILE_TEXTS, MARK
from tests.support.reviewed import NOON, REASON, TARGET, ScriptedReviewer, serving_review, serving_session, store_run
from tests.support.viewer import Client, Viewer, post

from agentv.engine.labels.corrected_rates import load_corrected_rates
from agentv.engine.labels.label_rates import load_label_rates
from agentv.engine.labels.pair_reviews import open_pairs
from agentv.engine.labels.reviews import ReviewPlan
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.view.reviews import LEASE_S, ReviewSession

PLAN = ReviewPlan(name="q", n=20, reviewers=("ada", "bob"), overlap=0.5)


class Review:
    """A review that is served, with a clock of its own."""

    def __init__(self, run: StoredRun, viewer: Viewer, session: ReviewSession) -> None:
        self.run, self.viewer, self.session = run, viewer, session

    def reviewer(self, name: str) -> ScriptedReviewer:
        return ScriptedReviewer(self.viewer.client(name), self.session.queue.name)


NOW = [0.0]


@pytest.fixture
def review(tmp_path: Path) -> Iterator[Review]:
    NOW[0] = 0.0
    run = store_run(tmp_path / ".agentv")
    with serving_review(run, PLAN, timer=lambda: NOW[0]) as (viewer, session):
        yield Review(run, viewer, session)


def test_a_page_shows_question_answer_and_progress_only(review: Review) -> None:
    page = review.viewer.client("ada").get("/q/q/next").text
    assert "1 of 15" in page
    assert "Question" in page
    assert "Answer" in page
    for hidden in (TARGET, REASON, "bob", "Reference "):
        assert hidden not in page


def test_the_data_of_a_page_shows_no_more_than_the_page(review: Review) -> None:
    text = review.viewer.client("ada").get("/q/q/next.json").text
    for hidden in (TARGET, REASON, "bob", "Reference ", "stratum", "evals/a.yaml"):
        assert hidden not in text


def test_a_label_without_script_is_a_form_that_leads_to_the_next_answer(review: Review) -> None:
    client = review.viewer.client("ada")
    item = client.get("/q/q/next.json").json()
    fields = (("item", str(item["item"])), ("label_id", item["label_id"]), ("verdict", "fail"), ("note", "too  short "))
    NOW[0] = 7.25
    reply = post(client, "/q/q/next", *fields, ("category", " tone  of voice "), ("do", "send"))
    assert (reply.status, reply.headers["Location"]) == (303, "/q/q/next")
    assert "2 of 15" in client.get("/q/q/next").text
    (label,) = review.run.labels()
    assert (label.annotator, label.verdict, label.score, label.note) == ("ada", "fail", False, "too  short")
    assert (label.category, label.seconds, label.blind, label.shown) == ("tone of voice", 7.2, True, ())
    assert label.draw is not None
    assert (label.draw.queue, label.draw.p) == ("q", label.draw.n / label.draw.size)


def test_the_reply_to_a_label_has_the_next_item(review: Review) -> None:
    ada = review.reviewer("ada")
    reply = ada.send(ada.next(), ("verdict", "pass")).json()
    assert reply["saved"]["verdict"] == "pass"
    assert reply["next"] == ada.next()


def test_a_label_that_is_sent_again_is_stored_once(review: Review) -> None:
    ada = review.reviewer("ada")
    item = ada.next()
    first, again = (ada.send(item, ("verdict", "pass")) for _ in range(2))
    assert (first.status, again.status) == (200, 200)
    assert len(list(review.run.all_labels())) == 1


def test_a_run_that_is_deleted_during_its_review_is_named(review: Review) -> None:
    ada = review.reviewer("ada")
    item = ada.send(ada.next(), ("verdict", "pass")).json()["next"]
    shutil.rmtree(review.run.folder)
    replies = [ada.client.get("/q/q/next"), ada.send(item, ("verdict", "pass")), review.viewer.client().get("/q/q")]
    for reply in replies:
        assert (reply.status, f"run {review.run.run_id} was deleted" in reply.text) == (500, True)
    assert not review.run.folder.exists()


def test_another_label_with_the_id_of_a_stored_one_is_a_conflict(review: Review) -> None:
    ada = review.reviewer("ada")
    item = ada.next()
    ada.send(item, ("verdict", "pass"))
    reply = ada.send(item, ("verdict", "fail"))
    assert (reply.status, [label.verdict for label in review.run.all_labels()]) == (409, ["pass"])
    fields = (("item", str(item["item"])), ("label_id", item["label_id"]), ("verdict", "fail"))
    page = post(ada.client, ada.path, *fields).text
    assert "labelled in another tab" in page
    assert f'href="/q/q/next?item={item["item"]}"' in page


def test_undo_replaces_the_last_own_label_by_a_correction(review: Review) -> None:
    ada = review.reviewer("ada")
    first = ada.next()
    second = ada.send(first, ("verdict", "pass"), ("note", "hm")).json()["next"]
    page = ada.client.get(ada.path).text
    assert f'href="/q/q/next?item={first["item"]}" data-key="z"' in page
    again = ada.client.get(f"/q/q/next?item={first['item']}").text
    assert 'value="pass" checked' in again
    assert ">hm</textarea>" in again
    correction = ada.client.get(f"/q/q/next.json?item={first['item']}").json()
    assert ada.send(correction, ("verdict", "fail")).json()["next"] == {**second, "before": first["item"]}
    assert [label.verdict for label in review.run.all_labels()] == ["pass", "fail"]
    assert [label.verdict for label in review.run.labels()] == ["fail"]


def test_a_skip_is_stored_and_not_asked_again(review: Review) -> None:
    ada = review.reviewer("ada")
    item = ada.next()
    ada.send(item, ("do", "skip"))
    (label,) = review.run.labels()
    assert (label.is_skip, label.verdict, label.score) == (True, None, "")
    assert ada.next()["item"] != item["item"]


def test_the_expected_answer_is_shown_on_request_and_stored_as_shown(review: Review) -> None:
    ada = review.reviewer("ada")
    item = ada.next()
    assert f'href="/q/q/next?item={item["item"]}&amp;expected=1" data-key="e"' in ada.client.get(ada.path).text
    page = ada.client.get(f"/q/q/next?item={item['item']}&expected=1").text
    assert "Reference answer" in page
    for _ in range(2):
        assert ada.send(item, ("verdict", "pass")).status == 200
    (label,) = review.run.all_labels()
    assert (label.shown, label.blind) == (("expected",), True)
    correction = ada.client.get(f"/q/q/next.json?item={item['item']}").json()
    ada.send(correction, ("verdict", "fail"))
    assert [label.shown for label in review.run.all_labels()] == [("expected",), ("expected",)]


def test_seconds_of_a_reviewer_who_was_away_are_not_recorded(review: Review) -> None:
    ada = review.reviewer("ada")
    item = ada.next()
    NOW[0] = LEASE_S + 1
    ada.send(item, ("verdict", "pass"))
    assert [label.seconds for label in review.run.labels()] == [None]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((), "choose a verdict or a score"),
        ((("verdict", "maybe"),), "the verdict &#x27;maybe&#x27; is unknown"),
        ((("verdict", "pass"), ("note", "x" * 10_001)), "the note has 10,001 characters"),
        ((("verdict", "pass"), ("category", "x" * 101)), "the category has 101 characters"),
        ((("verdict", "pass"), ("do", "burn")), "use send or skip"),
        ((("score", "seven"),), "cannot be read"),
        ((("verdict", "pass"), ("label_id", "q/1/ada/99")), "is not the id of a label"),
    ],
)
def test_a_label_that_cannot_be_saved_is_explained(
    review: Review, fields: tuple[tuple[str, str], ...], message: str
) -> None:
    ada = review.reviewer("ada")
    item = ada.next()
    reply = post(ada.client, ada.path, ("item", str(item["item"])), ("label_id", item["label_id"]), *fields)
    assert reply.status == 400
    assert message.replace("&#x27;", "'") in reply.text
    assert list(review.run.all_labels()) == []


def test_an_item_of_another_reviewer_is_refused(review: Review) -> None:
    own = set(review.session.labels().items_of("ada"))
    other = next(number for number in review.session.labels().items_of("bob") if number not in own)
    ada = review.reviewer("ada")
    assert ada.client.get(f"/q/q/next?item={other}").status == 403
    assert ada.send({"item": other, "label_id": f"q/{other}/ada/0"}, ("verdict", "pass")).status == 403
    assert ada.send({"item": other, "label_id": f"q/{other}/bob/0"}, ("verdict", "pass")).status == 403


@pytest.mark.parametrize("item", ["99", "-1", "x", "1" * 20, "²"])
def test_an_unknown_item_is_refused(review: Review, item: str) -> None:
    ada = review.reviewer("ada")
    assert ada.client.get(f"/q/q/next?item={item.encode().hex() if item == '²' else item}").status == 404
    assert ada.send({"item": item, "label_id": f"q/{item}/ada/0"}, ("verdict", "pass")).status in (400, 404)
    assert ada.client.get("/q/none/next").status == 404


def test_only_a_reviewer_labels_answers(review: Review) -> None:
    item = review.reviewer("ada").next()
    fields = (("item", str(item["item"])), ("label_id", item["label_id"]), ("verdict", "pass"))
    reader, nobody = review.viewer.client(), Client(review.viewer.port)
    forged = Client(review.viewer.port, {f"agentv-{review.viewer.port}": "guess"})
    for client in (reader, nobody, forged):
        assert post(client, "/q/q/next", *fields).status == 403
    ada = review.viewer.client("ada")
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        assert ada.send("POST", "/q/q/next", body="item=0", **headers).status == 403
    assert list(review.run.all_labels()) == []


def test_a_label_is_that_of_the_cookie_whoever_it_names(review: Review) -> None:
    shared = next(n for n in review.session.labels().items_of("ada") if n in review.session.labels().items_of("bob"))
    bob = review.reviewer("bob")
    assert bob.send({"item": shared, "label_id": f"q/{shared}/ada/0"}, ("verdict", "pass")).status == 400
    item = bob.client.get(f"/q/q/next.json?item={shared}").json()
    bob.send(item, ("verdict", "pass"), ("annotator", "ada"), ("reviewer", "ada"))
    assert [label.annotator for label in review.run.labels()] == ["bob"]


def test_a_reviewer_at_work_sees_no_page_with_judge_or_others(review: Review) -> None:
    ada = review.reviewer("ada")
    for path in ("/", "/r/latest", "/r/latest/rows", "/r/latest/row/0", "/categories/latest", "/q/q", "/q/q/conflicts"):
        reply = ada.client.get(path)
        assert reply.status == 403, path
        assert 'href="/q/q/next"' in reply.text
        assert TARGET not in reply.text
        assert REASON not in reply.text
    ada.review()
    assert ada.client.get("/r/latest").status == 200
    assert ada.client.get("/q/q").status == 403


def test_who_runs_the_review_sees_progress_agreement_and_the_corrected_rate(review: Review) -> None:
    for name in ("ada", "bob"):
        review.reviewer(name).review()
    page = review.viewer.client().get("/q/q")
    assert "30 of 30 reviewed" in page.text
    assert "people about" in page.text
    data = review.viewer.client().get("/q/q.json").json()
    assert [(each["reviewer"], each["labelled"], each["left"]) for each in data["reviewers"]] == [
        ("ada", 15, 0),
        ("bob", 15, 0),
    ]
    assert data["alpha"] == 1.0
    (rate,) = load_corrected_rates(review.run)
    assert data["corrected"][0]["corrected_rate"] == rate.rate


def test_a_queue_of_any_run_can_be_read_by_its_name_and_run(review: Review) -> None:
    assert review.viewer.client().get(f"/q/q@{review.run.run_id}").status == 200
    assert review.viewer.client().get("/q/q@none").status == 404
    assert review.viewer.client().get(f"/q/none@{review.run.run_id}").status == 404


def test_disagreements_are_a_queue_that_a_named_reviewer_resolves(review: Review) -> None:
    ada, bob = review.reviewer("ada"), review.reviewer("bob")
    ada.review()
    item = bob.next()
    shared = [n for n in review.session.labels().items_of("ada") if n in review.session.labels().items_of("bob")]
    bob.review()
    first, second = shared[:2]
    for number in (first, second):
        item = bob.client.get(f"/q/q/next.json?item={number}").json()
        bob.send(item, ("verdict", "fail" if item["earlier"]["verdict"] == "pass" else "pass"), ("note", "look again"))
    assert review.session.labels().conflicts() == sorted([first, second])
    page = ada.client.get("/q/q/conflicts").text
    assert "look again" in page
    disputed = ada.client.get("/q/q/conflicts.json").json()
    other = bob.client.get("/q/q/conflicts.json").json()
    assert {disputed["item"], other["item"]} == {first, second}
    assert ada.send(disputed, ("verdict", "pass"), path="/q/q/conflicts").status == 200
    assert review.session.labels().conflicts() == [other["item"]]
    (resolution,) = [label for label in review.run.labels() if label.resolution]
    assert (resolution.annotator, resolution.blind, resolution.shown) == ("ada", False, ("labels",))
    assert ada.send(disputed, ("verdict", "pass"), path="/q/q/conflicts").status == 200
    assert len([label for label in review.run.all_labels() if label.resolution]) == 1
    third = {"item": shared[2], "label_id": f"q/{shared[2]}/ada/resolution/0"}
    assert ada.send(third, ("verdict", "pass"), path="/q/q/conflicts").status == 400


def test_a_disputed_answer_is_given_to_another_when_its_lease_ends(review: Review) -> None:
    ada, bob = review.reviewer("ada"), review.reviewer("bob")
    ada.review()
    shared = next(n for n in review.session.labels().items_of("ada") if n in review.session.labels().items_of("bob"))
    item = bob.client.get(f"/q/q/next.json?item={shared}").json()
    bob.send(item, ("verdict", "fail" if "is good" in item["answer"] else "pass"))
    bob.review()
    path = "/q/q/conflicts"
    held = ada.client.get(f"{path}.json").json()
    assert bob.client.get(f"{path}.json").json()["item"] is None
    NOW[0] = LEASE_S + 1
    taken = bob.client.get(f"{path}.json").json()
    assert (taken["item"], held["item"]) == (shared, shared)
    assert bob.send(taken, ("verdict", "pass"), path=path).status == 200
    late = ada.send(held, ("verdict", "fail"), path=path)
    assert (late.status, "resolved already" in late.text) == (400, True)
    assert [label.verdict for label in review.run.labels() if label.resolution] == ["pass"]


def test_a_review_that_is_not_blind_shows_and_stores_what_it_shows(tmp_path: Path) -> None:
    run = store_run(tmp_path / ".agentv")
    with serving_review(run, ReviewPlan(name="open", reviewers=("ada",), blind=False)) as (viewer, _):
        ada = ScriptedReviewer(viewer.client("ada"), "open")
        page = ada.client.get(ada.path).text
        assert TARGET in page
        assert "the judge says" in page
        ada.send(ada.next(), ("verdict", "pass"))
        assert ada.client.get("/r/latest").status == 200
    (label,) = run.labels()
    assert (label.blind, label.shown) == (False, ("judge", "target"))


def test_a_criterion_is_labelled_on_its_own_scale(tmp_path: Path) -> None:
    criteria = ({"name": "tone", "scale": "likert5", "description": "Is it friendly?"},)
    run = store_run(tmp_path / ".agentv", criteria=criteria)
    with serving_review(run, ReviewPlan(criterion="tone", n=5, reviewers=("ada",))) as (viewer, session):
        ada = ScriptedReviewer(viewer.client("ada"), "tone")
        page = ada.client.get(ada.path).text
        assert "tone: Is it friendly?" in page
        assert 'name="score" value="5" data-key="5"' in page
        assert 'data-key="p"' not in page
        assert ada.send(ada.next(), ("score", "7")).status == 400
        assert ada.send(ada.next(), ("score", "4")).status == 200
        assert ada.send(ada.next(), ("verdict", "unsure")).status == 200
        assert session.queue.criterion == "tone"
    assert [(label.score, label.verdict) for label in run.labels()] == [(4, None), ("", "unsure")]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_texts_notes_and_categories_are_escaped(tmp_path: Path, text: str) -> None:
    run = store_run(tmp_path / ".agentv", cases=8, note=text)
    with serving_review(run, ReviewPlan(name="q", reviewers=("ada", "bob"), overlap=1.0)) as (viewer, _):
        ada, bob = (ScriptedReviewer(viewer.client(name), "q") for name in ("ada", "bob"))
        pages = [ada.client.get(ada.path), ada.client.get(f"{ada.path}?expected=1")]
        item = ada.next()
        reply = ada.send(item, ("verdict", "pass"), ("note", text), ("category", text[:100]))
        assert reply.status == 200
        pages.append(ada.client.get(f"{ada.path}?item={item['item']}"))
        ada.review()
        bob.send(bob.next(), ("verdict", "fail"), ("note", text))
        bob.review()
        pages += [ada.client.get(path) for path in ("/q/q/conflicts", "/categories/latest", ada.path)]
        pages += [viewer.client().get(path) for path in ("/q/q", "/categories/latest", "/r/latest/row/0")]
        for page in pages:
            assert page.status == 200
            assert f"<script>{MARK}" not in page.text
            assert "<img src=x" not in page.text
            assert "<iframe" not in page.text
            assert "<svg onload" not in page.text


def test_twenty_seeds_of_two_reviewers_give_the_rates_of_their_labels(tmp_path: Path) -> None:
    for seed in range(20):
        run = store_run(tmp_path / str(seed) / ".agentv", cases=40)
        plan = ReviewPlan(n=24, seed=seed, reviewers=("ada", "bob"), overlap=0.25, allocation={"fail": 12})
        with serving_review(run, plan) as (viewer, session):
            done = {n: ScriptedReviewer(viewer.client(n), "helpful").review() for n in session.queue.reviewers}
            served = viewer.client().get("/q/helpful.json").json()
        assert len(set(done["ada"]) & set(done["bob"])) == 6
        assert all(len(each) == len(set(each)) == 15 for each in done.values())
        assert len(list(run.all_labels())) == 30
        (rate,) = load_label_rates(run)
        assert served["corrected"][0]["corrected_rate"] == rate.rate == pytest.approx(_rate_by_hand(run))


def _rate_by_hand(run: StoredRun) -> float:
    """Return the share of each verdict of the judge times the rate of people within it."""
    judged = {row.eval_id: row.verdict == "pass" for row in run.results()}
    people = {label.slot.eval_id: label.verdict == "pass" for label in run.labels()}
    total = 0.0
    for verdict in (True, False):
        cases = [case for case, passed in judged.items() if passed is verdict]
        labelled = [people[case] for case in cases if case in people]
        total += len(cases) / len(judged) * sum(labelled) / len(labelled)
    return total


def test_a_run_links_to_its_queues_and_says_how_to_start_one(review: Review) -> None:
    page = review.viewer.client().get("/r/latest").text
    assert f'href="/q/q%40{review.run.run_id}"' in page
    assert f"agentv review {review.run.run_id}" in page


def test_reviewers_sort_notes_into_categories_and_others_only_read_them(review: Review) -> None:
    ada, reader = review.reviewer("ada"), review.viewer.client()
    for note in ("too long", "wordy"):
        ada.send(ada.next(), ("verdict", "fail"), ("note", note))
    ada.review()
    path = f"/categories/{review.run.run_id}"
    page = ada.client.get(path).text
    assert "Notes without a category (2)" in page
    assert post(reader, path, ("do", "assign"), ("label", "0"), ("name", "length")).status == 403
    for label, name in (("0", "length"), ("1", "verbose")):
        assert post(ada.client, path, ("do", "assign"), ("label", label), ("name", name)).status == 303
    assert (
        post(ada.client, path, ("do", "merge"), ("old", "verbose"), ("old", "length"), ("name", "length")).status == 303
    )
    assert post(ada.client, path, ("do", "rename"), ("old", "length"), ("name", "too long")).status == 303
    found = reader.get(f"{path}.json").json()
    assert [(each["category"], each["answers"]) for each in found["categories"]] == [("too long", 2)]
    assert found["notes"] == []
    assert "too long" in reader.get(path).text
    assert "Assign" in page
    assert "Assign" not in reader.get(path).text


@pytest.mark.parametrize(
    "fields",
    [
        (("do", "assign"), ("label", "99"), ("name", "x")),
        (("do", "assign"), ("name", "x")),
        (("do", "merge"), ("name", "x")),
        (("do", "merge"), ("old", "none"), ("name", "x")),
        (("do", "rename"), ("old", "none"), ("name", "x")),
        (("do", "burn"), ("name", "x")),
        (("do", "assign"), ("label", "0"), ("name", "x" * 101)),
    ],
)
def test_a_change_of_categories_that_does_not_fit_is_explained(
    review: Review, fields: tuple[tuple[str, str], ...]
) -> None:
    ada = review.reviewer("ada")
    ada.review()
    reply = post(ada.client, "/categories/latest", *fields)
    assert (reply.status, "Traceback" in reply.text) == (400, False)


def test_pairs_are_shown_shuffled_and_stored_as_preferences(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    run = store_run(home, note=" of A")
    other = store_run(home, run_id="20260131T120000-b", answer_note=" of B", note=" of A")
    queue = open_pairs(run, other, ReviewPlan(n=30, seed=2, reviewers=("ada", "bob"), overlap=0.4), now=NOON)
    assert open_pairs(run, other, ReviewPlan(n=30), now=NOON) == queue
    assert 5 < sum(item.is_swapped for item in queue.items) < 25
    session = ReviewSession(run, queue, other=other)
    with serving_session(session) as viewer:
        done = {}
        for name in queue.reviewers:
            reviewer = ScriptedReviewer(viewer.client(name), queue.name)
            page = reviewer.client.get(reviewer.path).text
            assert "First answer" in page
            assert "Second is better" in page
            assert TARGET not in page
            done[name] = _prefer(reviewer, " of B")
        data = viewer.client().get(f"/q/{queue.name}.json").json()
        page = viewer.client().get(f"/q/{queue.name}").text
    assert (len(done["ada"]), len(done["bob"])) == (21, 21)
    assert (data["preference"]["better"], data["preference"]["worse"], data["preference"]["rate"]) == (0, 30, 0.0)
    assert "People prefer" in page
    label = run.labels()[0]
    assert (label.score, label.criterion) == (0.0, "better than 20260131T120000-b")
    assert label.compared_with is not None
    assert (label.compared_with.run_id, label.compared_with.slot) == (other.run_id, label.slot)


def _prefer(reviewer: ScriptedReviewer, mark: str) -> list[int]:
    done: list[int] = []
    item: dict[str, Any] | None = reviewer.next()
    while item is not None and item["item"] is not None:
        side = "first" if mark in item["answers"][0] else "second"
        assert reviewer.send(item, ("verdict", "pass")).status == 400
        assert reviewer.send(item, ("better", "both")).status == 400
        done.append(item["item"])
        item = reviewer.send(item, ("better", side)).json()["next"]
    return done


def test_pairs_of_runs_without_the_same_questions_are_refused(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    run, other = store_run(home), store_run(home, run_id="20260131T120000-b", note=" another question")
    with pytest.raises(ConfigError, match="have no pair of answers"):
        open_pairs(run, other, ReviewPlan(), now=NOON)
    with pytest.raises(ConfigError, match="without golden answers"):
        open_pairs(run, other, ReviewPlan(golden_every=3), now=NOON)
