"""Draws for review: probabilities, strata, reviewers, golden items, and the weights of what was labelled."""

from collections import Counter
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.judges.draws import (
    DrawRow,
    GoldenRow,
    draw_queue,
    kish_n,
    label_weights,
    rows_to_draw,
)
from agentv.types.errors import ConfigError
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import Draw, Label
from agentv.types.records.review import DrawnQueue, QueueItem, ReviewQueue

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def rows(fails: int, passes: int) -> list[DrawRow]:
    verdicts = ["fail"] * fails + ["pass"] * passes
    return [
        DrawRow(ResultKey("s.yaml", f"c-{number}", f"agent-{number % 2}"), f"v1:{number}", number, verdict, ("a",))
        for number, verdict in enumerate(verdicts)
    ]


def queue_of(drawn: DrawnQueue, name: str, *, seed: int = 1) -> ReviewQueue:
    return ReviewQueue(
        name=name,
        run_id="r",
        created_at=NOON,
        criterion="tone",
        seed=seed,
        n=len(drawn.items),
        stratify="verdict",
        strata=drawn.strata,
        items=drawn.items,
    )


def labelled(queue: ReviewQueue, items: list[QueueItem]) -> list[Label]:
    return [
        Label(
            slot=item.slot,
            answer_key=item.answer_key,
            answer_ref=item.answer_ref,
            criterion="tone",
            score=True,
            annotator="anna",
            time=NOON,
            draw=queue.draw_of(item),
        )
        for item in items
    ]


@given(st.integers(2, 60), st.integers(2, 60), st.integers(2, 40), st.integers(0, 99), st.randoms())
def test_a_draw_depends_on_its_seed_and_the_answers_only(
    fails: int, passes: int, n: int, seed: int, random: Random
) -> None:
    given_rows = rows(fails, passes)
    drawn = draw_queue(given_rows, n=n, seed=seed, stratify="verdict")
    random.shuffle(given_rows)
    assert draw_queue(given_rows, n=n, seed=seed, stratify="verdict") == drawn
    assert len(drawn.items) == min(n, fails + passes) == sum(each.n for each in drawn.strata)
    assert len({(item.slot, item.answer_ref) for item in drawn.items}) == len(drawn.items)
    p = {each.name: each.n / each.size for each in drawn.strata}
    assert all(item.p == p[item.stratum] for item in drawn.items)
    assert all(
        abs(each.n - each.size * p_all) <= 1 for each in drawn.strata for p_all in [min(n / (fails + passes), 1)]
    )


def test_each_answer_is_drawn_with_the_probability_that_is_recorded() -> None:
    found = Counter[str]()
    for seed in range(2000):
        drawn = draw_queue(rows(5, 20), n=6, seed=seed, stratify="verdict", allocation={"fail": 3})
        found.update(item.slot.eval_id for item in drawn.items)
        assert {each.name: (each.n, each.size) for each in drawn.strata} == {"fail": (3, 5), "pass": (3, 20)}
    fails, passes = ([found[f"c-{number}"] / 2000 for number in numbers] for numbers in (range(5), range(5, 25)))
    assert fails == pytest.approx([0.6] * 5, abs=0.05)
    assert passes == pytest.approx([0.15] * 20, abs=0.04)


def test_reviewers_share_the_overlap_and_split_the_rest() -> None:
    drawn = draw_queue(rows(50, 50), n=50, seed=3, reviewers=("anna", "ben"), overlap=0.2)
    shared = [item for item in drawn.items if len(item.reviewers) > 1]
    alone = Counter(item.reviewers[0] for item in drawn.items if len(item.reviewers) == 1)
    assert (len(shared), alone) == (10, {"anna": 20, "ben": 20})


