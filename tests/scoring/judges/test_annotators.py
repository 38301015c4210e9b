"""The agreement of annotators: Fleiss' kappa against statsmodels, intervals against the bootstrap."""

import random
import statistics
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as fleiss_oracle

from agentv.scoring.judges.agreement import Metric, cohen_kappa, fleiss_kappa, krippendorff_alpha
from agentv.scoring.judges.labels import label_value
from agentv.scoring.judges.report_card import (
    CriterionLabels,
    LabelledUnit,
    annotator_agreement,
    criterion_labels,
)
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import HumanScore, Label
from agentv.types.scales import EvaluationCriteria

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(st.integers(1, 4), min_size=n, max_size=n), min_size=2)))
def test_fleiss_kappa_equals_that_of_statsmodels(units: list[list[int]]) -> None:
    kappa = fleiss_kappa(units)
    if len({label for unit in units for label in unit}) == 1:
        assert kappa is None
        return
    table, _ = aggregate_raters(units)
    assert kappa == pytest.approx(float(fleiss_oracle(table)), abs=1e-12)


def test_fleiss_kappa_needs_as_many_labels_for_each_item() -> None:
    assert fleiss_kappa([]) is None
    assert fleiss_kappa([["yes"], ["no"]]) is None
    with pytest.raises(ValueError, match="same number of labels; they have 2, 3"):
        fleiss_kappa([["a", "b"], ["a", "b", "c"]])


@pytest.mark.parametrize(
    ("score", "value"),
    [("4/5", 0.8), ("85 %", 0.85), ("85%", 0.85), ("yes", 1.0), ("No", 0.0), (True, 1.0), (0.25, 0.25), ("0.5", 0.5)],
)
def test_a_label_without_a_scale_is_read_as_written(score: HumanScore, value: float) -> None:
    assert label_value(score, None) == pytest.approx(value)


@pytest.mark.parametrize("score", ["maybe", "5/4", "120 %", 4, "1/0", ""])
def test_any_other_label_is_refused_with_what_is_readable(score: HumanScore) -> None:
    with pytest.raises(ValueError, match="a number from 0 to 1, 4/5, 85 %, yes, no"):
        label_value(score, None)


def label(case: str, annotator: str, score: HumanScore) -> Label:
    slot = ResultKey("evals/a.yaml", case, "agent")
    return Label(
        slot=slot,
        answer_key="",
        answer_ref=AnswerRef(0),
        criterion="tone",
        score=score,
        annotator=annotator,
        time=NOON,
    )


def test_scores_are_read_on_the_scale_of_their_criterion() -> None:
    labels = [label("a", "anna", "4/5"), label("a", "ben", 4), label("b", "anna", 2), label("b", "ben", "3/5")]
    tone = EvaluationCriteria("tone", scale="likert5")
    criteria = {("evals/a.yaml", case): [tone] for case in "ab"}
    (found,), unreadable = criterion_labels(labels, {}, criteria)
    assert unreadable == []
    assert found.metric == "ordinal"
    assert [unit.labels for unit in found.units] == [{"anna": 0.75, "ben": 0.75}, {"anna": 0.25, "ben": 0.5}]


def test_categories_need_the_nominal_metric() -> None:
    labels = [label("a", "anna", "rude"), label("a", "ben", "Rude "), label("b", "anna", "wrong")]
    _, unreadable = criterion_labels(labels, {}, {})
    assert [each.label.slot.eval_id for each in unreadable] == ["a", "a", "b"]
    (found,), unreadable = criterion_labels(labels, {}, {}, metric="nominal")
    assert unreadable == []
    assert found.units[0].labels == {"anna": "rude", "ben": "rude"}


@pytest.mark.parametrize("metric", ["ordinal", "interval"])
def test_a_custom_scale_needs_the_nominal_metric(metric: Metric) -> None:
    labels = [label("a", "anna", "fact"), label("a", "ben", "joke")]
    criteria = {("evals/a.yaml", "a"): [EvaluationCriteria("tone", scale="custom")]}
    _, unreadable = criterion_labels(labels, {}, criteria, metric=metric)
    assert [each.message for each in unreadable] == ["'fact' is on a custom scale, which has no order"]
    (found,), unreadable = criterion_labels(labels, {}, criteria)
    assert (found.metric, unreadable) == ("nominal", [])


