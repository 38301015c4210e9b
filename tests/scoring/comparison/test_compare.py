"""Two runs, paired case by case."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.comparison.compare import (
    Comparison,
    compare_sides,
    correct_comparisons,
    finding_text,
    summarize_baseline,
)
from agentv.scoring.comparison.explanations import Explanation
from agentv.scoring.comparison.sides import Side, scored_row
from agentv.scoring.statistics.mcnemar import mcnemar_test
from agentv.types.errors import ConfigError
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult

BROKEN = Failure("server_error", "HTTP 503")


def side_of(*rows: CaseResult) -> Side:
    side = Side("run")
    for row in rows:
        side.add(scored_row(row))
    return side


def scores(*values: float, **given: Any) -> list[CaseResult]:
    return [make_row(f"c{number}", score=value, **given) for number, value in enumerate(values)]


def compared(before: Iterable[CaseResult], after: Iterable[CaseResult], threshold: float = 0.1) -> Comparison:
    return compare_sides(side_of(*before), side_of(*after), rng=random.Random(0), threshold=threshold)


def test_the_mean_difference_is_over_the_cases_that_both_have() -> None:
    found = compared(scores(1.0, 0.5, 0.2), scores(0.5, 0.5))
    assert found.score is not None
    assert (found.score.cases, found.score.difference) == (2, -0.25)
    assert [each.eval_id for each in found.alignment.only_before] == ["c2"]


def test_wins_and_losses_are_moves_of_at_least_the_threshold() -> None:
    found = compared(scores(0.5, 0.5, 0.5, 0.7), scores(0.6, 0.4, 0.55, 0.8))
    assert [case.outcome for case in found.cases] == ["win", "loss", "tie", "win"]
    assert [case.outcome for case in compared(scores(0.5), scores(0.5), threshold=0.0).cases] == ["tie"]


def test_a_row_without_a_result_is_no_zero() -> None:
    broken = make_row("c1", score=None, error=BROKEN)
    found = compared(scores(1.0, 1.0), [*scores(1.0), broken])
    assert found.score is not None
    assert (found.score.cases, found.score.difference) == (1, 0.0)
    assert [pair.after.eval_id for pair in found.pairs_with_errors] == ["c1"]


def test_repeats_of_a_case_count_once() -> None:
    before = [row for trial in range(50) for row in scores(0.0, trial=trial)]
    after = [row for trial in range(50) for row in scores(1.0, trial=trial)]
    found = compared(before, after)
    assert found.score is not None
    assert found.score.cases == 1
    assert found.score.p == pytest.approx(mcnemar_test(1, 0))


def test_a_case_under_two_targets_counts_once() -> None:
    before = [*scores(0.0, 0.0, target="a"), *scores(0.5, 0.5, target="b")]
    after = [*scores(1.0, 1.0, target="a"), *scores(0.5, 0.5, target="b")]
    found = compared(before, after)
    assert found.score is not None
    assert (len(found.cases), found.score.cases, found.score.difference) == (4, 2, 0.5)


def test_single_targets_and_single_suites_are_paired_across_names() -> None:
    renamed = [replace(row, slot=replace(row.slot, suite="evals/new.yaml")) for row in scores(1.0, target="v2")]
    assert len(compared(scores(1.0, target="v1"), renamed).cases) == 1
    two = [*scores(1.0, target="v1"), *scores(1.0, target="v2")]
    assert [case.pair.before.target for case in compared(two, scores(1.0, target="v2")).cases] == ["v2"]


@pytest.mark.parametrize(("before", "after", "finding"), [(0.2, 0.9, "better"), (0.9, 0.2, "worse")])
def test_six_scores_changed_in_one_direction_are_evidence_five_are_not(
    before: float, after: float, finding: str
) -> None:
    assert compared(scores(*[before] * 6), scores(*[after] * 6)).finding == finding
    assert compared(scores(*[before] * 5), scores(*[after] * 5)).finding == "no significant difference"


def test_four_passes_that_became_fails_are_evidence_three_are_not() -> None:
    same = [1.0] * 46
    assert compared(scores(*[1.0] * 4, *same), scores(*[0.0] * 4, *same)).finding == "worse"
    assert compared(scores(*[1.0] * 3, *same), scores(*[0.0] * 3, *same)).finding == "no significant difference"


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ([0.0] * 16 + [1.0] * 34, "16 cases fell, none rose: worse"),
        ([0.0] + [1.0] * 49, "1 case fell, none rose: no significant difference (n needed: 275)"),
        ([1.0] * 50, "no case changed: no significant difference (n needed: unknown, equal means)"),
    ],
)
def test_the_finding_first_counts_what_happened(after: list[float], text: str) -> None:
    assert finding_text(compared(scores(*[1.0] * 50), scores(*after))) == text


def test_an_interval_excludes_0_exactly_if_its_corrected_p_is_at_most_5_percent() -> None:
    """Of three comparisons, Holm's method rejects the first two."""
    same = [1.0] * 40
    lost = [
        compared(scores(*[1.0] * 48), scores(*same, *[0.0] * number, *[1.0] * (8 - number))) for number in (8, 6, 2)
    ]
    measured = [each.score for each in correct_comparisons(lost)]
    found = [(each.p <= 0.05, each.interval.high < 0) for each in measured if each and each.p and each.interval]
    assert found == [(True, True), (True, True), (False, False)]
    assert {each.interval.level for each in measured if each and each.interval} == {0.95}
    none = [compared(scores(*[1.0] * 48), scores(*same, *[0.0] * 4, *[1.0] * 4)) for _ in range(3)]
    first = correct_comparisons(none)[0].score
    assert first is not None
    assert first.interval is not None
    assert first.interval.level == pytest.approx(1 - 0.05 / 3)
    assert first.interval.high > 0


