"""What people said of the shards of a run is in the merged run: queues, labels and failure categories."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.reviewed import NOON, is_good, store_run
from tests.support.stored import at_noon, make_run

from agentv.engine.labels.categories import load_categories, merge_categories, rename_category
from agentv.engine.labels.label_rates import load_label_rates
from agentv.engine.labels.reviews import ReviewPlan, open_queue
from agentv.scoring.judges.draws import label_weights
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.merge import find_owners, merge_into
from agentv.storage.run.reviews import load_queue, load_queues, queue_names
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.records.label import Label
from agentv.view.reviews import ReviewSession, SentLabel

MERGED = "20260301T120000-merged"


@pytest.fixture
def shards(tmp_path: Path) -> list[StoredRun]:
    home = tmp_path / ".agentv"
    return [
        store_run(home, cases=40, run_id="20260101T120000-a"),
        store_run(home, cases=80, first=40, run_id="20260101T120000-b"),
    ]


def review(run: StoredRun, name: str, *, queue: str = "helpful", limit: int | None = None) -> ReviewSession:
    """Let a reviewer label a queue by the truth."""
    session = ReviewSession(run, load_queue(run.folder, queue), clock=at_noon)
    done = 0
    while done != limit and (given := session.give(name)) is not None:
        good = is_good(int(given.item.slot.eval_id.partition("-")[2]))
        category = "" if good else f"of {run.run_id[-1]}"
        sent = SentLabel(given.number, given.label_id, verdict="pass" if good else "fail", category=category)
        session.save(name, sent)
        done += 1
    return session


def merge(runs: Sequence[StoredRun]) -> tuple[StoredRun, list[str]]:
    store = RunFolder(runs[0].folder.parent, MERGED, clock=at_noon)
    notes = merge_into(store, runs, find_owners(runs), now=NOON)
    store.begin(make_run(run_id=MERGED))
    store.close("finished")
    return open_run(Path(store.folder)), notes


def said(labels: Sequence[Label]) -> dict[tuple[str, str], str | None]:
    return {(label.slot.eval_id, label.annotator): label.verdict for label in labels}


def draw(run: StoredRun, **plan: object) -> None:
    open_queue(run, replace(ReviewPlan(n=20, reviewers=("ada", "bob"), overlap=0.2), **plan), now=NOON)


def test_queues_of_shards_are_one_queue_whose_review_goes_on(shards: list[StoredRun]) -> None:
    for shard in shards:
        draw(shard)
        review(shard, "ada")
        review(shard, "bob", limit=3)
    before = said([label for shard in shards for label in shard.labels()])
    merged, notes = merge(shards)
    assert (notes, queue_names(merged.folder)) == ([], ["helpful"])
    assert said(merged.labels()) == before
    queue = load_queue(merged.folder, "helpful")
    assert (queue.run_id, queue.n, len(queue.items), queue.reviewers) == (MERGED, 40, 40, ("ada", "bob"))
    session = ReviewSession(merged, queue)
    assert session.labels().waiting("ada") == []
    assert len(session.labels().waiting("bob")) == 24 - 6
    answers = {answer.seq: answer for answer in merged.all_answers()}
    assert all(answers[item.answer_ref.seq].slot == item.slot for item in queue.items)
    correction = session.give("ada", session.labels().items_of("ada")[0])
    assert correction is not None
    assert correction.earlier is not None
    session.save("ada", SentLabel(correction.number, correction.label_id, verdict="unsure"))
    review(merged, "bob")
    assert session.labels().waiting("bob") == []
    assert len({label.label_id for label in merged.all_labels()}) == 2 * 24 + 1


def test_labels_of_shards_keep_their_weights(shards: list[StoredRun]) -> None:
    weights: dict[str, float] = {}
    for shard in shards:
        draw(shard, allocation={"fail": 12})
        review(shard, "ada")
        review(shard, "bob")
        weights |= {slot.eval_id: weight for (slot, _), weight in label_weights(shard.labels()).items()}
    merged, _ = merge(shards)
    found = {slot.eval_id: weight for (slot, _), weight in label_weights(merged.labels()).items()}
    assert found == pytest.approx(weights)
    assert sum(found.values()) == pytest.approx(120)
    (rate,) = load_label_rates(merged)
    assert rate.rate == pytest.approx(0.75, abs=0.1)
    draws = {label.draw for label in merged.labels()}
    queue = load_queue(merged.folder, "helpful")
    assert draws == {queue.draw_of(item) for item in queue.items}


def test_queues_of_other_names_and_criteria_stay_apart(shards: list[StoredRun]) -> None:
    first, second = shards
    draw(first, name="q")
    draw(second, name="other")
    draw(second, name="more")
    draw(second, name="q", criterion="overall")
    for name in ("other", "more", "q"):
        review(second, "ada", queue=name)
    before = said(second.labels())
    merged, notes = merge(shards)
    queues = {queue.name: (queue.criterion, len(queue.items)) for queue in load_queues(merged.folder)}
    assert queues == {"q": ("helpful", 40), "more": ("helpful", 20), "q-2": ("overall", 20)}
    assert (notes, said(merged.labels())) == ([], before)
    for name in queues:
        labels = ReviewSession(merged, load_queue(merged.folder, name)).labels()
        assert sum(bool(each) for each in labels.current) == 12
    assert load_queue(merged.folder, "more").after == ("q",)


def test_what_another_run_has_is_left_out_with_a_note(shards: list[StoredRun]) -> None:
    first, second = shards
    home = first.folder.parent.parent
    third = store_run(home, cases=20, first=30, run_id="20260101T120000-c")
    for shard in (first, third):
        draw(shard, n=10, stratify="none")
        review(shard, "ada")
    _, notes = merge([first, second, third])
    count = sum("ada" in item.reviewers for item in load_queue(third.folder, "helpful").items)
    why = "because the results of these cases are taken from another run"
    assert notes == [
        f"queue 'helpful': 10 answers left out, {why}",
        f"run 20260101T120000-c: {count} labels left out, {why}",
    ]


def test_labels_with_equal_ids_are_both_stored_and_named(shards: list[StoredRun]) -> None:
    for shard in shards:
        draw(shard)
        label = review(shard, "ada", limit=1).stored.labels()[0]
        imported = replace(label, label_id="line-1", annotator="eve", draw=None)
        append_labels(shard.folder, [imported], run_id=shard.run_id)
    merged, (note,) = merge(shards)
    ids = sorted(label.label_id or "" for label in merged.labels() if label.annotator == "eve")
    assert ids == ["line-1", "line-1@20260101T120000-b"]
    first, second = (str(shard.folder / "labels.jsonl:2") for shard in shards)
    assert note == (
        f"label 'line-1' of {second} is stored as line-1@20260101T120000-b: another label has this id ({first})"
    )


def names_of(run: StoredRun) -> Mapping[str, str]:
    labels, categories = run.all_labels(), load_categories(run).by_label
    return {label.slot.eval_id: categories.get(label.seq or 0, "") for label in labels}


@pytest.mark.parametrize("new", ["of b", "else"])
def test_each_label_stays_in_its_category(shards: list[StoredRun], new: str) -> None:
    for shard in shards:
        draw(shard, reviewers=("ada",), overlap=0.0)
        review(shard, "ada")
    rename_category(shards[0], "of a", "x", by="ada", now=NOON)
    rename_category(shards[1], "of b", "of a", by="ada", now=NOON)
    merge_categories(shards[0], ["x"], new, by="ada", now=NOON)
    before = {**names_of(shards[0]), **names_of(shards[1])}
    assert set(before.values()) == {"", new, "of a"}
    merged, _ = merge(shards)
    assert names_of(merged) == before
    assert set(load_categories(merged).descriptions) == {new, "of a"}


def test_runs_without_reviews_have_no_review_files(shards: list[StoredRun]) -> None:
    merged, notes = merge(shards)
    assert notes == []
    assert not {"reviews", "labels.jsonl", "categories.jsonl"} & {each.name for each in merged.folder.iterdir()}
    assert runs_folder(merged.folder.parent.parent) == merged.folder.parent