def test_pairs_of_annotators_read_only_the_answers_that_both_judged() -> None:
    looked_up: list[object] = []

    class Judgements(dict[str, float]):
        def get(self, key: str, default: float | None = None) -> float | None:  # type: ignore[override]
            looked_up.append(key)
            return super().get(key, default)

        def __getitem__(self, key: str) -> float:
            looked_up.append(key)
            return super().__getitem__(key)

    people = [f"annotator {number}" for number in range(30)]
    units = [
        LabelledUnit(ResultKey("s", f"c{number}", "t"), (), Judgements({people[number]: 1.0, people[number - 1]: 0.0}))
        for number in range(30)
    ]
    found = annotator_agreement(CriterionLabels("tone", "nominal", tuple(units)))
    assert [(each.answers, each.kappa) for each in found.pairs] == [(1, 0.0)] * 30
    assert len(looked_up) <= 2 * 30 * 2


def units_of(rows: list[tuple[float, ...]], tags: tuple[str, ...] = ()) -> tuple[LabelledUnit, ...]:
    names = ("anna", "ben", "cleo")
    return tuple(
        LabelledUnit(ResultKey("s", f"c{number}", "t"), tags, dict(zip(names, row, strict=False)))
        for number, row in enumerate(rows)
    )


def drawn(count: int, rng: random.Random) -> list[tuple[float, ...]]:
    """Return judgements of three annotators who see the true one in four of five cases."""
    rows = []
    for _ in range(count):
        truth = rng.randint(0, 1)
        rows.append(tuple(float(truth if rng.random() < 0.8 else 1 - truth) for _ in range(3)))
    return rows


def test_the_agreement_of_all_answers_and_of_a_tag() -> None:
    rows = [(1.0, 1.0, 0.0), (0.0, 0.0), (1.0, 0.0), (1.0,)]
    given_labels = CriterionLabels("tone", "nominal", (*units_of(rows[:2]), *units_of(rows[2:], ("hard",))))
    found = annotator_agreement(given_labels)
    assert found.annotators == ("anna", "ben", "cleo")
    assert (found.answers, found.complete) == (3, 1)
    assert found.alpha.value == krippendorff_alpha(rows)
    assert found.alpha.interval is None
    assert found.alike == pytest.approx(2 / 5)
    assert [(pair.first, pair.second, pair.answers) for pair in found.pairs] == [
        ("anna", "ben", 3),
        ("anna", "cleo", 1),
        ("ben", "cleo", 1),
    ]
    assert found.pairs[0].kappa == cohen_kappa([1, 0, 1], [1, 0, 0])
    hard = annotator_agreement(given_labels, "hard")
    assert (hard.tag, hard.answers, hard.annotators) == ("hard", 1, ("anna", "ben"))


def test_the_interval_of_alpha_is_about_that_of_the_bootstrap() -> None:
    rng = random.Random(7)
    rows = drawn(150, rng)
    interval = annotator_agreement(CriterionLabels("tone", "nominal", units_of(rows))).alpha.interval
    assert interval is not None
    assert interval.method == "jackknife-t"
    alphas = [krippendorff_alpha(rng.choices(rows, k=len(rows))) or 0.0 for _ in range(400)]
    low, *_, high = statistics.quantiles(alphas, n=40)
    assert interval.low == pytest.approx(low, abs=0.03)
    assert interval.high == pytest.approx(high, abs=0.03)


@pytest.mark.slow
def test_the_interval_of_alpha_covers_the_true_value() -> None:
    # Two annotators agree on 0.8² + 0.2² = 0.68 of the answers, and by chance on half: alpha is 0.36.
    rng = random.Random(11)
    covered = 0
    for _ in range(300):
        interval = annotator_agreement(CriterionLabels("t", "nominal", units_of(drawn(60, rng)))).alpha.interval
        assert interval is not None
        covered += interval.low <= 0.36 <= interval.high
    assert 0.92 <= covered / 300 <= 0.98
