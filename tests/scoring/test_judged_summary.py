"""The summary of a stream for gates and reports, in memory that does not grow with it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.counting.judged_summary import MAX_CRITERIA, OTHERS, SHOWN, JudgedSummary
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.metrics import STREAM_METRICS
from agentv.types.criteria.aggregated_result import AggregatedEvaluationResult, EvaluationRunError
from agentv.types.criteria.evaluation_input import EvaluationInput
from agentv.types.criteria.judged_lines import JudgedLine
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluationResult
from agentv.types.failures import Failure
from agentv.types.usage import Usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def line(number: int, score: float | None, *results: EvaluationResult, **fields: Any) -> JudgedLine:
    verdict = None if score is None else "pass" if score >= 0.8 else "fail"
    judged = AggregatedEvaluationResult(
        score, results, 1, 1, NOW, EvaluationInput("x"), **{"verdict": verdict, "duration_ms": 1.0, **fields}
    )
    return JudgedLine("log", number, NOW, judged)


def summed(*lines: JudgedLine) -> JudgedSummary:
    summary = JudgedSummary()
    for each in lines:
        summary.add(each)
    return summary


def measured(summary: JudgedSummary, metric: str) -> float | None:
    return parse_gate(f"{metric} >= 0", STREAM_METRICS).check(summary).value


@given(st.lists(st.floats(0, 1)))
def test_the_lowest_scores_are_shown_the_earliest_first_among_equals(scores: list[float]) -> None:
    shown = summed(*(line(number, score) for number, score in enumerate(scores))).worst
    below = sorted((score, number) for number, score in enumerate(scores) if score < 0.8)
    assert [each.number for each in shown] == [number for _, number in below][:SHOWN]


def test_lines_without_a_clean_judgement_are_counted_beside_the_others() -> None:
    failed = JudgedLine("log", 3, NOW, failure=Failure("config_error", "no JSON"))
    broken = line(4, 0.1, verdict=None, run_errors=(EvaluationRunError("judge", "no answer", criterion="tone"),))
    summary = summed(line(1, 1.0), line(2, 0.5), failed, broken)
    assert [measured(summary, name) for name in ("mean", "pass_rate", "errors", "error_rate")] == [0.75, 0.5, 2.0, 0.5]
    assert [each.reason for each in summary.errors] == ["no JSON", "tone: no answer"]
    assert [each.number for each in summary.worst] == [2]


def test_a_criterion_is_averaged_over_what_was_judged_of_it() -> None:
    summary = summed(
        line(1, 1.0, EvaluationResult("tone", 5, 1.0), EvaluationResult("own", "brisk")),
        line(2, 0.5, EvaluationResult("tone", 3, 0.5)),
        line(3, None, EvaluationResult("tone", None, error="no answer")),
    )
    tone, own = summary.criteria()
    assert (tone.mean, tone.pass_rate, tone.judged, tone.errors) == (0.75, 0.5, 2, 1)
    assert (own.mean, own.judged) == (None, 0)
    assert (measured(summary, "criterion(tone).mean"), measured(summary, "criterion(none).mean")) == (0.75, None)


def test_criteria_that_every_line_brings_anew_are_not_all_kept() -> None:
    summary = summed(*(line(number, 1.0, EvaluationResult(f"c{number}", True, 1.0)) for number in range(1000)))
    assert len(summary.criteria()) == MAX_CRITERIA + 1
    assert (summary.criteria()[-1].name, summary.criteria()[-1].judged) == (OTHERS, 1000 - MAX_CRITERIA)


@pytest.mark.parametrize(
    ("costs", "total"), [([], 0.0), ([0.25, 0.5], 0.75), ([0.25, None], None), ([None, 0.25], None)]
)
def test_one_unknown_price_makes_the_cost_unknown(costs: list[float | None], total: float | None) -> None:
    lines = (line(1, 1.0, judge_usage=Usage(input=10), judge_cost_usd=cost) for cost in costs)
    summary = summed(line(0, 1.0), *lines)
    assert measured(summary, "cost_usd") == total
    assert summary.usage == (Usage(input=10 * len(costs)) if costs else None)


def test_how_long_judging_took_is_measured_in_either_unit() -> None:
    summary = summed(*(line(number, 1.0, duration_ms=2000.0) for number in range(3)))
    assert measured(summary, "p95(duration_s)") == pytest.approx(2.0, rel=0.01)
    assert measured(summary, "p50(duration_ms)") == pytest.approx(2000.0, rel=0.01)


@given(st.lists(st.floats(0, 1)), st.integers(0, 5))
def test_lines_that_a_judge_failed_on_change_no_number_and_are_counted(scores: list[float], errors: int) -> None:
    clean = [line(number, score, EvaluationResult("tone", score, score)) for number, score in enumerate(scores)]
    broken = [line(0, None, EvaluationResult("tone", None, error="no answer")) for _ in range(errors)]
    without, summary = summed(*clean), summed(*broken[:2], *clean, *broken[2:])
    for metric in (None, "mean"), (None, "pass_rate"), ("tone", "mean"), ("tone", "pass_rate"):
        name = "criterion", *metric
        assert summary.measure(*name) == without.measure(*name)
        assert summary.interval(*name) == without.interval(*name)
    assert (summary.all.counts["error"], sum(each.errors for each in summary.criteria())) == (errors, errors)


def test_the_interval_of_a_stream_counts_each_line_as_a_case() -> None:
    summary = summed(*(line(number, float(number % 2), EvaluationResult("tone", 1, 1.0)) for number in range(10)))
    gates = ("pass_rate >= 23%", "pass_rate >= 24%", "criterion(tone).mean >= 0.72", "criterion(tone).mean >= 0.73")
    results = [parse_gate(f"{gate} with 95%", STREAM_METRICS).check(summary) for gate in gates]
    assert [each.passed for each in results] == [True, False, True, False]


def test_a_criterion_that_two_evaluators_judge_is_no_surer_for_it() -> None:
    def tone(value: float, times: int) -> list[EvaluationResult]:
        return [EvaluationResult("tone", value, value)] * times

    once, twice = (
        summed(*(line(number, 1.0, *tone(float(number % 2), times)) for number in range(10))).criteria()[0]
        for times in (1, 2)
    )
    assert (once.judged, twice.judged, twice.mean) == (10, 20, 0.5)
    assert once.mean_interval == twice.mean_interval is not None
    assert twice.pass_rate_interval is not None
    assert twice.pass_rate_interval.method == "clustered-wilson"
    mixed = summed(line(1, 1.0, *tone(1.0, 2), EvaluationResult("tone", None, error="no answer"))).criteria()[0]
    assert (mixed.judged, mixed.errors, mixed.mean) == (2, 1, 1.0)


def test_a_percentile_of_a_stream_has_no_interval() -> None:
    with pytest.raises(ConfigError, match="p95 has no interval"):
        parse_gate("p95(duration_s) <= 1 with 95%", STREAM_METRICS)