def test_golden_items_come_after_every_kth_item_of_a_reviewer() -> None:
    golden = [GoldenRow(row, passed=row.verdict == "pass") for row in rows(2, 2)]
    drawn = draw_queue(rows(50, 50), n=20, seed=3, reviewers=("anna", "ben"), golden=golden, golden_every=4)
    for name in ("anna", "ben"):
        own = [item for item in drawn.items if name in item.reviewers]
        assert [index for index, item in enumerate(own) if item.golden] == [4, 9]
        assert all(item.golden == ("pass" if int(item.slot.eval_id[2:]) > 1 else "fail") for item in own if item.golden)
    queue = queue_of(drawn, "q")
    assert [queue.draw_of(item) is None for item in drawn.items] == [bool(item.golden) for item in drawn.items]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n": 0}, "a queue has 1 answer or more, not 0"),
        ({"n": 4, "allocation": {"fial": 1}}, "no answer has the stratum 'fial'; did you mean 'fail'?"),
        ({"n": 4, "allocation": {"fail": 6}}, "6 answers of the stratum 'fail' cannot be drawn; it has 5"),
        ({"n": 4, "allocation": {"fail": 5}}, "the strata ask for 5 answers together, but the queue has 4"),
        ({"n": 4, "allocation": {"fail": 4}}, "4 answers do not reach all 2 strata"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(asked: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        draw_queue(rows(5, 20), seed=1, stratify="verdict", **asked)  # type: ignore[arg-type]
    assert message in str(raised.value)
    with pytest.raises(ConfigError, match="there is no answer to draw"):
        draw_queue([], n=1, seed=1)


def test_a_second_draw_takes_other_answers_and_keeps_the_weights_right() -> None:
    given_rows = rows(20, 80)
    first = queue_of(draw_queue(given_rows, n=20, seed=1, stratify="verdict", allocation={"fail": 10}), "one")
    rest = rows_to_draw(given_rows, [first], stratify="verdict")
    second = queue_of(draw_queue(rest, n=9, seed=1, stratify="verdict", allocation={"fail": 2}), "two")
    assert not {item.slot for item in first.items} & {item.slot for item in second.items}
    labels = labelled(first, list(first.items)) + labelled(second, list(second.items))
    weights = label_weights(labels)
    # 12 of 20 fails and 17 of 80 passes were drawn in all.
    found = {item.stratum: weights[item.slot, item.answer_ref.seq] for item in (*first.items, *second.items)}
    assert found == {"fail": pytest.approx(20 / 12), "pass": pytest.approx(80 / 17)}
    assert len(set(weights.values())) == 2
    assert {label.draw.p for label in labels if label.draw and label.draw.queue == "one"} == {0.5, 0.125}
    with pytest.raises(ConfigError, match="queue 'one' of this criterion was drawn by 'verdict'"):
        rows_to_draw(given_rows, [first], stratify="target")


def test_the_weights_of_an_unfinished_queue_are_those_of_a_finished_one_up_to_a_factor() -> None:
    queue = queue_of(draw_queue(rows(20, 80), n=20, seed=1, stratify="verdict", allocation={"fail": 10}), "one")
    by_stratum = {
        item.stratum: weight
        for item, weight in zip(queue.items, label_weights(labelled(queue, list(queue.items))).values(), strict=True)
    }
    assert by_stratum == {"fail": pytest.approx(2.0), "pass": pytest.approx(8.0)}
    half = [item for stratum in ("fail", "pass") for item in queue.items if item.stratum == stratum][::2]
    weights = label_weights(labelled(queue, half))
    ratio = {item.stratum: weights[item.slot, item.answer_ref.seq] for item in half}
    assert ratio["pass"] / ratio["fail"] == pytest.approx(4.0)


def test_shards_with_a_queue_of_the_same_name_keep_their_own_probabilities() -> None:
    shards = [Draw("q", 1, "all", 0.5, 2, 4), Draw("q", 1, "all", 0.1, 2, 20)]
    labels = [
        Label(
            slot=ResultKey("s", f"c-{number}", "t"),
            answer_key="k",
            answer_ref=AnswerRef(number),
            criterion="c",
            score=1,
            annotator="a",
            time=NOON,
            draw=shards[number // 2],
        )
        for number in range(4)
    ]
    assert list(label_weights(labels).values()) == pytest.approx([2, 2, 10, 10])


def test_labels_without_a_draw_have_no_weight_and_equal_weights_are_worth_their_number() -> None:
    slot = ResultKey("s", "c", "t")
    picked = Label(slot=slot, answer_key="k", answer_ref=AnswerRef(0), criterion="c", score=1, annotator="a", time=NOON)
    assert label_weights([picked]) == {}
    assert Draw("q", 1, "all", 0.5, 1, 2).size == 2
    assert (kish_n([2.0] * 7), kish_n([])) == (7, 0)
    assert kish_n([1.0, 3.0]) == pytest.approx(1.6)
