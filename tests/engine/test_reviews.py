"""A review of a stored run: drawn, labelled, and turned into the rate that people would find."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.stored import RUN, at_noon, make_answer, make_case, make_result, make_run

from agentv.engine.labels.corrected_rates import load_corrected_rates
from agentv.engine.labels.reviews import ReviewPlan, open_queue
from agentv.reports.run.figures import corrected_notes, corrected_sentences
from agentv.reports.text.amounts import percent_text
from agentv.scoring.judges.reviewing import QueueLabels, Reviewed, make_label, queue_labels
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.reviews import load_queue, load_queues, save_queue
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError, StorageError
from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import HumanVerdict
from agentv.types.records.review import ReviewQueue

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CASES = 200


def is_good(number: int) -> bool:
    """Return True for 75 % of the answers, which people pass."""
    return number % 4 != 0


def judge_passes(number: int) -> bool:
    """Return True for 52.5 % of the answers: 70 % of the good ones and 10 % of the bad ones."""
    return number % 40 == 0 or (is_good(number) and number % 10 < 7)


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    return stored_run(tmp_path)


def stored_run(folder: Path, *, sessions: bool = False) -> StoredRun:
    store = RunFolder(runs_folder(folder / ".agentv"), RUN.run_id, clock=at_noon)
    store.begin(make_run())
    for number in range(CASES):
        slot = ResultKey("evals/a.yaml", f"c-{number}", "agent")
        store.append_case(make_case(eval_id=slot.eval_id, suite=slot.suite, criteria=()))
        answer = store.append_answer(make_answer(slot=slot))
        score = 0.9 if judge_passes(number) else 0.2
        result = EvaluatorResult(name="helpful", type="llm_judge", score=score, verdict=verdict_of(score))
        store.append(
            make_result(
                slot=slot,
                answer_ref=AnswerRef(answer.seq or 0),
                score=score,
                verdict=verdict_of(score),
                status="fail",
                evaluator_results=(result,),
                session_id=f"s-{number // 4}" if sessions else None,
            )
        )
    store.close("finished")
    return open_run(Path(store.folder))


@dataclass
class Reviewer:
    """A person who knows which answers are good."""

    run: StoredRun
    name: str = "reviewer"

    def review(self, queue: ReviewQueue, *, unsure: int = 0) -> int:
        """Label all items; of the first `unsure` ones the reviewer cannot tell. Return how many were labelled."""
        waiting = labels_of(self.run, queue).waiting(self.name)
        for done, number in enumerate(waiting):
            item = queue.items[number]
            verdict: HumanVerdict = "pass" if is_good(int(item.slot.eval_id[2:])) else "fail"
            reviewed = Reviewed(
                label_id=f"{queue.name}-{self.name}-{done}", verdict="unsure" if done < unsure else verdict
            )
            label = make_label(queue, item, reviewed, annotator=self.name, time=NOON + timedelta(seconds=done))
            append_labels(self.run.folder, [label], run_id=self.run.run_id)
        return len(waiting)


def draw(run: StoredRun, plan: ReviewPlan) -> ReviewQueue:
    return open_queue(run, plan, now=NOON)


def labels_of(run: StoredRun, queue: ReviewQueue) -> QueueLabels:
    return queue_labels(queue, run.all_labels(), {})


def test_a_reviewed_run_says_what_people_would_find(run: StoredRun) -> None:
    queue = draw(run, ReviewPlan(name="one", n=60, stratify="verdict", allocation={"fail": 30}))
    assert (queue.criterion, [(each.name, each.n, each.size) for each in queue.strata]) == (
        "helpful",
        [("fail", 30, 95), ("pass", 30, 105)],
    )
    assert Reviewer(run).review(queue) == 60
    (progress,) = labels_of(run, queue).progress()
    assert (progress.labelled, progress.skipped, progress.left) == (60, 0, 0)
    (rate,) = load_corrected_rates(run)
    assert (rate.raw, rate.labels, rate.source, rate.warnings) == (0.525, 60, "labels", ())
    assert rate.rate == pytest.approx(0.75, abs=0.1)
    assert rate.rate is not None
    assert rate.interval is not None
    assert rate.interval.low < 0.75 < rate.interval.high
    assert corrected_sentences([rate]) == [f"helpful: judge 52.5 %, people about {percent_text(rate.rate)} (60 labels)"]


def test_a_second_draw_and_skips_keep_the_rate_right(run: StoredRun) -> None:
    first = draw(run, ReviewPlan(name="one", n=40, stratify="verdict", allocation={"fail": 30}))
    Reviewer(run).review(first, unsure=4)
    second = draw(run, ReviewPlan(name="two", n=60, seed=5, stratify="verdict"))
    assert second.after == ("one",)
    assert not {item.slot for item in first.items} & {item.slot for item in second.items}
    Reviewer(run).review(second)
    (rate,) = load_corrected_rates(run)
    assert (rate.labels, rate.skipped) == (96, 4)
    assert rate.rate == pytest.approx(0.75, abs=0.06)
    assert rate.bounds is not None
    assert rate.bounds[0] < (rate.rate or 0) < rate.bounds[1]
    (note,) = corrected_notes([rate])
    assert note.startswith("judge helpful, target agent: 4 labelled answers have no verdict; ")
    assert load_queue(run.folder, "one") == first


def test_sessions_make_the_interval_wider(tmp_path: Path) -> None:
    widths = []
    for name, sessions in (("a", False), ("b", True)):
        run = stored_run(tmp_path / name, sessions=sessions)
        Reviewer(run).review(draw(run, ReviewPlan(name="one", n=CASES, stratify="none")))
        (rate,) = load_corrected_rates(run)
        assert rate.rate == 0.75
        assert rate.interval is not None
        widths.append(rate.interval.high - rate.interval.low)
    assert widths[0] != widths[1]


def test_picked_labels_correct_with_a_warning_and_drawn_ones_replace_them(run: StoredRun) -> None:
    queue = draw(run, ReviewPlan(name="one", n=40))
    picked = [
        replace(
            make_label(queue, item, Reviewed(label_id=f"p-{index}", verdict="fail"), annotator="x", time=NOON),
            draw=None,
        )
        for index, item in enumerate(queue.items[:25])
    ]
    append_labels(run.folder, picked, run_id=run.run_id)
    (rate,) = load_corrected_rates(run)
    assert (rate.is_picked, rate.labels) == (True, 25)
    assert "were picked, not drawn at random" in corrected_notes([rate])[0]
    others = [item for item in queue.items if item.slot not in {label.slot for label in picked}]
    drawn = [
        make_label(queue, item, Reviewed(label_id=f"d-{index}", verdict="pass"), annotator="y", time=NOON)
        for index, item in enumerate(others)
    ]
    append_labels(run.folder, drawn, run_id=run.run_id)
    (rate,) = load_corrected_rates(run)
    assert (rate.is_picked, rate.labels) == (False, 15)
    assert rate.warnings == ("25 labels of answers that were picked are not counted",)


def test_a_verdict_of_the_judge_without_any_label_is_a_warning(run: StoredRun) -> None:
    queue = open_queue(run, ReviewPlan(name="one", n=100), now=NOON)
    passes = [item for item in queue.items if judge_passes(int(item.slot.eval_id[2:]))]
    labels = [
        make_label(queue, item, Reviewed(label_id=f"p-{index}", verdict="pass"), annotator="x", time=NOON)
        for index, item in enumerate(passes)
    ]
    append_labels(run.folder, labels, run_id=run.run_id)
    (rate,) = load_corrected_rates(run)
    assert rate.rate == pytest.approx(0.525 + 0.475 / 2)
    assert rate.warnings == (
        "no answer with one of the judge's verdicts is labelled, 47.5 % of all; half of them count as passes",
    )


def test_a_stored_queue_is_returned_again_and_never_changed(run: StoredRun) -> None:
    plan = ReviewPlan(name="one", n=20, reviewers=("anna", "ben"), overlap=0.5)
    queue = draw(run, plan)
    assert open_queue(run, plan, now=NOON + timedelta(days=1)) == queue == load_queue(run.folder, "one")
    assert draw(run, ReviewPlan(name="one", reviewers=("ben",))) == queue
    with pytest.raises(
        ConfigError, match=r"was drawn with --sample 20, not 21; with --seed 0, not 3\. A queue is never"
    ):
        draw(run, replace(plan, n=21, seed=3))
    with pytest.raises(ConfigError, match="was drawn for anna, ben, not for carl"):
        draw(run, ReviewPlan(name="one", reviewers=("carl",)))
    with pytest.raises(ConfigError, match="has a queue 'one' already"):
        save_queue(run.folder, queue)
    with pytest.raises(ConfigError, match="no review queue 'onr'; did you mean 'one'"):
        load_queue(run.folder, "onr")
    with pytest.raises(ConfigError, match="cannot be the name of a queue"):
        load_queue(run.folder, "../run")
    assert [each.name for each in load_queues(run.folder)] == ["one"]
    assert (run.folder / "reviews" / "one.json").stat().st_mode & 0o777 == 0o600


def test_without_options_the_only_evaluator_is_reviewed_by_its_verdicts(run: StoredRun) -> None:
    queue = open_queue(run, ReviewPlan(), now=NOON, reviewer="me")
    assert (queue.name, queue.criterion, queue.stratify, queue.reviewers) == ("helpful", "helpful", "verdict", ("me",))
    assert (len(queue.items), queue.blind, queue.overlap) == (100, True, 0.0)


def test_a_criterion_that_the_run_does_not_have_is_refused(run: StoredRun) -> None:
    with pytest.raises(ConfigError, match="no criterion 'helpfull'; did you mean 'helpful'"):
        draw(run, ReviewPlan(criterion="helpfull"))


def test_each_reviewer_gets_their_own_items(run: StoredRun) -> None:
    queue = draw(run, ReviewPlan(name="one", n=20, reviewers=("anna", "ben"), overlap=0.5))
    labels = labels_of(run, queue)
    assert (len(labels.items_of("anna")), len(labels.items_of("ben"))) == (15, 15)
    assert Reviewer(run, "anna").review(queue) == 15
    labels = labels_of(run, queue)
    assert labels.waiting("anna") == []
    assert labels.labelled_before("anna", None) == labels.items_of("anna")[-1]
    assert labels.labelled_before("anna", labels.items_of("anna")[3]) == labels.items_of("anna")[2]
    assert labels.labelled_before("anna", labels.items_of("anna")[0]) is None
    assert [each.labelled for each in labels.progress()] == [15, 0]


def test_reviewers_disagree_until_a_resolution_counts_in_their_place(run: StoredRun) -> None:
    queue = draw(run, ReviewPlan(name="one", n=CASES, reviewers=("anna", "ben"), overlap=1.0))

    def send(annotator: str, verdict: HumanVerdict, *, is_resolution: bool = False) -> None:
        label_id = f"{annotator}-{is_resolution}"
        reviewed = Reviewed(label_id=label_id, verdict=verdict, is_resolution=is_resolution)
        label = make_label(queue, queue.items[7], reviewed, annotator=annotator, time=NOON)
        append_labels(run.folder, [label], run_id=run.run_id)

    send("anna", "pass")
    send("ben", "fail")
    assert labels_of(run, queue).conflicts() == [7]
    assert load_corrected_rates(run) == ()
    send("ben", "pass", is_resolution=True)
    labels = labels_of(run, queue)
    assert labels.conflicts() == []
    assert labels.current[7]["ben"].verdict == "fail"
    (rate,) = load_corrected_rates(run)
    assert (rate.labels, rate.skipped) == (1, 0)


def test_golden_items_show_drift_and_change_no_rate(run: StoredRun) -> None:
    plan = ReviewPlan(name="one", n=30, reviewers=("anna", "ben"), overlap=1.0)
    with pytest.raises(ConfigError, match="there is no golden answer"):
        draw(run, replace(plan, golden_every=5))
    queue = draw(run, plan)
    for name in plan.reviewers:
        Reviewer(run, name).review(queue)
    assert labels_of(run, queue).conflicts() == []
    before = load_corrected_rates(run)
    second = draw(run, ReviewPlan(name="two", n=20, reviewers=("carl",), golden_every=5))
    golden = [item for item in second.items if item.golden]
    assert len(golden) == 4
    labels = [
        make_label(second, item, Reviewed(label_id=f"g-{index}", verdict="pass"), annotator="carl", time=NOON)
        for index, item in enumerate(golden)
    ]
    append_labels(run.folder, labels, run_id=run.run_id)
    (found,) = labels_of(run, second).golden()
    agreed = sum(item.golden == "pass" for item in golden)
    assert (found.reviewer, found.first[0] + found.second[0], found.first[1], found.second[1]) == ("carl", agreed, 2, 2)
    assert load_corrected_rates(run) == before


def test_a_broken_queue_is_an_error_with_its_file(run: StoredRun) -> None:
    draw(run, ReviewPlan(name="one", n=5))
    (run.folder / "reviews" / "one.json").write_text("{")
    with pytest.raises(StorageError, match=r"reviews/one\.json"):
        load_queue(run.folder, "one")
    (run.folder / "reviews" / "one.json").write_text('{"schema": "agentv-review-9"}')
    with pytest.raises(StorageError, match="newer than this agentv supports"):
        load_queue(run.folder, "one")