def test_a_case_that_regressed_with_two_targets_is_one_regression() -> None:
    before = [*scores(1.0, 1.0, target="a"), *scores(1.0, 1.0, target="b")]
    found = compared(before, [*scores(0.0, 1.0, target="a"), *scores(0.0, 1.0, target="b")])
    assert (found.regressions(), len(found.changed("regressed")), summarize_baseline(found).regressed) == (1, 2, 1)


def test_a_case_that_no_longer_passes_regressed_by_any_difference() -> None:
    required = replace(make_row("c0", score=0.95), verdict="fail")
    found = compared(scores(1.0), [required])
    assert [case.change for case in found.cases] == ["regressed"]
    assert [case.outcome for case in found.cases] == ["tie"]


def test_a_case_whose_content_changed_is_paired_and_flagged() -> None:
    before, after = side_of(*scores(1.0, 1.0)), side_of(*scores(1.0, 1.0))
    for side, key in ((before, "v1:a"), (after, "v1:b")):
        side.add_case("evals/s.yaml", "c0", key)
        side.add_case("evals/s.yaml", "c1", "v1:same")
    found = compare_sides(before, after, rng=random.Random(0))
    assert [case.is_content_changed for case in found.cases] == [True, False]


def test_a_comparison_without_outputs_shows_its_finding() -> None:
    before, after = Side("v1"), Side("<b>v2")
    for number in range(30):
        before.add(scored_row(make_row(f"c{number}", score=0.5)))
        after.add(scored_row(make_row(f"c{number}", score=1.0)))
    found = compare_sides(before, after, rng=random.Random(0))
    assert str(found) == "<b>v2 compared with v1 over 30 cases: 30 cases rose, none fell: better"
    assert found._repr_html_().startswith("<p>&lt;b&gt;v2 compared with v1 over 30 cases")
    assert found.explain(found.rose()[:2]) == [Explanation(), Explanation()]
    with pytest.raises(ConfigError, match="data frame"):
        found.to_dataframe()
