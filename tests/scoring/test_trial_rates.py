import pytest
from tests.support.rows import make_row

from agentv.scoring.counting.summary import Summary
from agentv.scoring.statistics.intervals import mean_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.failures import Failure

BROKEN = Failure("server_error", "HTTP 503")


def summary_of(outcomes: dict[str, list[bool | None]], *, target: str = "t", into: Summary | None = None) -> Summary:
    """Count cases by their trials: passed, failed, or without a result (None)."""
    summary = into or Summary()
    for case, trials in outcomes.items():
        for trial, passed in enumerate(trials):
            error = BROKEN if passed is None else None
            summary.add(make_row(case, score=float(bool(passed)), error=error, target=target, trial=trial))
    return summary


def test_any_and_all_of_k_trials_are_averaged_over_the_cases() -> None:
    (target,) = summary_of({"a": [True, True, False], "b": [False, False, False]}).targets()
    rates = [(each.k, each.cases, each.pass_at, each.pass_hat) for each in target.trials]
    assert rates == [
        (1, 2, pytest.approx(1 / 3), pytest.approx(1 / 3)),
        (2, 2, 0.5, pytest.approx(1 / 6)),
        (3, 2, 0.5, 0),
    ]


def test_a_case_with_too_few_judged_trials_is_in_none_of_the_larger_k() -> None:
    (target,) = summary_of({"a": [True, True, None], "b": [True, False, True]}).targets()
    assert [(each.k, each.cases) for each in target.trials] == [(1, 2), (2, 2), (3, 1)]


def test_without_repeats_there_is_nothing_to_tell() -> None:
    (target,) = summary_of({"a": [True], "b": [False]}).targets()
    assert target.trials == ()


def test_many_trials_are_summarized_for_k_to_ten_and_all() -> None:
    (target,) = summary_of({"a": [True] * 30, "b": [True, False] * 15}).targets()
    assert [each.k for each in target.trials] == [*range(1, 11), 30]


def test_its_interval_is_that_of_a_mean_over_cases() -> None:
    (target,) = summary_of({"a": [True, True], "b": [True, False], "c": [False, False]}).targets()
    assert target.trials[1].pass_at_interval == mean_interval(ClusterMoments.of_passes(3, 2))


def test_gates_can_ask_for_them_over_all_targets() -> None:
    summary = summary_of({"a": [True, True], "b": [True, False]})
    assert summary.measure("pass_at", "2", None) == 1.0
    assert summary.measure("pass_hat", "2", None) == 0.5
    assert summary.measure("pass_hat", "3", None) is None
    summary_of({"a": [False, False], "b": [False, False]}, target="u", into=summary)
    assert summary.measure("pass_hat", "2", None) == 0.25
    assert summary.interval("pass_hat", "2", None) == mean_interval(ClusterMoments.of_clusters([(2, 1), (2, 0)]))
