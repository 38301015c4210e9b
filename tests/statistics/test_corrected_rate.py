"""Rates corrected for a judge's errors: the formula, and the coverage of the interval."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.statistics.corrected_coverage import JUDGES, LABELS, Judged, coverages
from tests.support.nightly import sample

from agentv.scoring.statistics.intervals import corrected_interval, corrected_rate
from agentv.types.summaries import MeasuredRate

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "judges.md").read_text("utf-8")
shares = st.floats(0, 1)


@given(shares, st.floats(0.51, 1), st.floats(0.51, 1))
def test_the_rate_that_a_judge_would_find_leads_back_to_the_truth(truth: float, right: float, rejected: float) -> None:
    raw = truth * right + (1 - truth) * (1 - rejected)
    assert corrected_rate(raw, right, rejected) == pytest.approx(truth, abs=1e-9)


@given(shares, shares, shares)
def test_a_corrected_rate_is_a_share_or_none_for_a_useless_judge(raw: float, right: float, rejected: float) -> None:
    rate = corrected_rate(raw, right, rejected)
    assert (rate is None) == (right + rejected - 1 <= 0)
    assert rate is None or 0 <= rate <= 1


@given(shares, shares, shares, st.integers(1, 500))
def test_an_interval_stays_within_0_and_1(raw: float, right: float, rejected: float, labels: int) -> None:
    one, two, three = (MeasuredRate(each, labels, labels) for each in (raw, right, rejected))
    interval = corrected_interval(one, two, three)
    assert interval is None or 0 <= interval.low <= interval.high <= 1


def test_the_interval_is_that_of_lang_and_reiczigel() -> None:
    """A worked example, 60 of 100 positive, 36 of 40 and 48 of 60 right: z = 1.96."""
    z = 1.959963984540054
    n, right, rejected = 100 + z * z, 37 / 42, 49 / 62
    positive = (60 + z * z / 2) / n
    share = (positive + rejected - 1) / (right + rejected - 1)
    one, other = share * right * (1 - right) / 42, (1 - share) * rejected * (1 - rejected) / 62
    error = math.sqrt(positive * (1 - positive) / n + share * one + (1 - share) * other) / (right + rejected - 1)
    interval = corrected_interval(MeasuredRate(0.6, 100, 100), MeasuredRate(0.9, 40, 40), MeasuredRate(0.8, 60, 60))
    assert interval is not None
    middle = share + 2 * z * z * (one - other)
    assert (interval.low, interval.high) == pytest.approx((middle - z * error, middle + z * error), abs=1e-9)


def documented(judged: Judged) -> list[tuple[float, bool]]:
    """Return the documented coverage of a judge: by labels, then that of the raw rate, each with its star."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {judged} |")]
    cells = line.split(" | ", 2)[2]
    return [(float(share) / 100, bool(star)) for share, star in re.findall(r"(\d+\.\d)(\*?)", cells)]


SOME_JUDGES = sample(JUDGES, 2, of_each=lambda judged: judged.sensitivity)


@pytest.mark.parametrize("judged", SOME_JUDGES, ids=str)
def test_the_interval_holds_the_truth_as_often_as_the_page_says(judged: Judged) -> None:
    *documented_rates, (documented_raw, _) = documented(judged)
    raw = 0.0
    for labels, (share, is_outside) in zip(LABELS, documented_rates, strict=True):
        held, raw = coverages(judged, labels)
        assert held >= 0.93
        assert is_outside or held <= 0.97
        assert held == pytest.approx(share, abs=0.015)
    assert raw == pytest.approx(documented_raw, abs=0.015)  # of the most labels, as in the table


def test_it_does_for_repeated_cases_too() -> None:
    held, _ = coverages(Judged(0.7, 0.9, 0.8), 50, trials=3)
    assert 0.93 <= held <= 0.97


def test_the_raw_rate_does_not() -> None:
    held = [coverages(judged, 200)[1] for judged in JUDGES if judged.sensitivity < 0.95 and judged.truth != 0.5]
    assert max(held) < 0.935
    assert min(held) < 0.01
