from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.results.criteria import denormalize, normalize
from agentv.types.scales import EvaluationCriteria

LABELS = EvaluationCriteria("x", scale="mood", labels=("bad", "fair", "good"))
STARS = EvaluationCriteria("x", scale="stars", labels=("1", "2", "3"))


def on(scale: str, **fields: Any) -> EvaluationCriteria:
    return EvaluationCriteria("x", scale=scale, **fields)


@pytest.mark.parametrize(
    ("score", "criterion", "value"),
    [
        (1, on("binary"), 1.0),
        ("YES", on("binary"), 1.0),
        ("no", on("pass/fail"), 0.0),
        (True, on("likert5"), 1.0),
        ("pass", on("likert5"), 1.0),
        (1, on("likert5"), 0.0),
        (5, on("likert5"), 1.0),
        ("4", on("likert5"), 0.75),
        ("4/5", on("likert5"), 0.75),
        (85, on("percent"), 0.85),
        ("85%", on("percent"), 0.85),
        (0.3, on("numeric"), 0.3),
        (85, on("numeric"), 0.85),
        ("4/5", on("numeric"), 0.8),
        (7, on("numeric", min=2, max=12), 0.5),
        ("Fair", LABELS, 0.5),
        ("good", LABELS, 1.0),
        (1, STARS, 0.0),
        (2, STARS, 0.5),
        (3.0, STARS, 1.0),
        (True, STARS, 1.0),
        (1, LABELS, 1.0),
        (0, LABELS, 0.0),
    ],
)
def test_scores_are_placed_on_0_to_1(score: Any, criterion: Any, value: Any) -> None:
    assert normalize(score, criterion) == pytest.approx(value)


@pytest.mark.parametrize(
    ("score", "criterion", "message"),
    [
        (0.5, on("binary"), "0.5 is not 0 or 1"),
        (0, on("likert5"), "0 is outside 1 to 5"),
        (6, on("likert5"), "6 is outside 1 to 5"),
        ("4/6", on("likert5"), "cannot be read on the scale likert5"),
        ("1/0", on("numeric"), "a denominator of 0"),
        (101, on("numeric"), "101 is outside 0 to 100"),
        (-0.1, on("numeric"), "-0.1 is outside 0 to 100"),
        (float("nan"), on("numeric"), "nan is outside"),
        (13, on("numeric", min=2, max=12), "13 is outside 2 to 12"),
        ("maybe", on("binary"), "'maybe' cannot be read"),
        ("great", LABELS, "'great' is not one of the labels bad, fair, good"),
        (2, LABELS, "'2' is not one of the labels bad, fair, good"),
        (4, STARS, "'4' is not one of the labels 1, 2, 3"),
    ],
)
def test_what_cannot_be_placed_is_refused_with_what_is_allowed(score: Any, criterion: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        normalize(score, criterion)


@pytest.mark.parametrize("score", ["lavender", "yes", "fail", "0.9", True, False, 1, 0.5])
def test_a_score_on_a_text_scale_is_kept_and_not_averaged(score: Any) -> None:
    assert normalize(score, on("colour")) is None


def test_a_custom_numeric_scale_is_averaged_only_with_known_bounds() -> None:
    assert normalize(4, on("stars")) is None
    assert normalize("4", on("stars")) is None
    assert normalize(4, on("stars", min=0, max=8)) == 0.5


@given(st.floats(0, 1), st.sampled_from([on("likert5"), on("percent"), on("numeric", min=3, max=9)]))
def test_reporting_on_a_scale_is_the_inverse_of_reading_it(value: Any, criterion: Any) -> None:
    assert normalize(denormalize(value, criterion), criterion) == pytest.approx(value, abs=1e-9)


BOUNDS = (
    st.tuples(st.floats(-1e308, 0.999), st.none())
    | st.tuples(st.none(), st.floats(1e-5, 1e308))
    | st.builds(
        lambda low, width: (low, low + width * max(1.0, abs(low))), st.floats(-1e307, 1e307), st.floats(1e-5, 9.0)
    )
    | st.just((-1e308, 1e308))
)
"""Wide enough that a score between them can be told from its neighbours."""


@given(st.floats(0, 1), BOUNDS)
def test_a_numeric_scale_may_be_bounded_at_either_end(value: Any, bounds: Any) -> None:
    low, high = bounds
    least, most = (0.0 if low is None else low), (1.0 if high is None else high)
    criterion = on("numeric", min=low, max=high)
    shown = denormalize(value, criterion)
    assert least <= float(shown) <= most
    assert normalize(shown, criterion) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("bounds", [{"min": 2}, {"min": 3, "max": 3}, {"max": float("inf")}, {"min": float("nan")}])
def test_bounds_that_are_no_range_are_refused(bounds: Any) -> None:
    for place in (normalize, denormalize):
        with pytest.raises(ValueError, match="are not a range"):
            place(0.5, on("numeric", **bounds))


@pytest.mark.parametrize(("value", "shown"), [(1.0, True), (0.0, False), (0.4, 0.4)])
def test_a_binary_scale_shows_whole_values_as_booleans(value: Any, shown: Any) -> None:
    assert denormalize(value, on("binary")) == shown
