"""Paired differences of cases in sessions against statsmodels: a mean with cluster-robust errors."""

import math
import random

import numpy as np
import pytest
from msgspec.structs import replace
from statsmodels.regression.linear_model import OLS
from tests.support.rows import make_row

from agentv.scoring.comparison.compare import compare_sides
from agentv.scoring.comparison.sides import Side, scored_row
from agentv.scoring.counting.summary import Summary
from agentv.scoring.statistics.differences import PairedDifferences
from agentv.scoring.statistics.intervals import mean_interval, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments


def sessions(seed: int, count: int, largest: int) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [
        [round(float(shift + each), 6) for each in rng.normal(0.1, 0.2, size=rng.integers(1, largest + 1))]
        for shift in rng.normal(0, 0.2, count)
    ]


@pytest.mark.parametrize(("seed", "count", "largest"), [(1, 12, 5), (2, 40, 3), (3, 5, 9)])
def test_the_standard_error_of_sessions_is_statsmodels(seed: int, count: int, largest: int) -> None:
    clusters = sessions(seed, count, largest)
    values = np.array([value for each in clusters for value in each])
    groups = np.array([number for number, each in enumerate(clusters) for _ in each])
    fit = OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": groups, "df_correction": True})
    found = PairedDifferences.of_clusters(clusters)
    assert found.mean == pytest.approx(float(fit.params[0]))
    assert found.deviation / math.sqrt(found.cases) == pytest.approx(float(fit.bse[0]))
    interval = found.interval()
    assert interval is not None
    assert [interval.low, interval.high] == pytest.approx(
        list(fit.get_robustcov_results(cov_type="cluster", groups=groups, use_t=True).conf_int()[0])
    )


def test_cases_of_a_session_do_not_count_as_independent() -> None:
    before, after = Side("before"), Side("after")
    for number in range(40):
        for side, score in ((before, 0.4), (after, 0.4 + 0.2 * (number // 10 % 2))):
            row = replace(make_row(f"{number}", score=score), session_id=f"s-{number // 10}")
            side.add(scored_row(row))
    comparison = compare_sides(before, after, rng=random.Random(0))
    assert comparison.score is not None
    assert comparison.score.differences is not None
    assert (comparison.score.cases, comparison.score.differences.cases) == (40, 4)
    assert comparison.score.p == 0.5  # two of four sessions changed, both upwards


def test_rows_of_a_session_are_one_cluster_of_every_rate() -> None:
    summary, by_session = Summary(), {f"s-{number}": [0, 0.0] for number in range(5)}
    for number in range(23):
        session, passed = f"s-{number * number % 5}", number % 4 == 0
        row = make_row(f"{number // 2}", score=1.0 if passed else 0.25, trial=number % 2)
        summary.add(replace(row, session_id=session))
        by_session[session][0] += 1
        by_session[session][1] += passed
    clusters = ClusterMoments.of_clusters((int(rows), passed) for rows, passed in by_session.values() if rows)
    assert summary.all.pass_rate_interval == rate_interval(clusters)
    (target,) = summary.targets()
    assert target.pass_rate_interval == rate_interval(clusters)
    assert target.mean_interval == mean_interval(summary.moments("mean", None, None))
    assert [each.cases for each in target.trials] == [12, 11]  # pass@k counts the trials of cases
