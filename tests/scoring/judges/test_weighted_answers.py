"""Answers that were drawn with different probabilities count with 1 / p: rates, kappa, alpha, and repeated cases."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv import cohen_kappa, fleiss_kappa, krippendorff_alpha, weighted_kappa
from agentv.scoring.judges.labels import LabelledAnswer, Opinion
from agentv.scoring.judges.people_rate import JudgedAnswer, JudgedTotals, PeopleVerdicts, people_rate
from agentv.scoring.judges.report_card import report_card, weighted_rate
from agentv.scoring.statistics.intervals import effective_n
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.records.answer import ResultKey

units = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.integers(1, 3)), min_size=1, max_size=12)


def answers(good: int, bad: int, *, judge: bool, weight: float) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(
            ResultKey("a.yaml", f"{judge}-{number}", "agent"),
            (),
            Opinion(float(judge), judge),
            (Opinion(float(number < good), number < good, None, "anna"),),
            weight,
        )
        for number in range(good + bad)
    ]


def test_half_of_the_labels_from_the_fails_do_not_distort_the_error_rates() -> None:
    """A judge with sensitivity 0.95 and specificity 0.6 passes 84 % of the answers; half of the labels are of fails."""
    drawn = [
        *answers(45, 5, judge=True, weight=0.84 / 50),
        *answers(12, 36, judge=False, weight=0.16 / 48),
    ]
    card = report_card(drawn)
    assert card.sensitivity.rate is not None
    assert card.specificity.rate is not None
    assert card.sensitivity.rate.value == pytest.approx(0.95, abs=0.01)
    assert card.specificity.rate.value == pytest.approx(0.6, abs=0.02)
    assert card.accuracy.rate is not None
    assert card.accuracy.rate.value == pytest.approx(0.8 * 0.95 + 0.2 * 0.6, abs=0.01)
    interval = card.specificity.interval
    assert interval is not None
    assert interval.low < 0.6 < interval.high
    assert (card.confusion.both_pass, card.confusion.both_fail) == (45, 36)


def test_equal_weights_change_nothing() -> None:
    plain = report_card([*answers(30, 10, judge=True, weight=1.0), *answers(8, 22, judge=False, weight=1.0)])
    heavy = report_card([*answers(30, 10, judge=True, weight=7.0), *answers(8, 22, judge=False, weight=7.0)])
    assert plain.sensitivity == heavy.sensitivity
    assert plain.specificity == heavy.specificity
    assert plain.accuracy == heavy.accuracy
    assert heavy.kappa.value == pytest.approx(plain.kappa.value)


def test_a_weighted_rate_of_equal_weights_has_its_number_of_cases() -> None:
    rate = weighted_rate([(number, 2.0, float(number < 8)) for number in range(10)])
    assert (rate.value, rate.rows, rate.effective_n) == pytest.approx((0.8, 10, 10))
    assert weighted_rate([(number, 1.0 + number % 2, 1.0) for number in range(10)]).effective_n == pytest.approx(9)


@given(units)
def test_an_integer_weight_is_as_many_items(given_units: list[tuple[str, str, int]]) -> None:
    first, second, weights = zip(*given_units, strict=True)
    repeated = [(one, two) for one, two, weight in given_units for _ in range(weight)]
    one, two = [pair[0] for pair in repeated], [pair[1] for pair in repeated]
    assert cohen_kappa(first, second, item_weights=weights) == pytest.approx(cohen_kappa(one, two))
    order = ["a", "b", "c"]
    weighted = weighted_kappa(first, second, order=order, item_weights=weights)
    assert weighted == pytest.approx(weighted_kappa(one, two, order=order))
    pairs = list(zip(first, second, strict=True))
    assert fleiss_kappa(pairs, item_weights=weights) == pytest.approx(fleiss_kappa(repeated))


@given(units)
def test_equal_weights_leave_alpha_as_it_is(given_units: list[tuple[str, str, int]]) -> None:
    pairs = [(one, two) for one, two, _ in given_units]
    for metric in ("nominal", "ordinal"):
        order = None if metric == "nominal" else ["a", "b", "c"]
        plain = krippendorff_alpha(pairs, metric=metric, order=order)
        assert krippendorff_alpha(pairs, metric=metric, order=order, item_weights=[3.0] * len(pairs)) == (
            None if plain is None else pytest.approx(plain)
        )


def test_a_heavy_disagreement_lowers_alpha() -> None:
    pairs = [("a", "a"), ("b", "b"), ("a", "b"), ("a", "a"), ("b", "b")]
    plain, heavy = krippendorff_alpha(pairs), krippendorff_alpha(pairs, item_weights=[1, 1, 5, 1, 1])
    assert plain is not None
    assert heavy is not None
    assert heavy < plain
    with pytest.raises(ValueError, match="`item_weights` has 1 weights for 5 items"):
        krippendorff_alpha(pairs, item_weights=[1])


def test_repeated_cases_with_unequal_draws_keep_their_coverage() -> None:
    rng = random.Random(4)
    covered = sum(_repeated_run_covers(rng) for _ in range(150))
    assert covered / 150 >= 0.93 - 2 * (0.93 * 0.07 / 150) ** 0.5


def _repeated_run_covers(rng: random.Random) -> bool:
    """Return True if the interval has the rate in it; each of 100 cases has three trials with a rate of its own."""
    judged: list[JudgedAnswer] = []
    truth: dict[tuple[ResultKey, int], bool | None] = {}
    for case in range(100):
        rate = rng.betavariate(1.4, 0.6)
        for trial in range(3):
            good = rng.random() < rate
            passed = rng.random() < (0.85 if good else 0.3)
            answer = JudgedAnswer(ResultKey("a", str(case), "t", trial), 3 * case + trial, case, passed)
            judged.append(answer)
            truth[answer.name] = good
    passes, fails = ([each for each in judged if each.passed is passed] for passed in (True, False))
    drawn = [*rng.sample(passes, 50), *rng.sample(fails, 40)]
    weights = {each.name: len(passes) / 50 if each.passed else len(fails) / 40 for each in drawn}
    clusters = [(3, float(sum(each.passed for each in judged[3 * case : 3 * case + 3]))) for case in range(100)]
    totals = JudgedTotals(300, len(passes), effective_n(ClusterMoments.of_clusters(clusters)))
    found = people_rate(drawn, PeopleVerdicts({each.name: truth[each.name] for each in drawn}, weights), totals)
    assert found is not None
    assert found.interval is not None
    return found.interval.low <= 0.7 <= found.interval.high
