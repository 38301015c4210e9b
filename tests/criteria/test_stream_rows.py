"""Lines of a stream become rows like those of a run, and are counted in memory that does not grow with the stream."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.criteria.giving import Giving, Raising
from tests.support.strategies import units

from agentv import CriteriaEvaluator, EvaluationCriteria, EvaluationRunConfig, EvaluationRunner
from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.run_answers import RunAnswers
from agentv.engine.running.open_case import Unrecorded
from agentv.engine.running.rows import unread_row
from agentv.scoring.counting.case_sums import MAX_HELD
from agentv.scoring.counting.groups import MAX_STREAM_GROUPS, OTHERS
from agentv.scoring.counting.summary import MAX_WORST, Summary
from agentv.scoring.gates.gates import STREAM_METRICS, parse_gate
from agentv.scoring.gates.run_verdict import stream_summary_for
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.scoring.results.criteria import CriteriaScore
from agentv.storage.run.spill import TemporarySpill
from agentv.types.aggregated_result import EvaluationRunError
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, JudgeCall, Verdict
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.failures import Failure
from agentv.types.records.answer import Origin, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.summaries import GroupSummary
from agentv.types.usage import Usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASKS = AnswerTasks(EvaluationRunConfig(evaluators=[{"type": "length", "max": 9}]), clock=lambda: NOW)
CASES = TASKS.runner(TASKS.runtime(), sink=Unrecorded(), run_id="r-1")
PLAIN, FREE = EvaluationInput("x"), EvaluationInput("x", cost_usd=0.0)
UNREADABLE = unread_row(
    "r-1",
    ResultKey("run_evaluation", "log:3", "log"),
    "run_evaluation",
    Origin("log", 3),
    Failure("config_error", "no JSON", stage="load"),
    now=NOW,
)


def line(
    number: int,
    score: float | None,
    *results: EvaluationResult,
    given: EvaluationInput = PLAIN,
    errors: tuple[EvaluationRunError, ...] = (),
    others: tuple[EvaluatorResult, ...] = (),
) -> CaseResult:
    """Return the row of a judged line; each result is that of an evaluator of its own."""
    verdict: Verdict | None = None if score is None or errors else "pass" if score >= 0.8 else "fail"
    evaluators = tuple(
        EvaluatorResult(name=f"e{place}", type="length", score=each.value or 0.0, results=(each,))
        for place, each in enumerate(results)
    )
    judged = JudgedCriteria(
        results=results,
        evaluators=(*evaluators, *others),
        errors=errors,
        warnings=(),
        usage=None,
        cost_usd=None,
        score=CriteriaScore(score, 1, 1),
        verdict=verdict,
        unverified=0,
        clamped=0,
    )
    slot = ResultKey("run_evaluation", f"log:{number}", "given_answer")
    task = RunAnswers(TASKS, are_recorded=False).task(given, slot, Origin("log", number), now=NOW)
    return CASES.record(task, judged)


def judged_at(cost_usd: float | None) -> EvaluatorResult:
    """Return the result of an evaluator whose judge took ten tokens."""
    call = JudgeCall("j", "sample", "{}", cost_usd=cost_usd)
    return EvaluatorResult(
        name="tone", type="llm_judge", score=1.0, usage=Usage(input=10), cost_usd=cost_usd, judge_calls=(call,)
    )


def summed(*rows: CaseResult) -> Summary:
    summary = stream_summary_for(None)
    for each in rows:
        summary.add(each, has_trials=False)
    return summary


def first_criterion(*rows: CaseResult) -> GroupSummary:
    return summed(*rows).groups()[0]


def measured(summary: Summary, metric: str) -> float | None:
    return parse_gate(f"{metric} >= 0", STREAM_METRICS).check(summary).value


@given(st.lists(st.floats(0, 1)))
def test_the_lowest_scores_are_shown_the_earliest_first_among_equals(scores: list[float]) -> None:
    shown = summed(*(line(number, score) for number, score in enumerate(scores))).counts.worst
    below = sorted((score, number) for number, score in enumerate(scores) if score < 0.8)
    assert [each.line for each in shown] == [number for _, number in below][:MAX_WORST]


def test_lines_without_a_clean_judgement_are_counted_beside_the_others() -> None:
    broken = line(4, 0.1, errors=(EvaluationRunError("judge", "no answer", criterion="tone"),))
    summary = summed(line(1, 1.0), line(2, 0.5), UNREADABLE, broken)
    assert [measured(summary, name) for name in ("mean", "pass_rate", "errors", "error_rate")] == [0.75, 0.5, 2.0, 0.5]
    errors = [each.error for each in summary.counts.errors if each.error is not None]
    assert [(each.kind, each.message) for each in errors] == [
        ("config_error", "no JSON"),
        ("evaluator_error", "tone: no answer"),
    ]
    assert [each.line for each in summary.counts.worst] == [2]


def test_a_criterion_is_averaged_over_what_was_judged_of_it() -> None:
    summary = summed(
        line(1, 1.0, EvaluationResult("tone", 5, 1.0), EvaluationResult("own", "brisk")),
        line(2, 0.5, EvaluationResult("tone", 3, 0.5)),
        line(3, None, EvaluationResult("tone", None, error="no answer")),
    )
    tone, own = summary.groups()
    assert (tone.mean_score, tone.pass_rate, tone.judged, tone.counts["error"]) == (0.75, 0.5, 2, 1)
    assert (own.name, own.mean_score, own.judged) == ("own", None, 0)
    assert (measured(summary, "criterion(tone).mean"), measured(summary, "criterion(none).mean")) == (0.75, None)


def test_criteria_that_every_line_brings_anew_are_not_all_kept() -> None:
    summary = summed(*(line(number, 1.0, EvaluationResult(f"c{number}", True, 1.0)) for number in range(1000)))
    assert len(summary.groups()) == MAX_STREAM_GROUPS + 1
    assert (summary.groups()[-1].name, summary.groups()[-1].judged) == (OTHERS, 1000 - MAX_STREAM_GROUPS)


@pytest.mark.parametrize(
    ("costs", "total"), [([], 0.0), ([0.25, 0.5], 0.75), ([0.25, None], None), ([None, 0.25], None)]
)
def test_one_unknown_price_makes_the_cost_unknown(costs: list[float | None], total: float | None) -> None:
    rows = (line(1, 1.0, given=FREE, others=(judged_at(cost),)) for cost in costs)
    summary = summed(line(0, 1.0, given=FREE), *rows)
    assert measured(summary, "cost_usd") == total
    (target,) = summary.targets()
    assert (target.judge_usage, target.judge_cost_usd) == (Usage(input=10 * len(costs)), total)


def test_a_judge_without_tokens_and_cost_is_not_free() -> None:
    silent = EvaluatorResult(name="tone", type="llm_judge", score=1.0, judge_calls=(JudgeCall("j", "sample", "{}"),))
    assert measured(summed(line(1, 1.0, given=FREE, others=(silent,))), "cost_usd") is None


def test_how_long_judging_took_is_measured_in_either_unit() -> None:
    summary = stream_summary_for(None)
    assert measured(summary, "p95(duration_s)") is None
    for _ in range(3):
        summary.judging_times.add(2.0)
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
    assert (summary.all.counts["error"], sum(each.counts.get("error", 0) for each in summary.groups())) == (
        errors,
        errors,
    )


def test_the_interval_of_a_stream_counts_each_line_as_a_case() -> None:
    summary = summed(*(line(number, float(number % 2), EvaluationResult("tone", 1, 1.0)) for number in range(10)))
    gates = ("pass_rate >= 23%", "pass_rate >= 24%", "criterion(tone).mean >= 0.72", "criterion(tone).mean >= 0.73")
    results = [parse_gate(f"{gate} with 95%", STREAM_METRICS).check(summary) for gate in gates]
    assert [each.passed for each in results] == [True, False, True, False]


def test_a_criterion_that_two_evaluators_judge_is_no_surer_for_it() -> None:
    def tone(value: float, times: int) -> list[EvaluationResult]:
        return [EvaluationResult("tone", value, value)] * times

    once, twice = (
        first_criterion(*(line(number, 1.0, *tone(float(number % 2), times)) for number in range(10)))
        for times in (1, 2)
    )
    assert (once.judged, twice.judged, twice.mean_score) == (10, 20, 0.5)
    assert once.mean_interval == twice.mean_interval is not None
    assert twice.pass_rate_interval is not None
    assert twice.pass_rate_interval.method == "clustered-wilson"
    mixed = first_criterion(line(1, 1.0, *tone(1.0, 2), EvaluationResult("tone", None, error="no answer")))
    assert (mixed.judged, mixed.counts["error"], mixed.mean_score) == (2, 1, 1.0)


def test_a_percentile_of_a_stream_has_no_interval() -> None:
    with pytest.raises(ConfigError, match="p95 has no interval"):
        parse_gate("p95(duration_s) <= 1 with 95%", STREAM_METRICS)


def test_a_line_becomes_a_row_with_its_place() -> None:
    answer = EvaluationInput("Wait.", session_id="s-1", metadata={"n": 1})
    row = line(7, 0.5, given=answer, others=(judged_at(None),))
    assert (row.run_id, row.slot) == ("r-1", ResultKey("run_evaluation", "log:7", "given_answer"))
    assert (row.file, row.line, row.session_id, row.metadata) == ("log", 7, "s-1", {"n": 1})
    assert (row.status, row.verdict, row.score, row.candidate_answer) == ("fail", "fail", 0.5, "Wait.")
    assert (row.target_cost_usd, row.judge_usage, row.cost_usd) == (None, Usage(input=10), None)
    assert (row.duration_ms, row.error) == (None, None)


@given(units)
def test_the_state_of_a_row_is_the_verdict_of_its_line(score: float) -> None:
    row = line(1, score)
    assert row_state(row) == row.verdict


POLITE, WARM = EvaluationCriteria("polite"), EvaluationCriteria("warm")
PLEASE = {"type": "contains", "value": "please", "criterion": "polite"}


@pytest.mark.parametrize("own", [Giving(EvaluationResult("warm", True, 1.0)), Giving(), Raising()])
def test_each_evaluator_of_a_judgement_has_the_results_of_its_criteria(own: CriteriaEvaluator) -> None:
    config = EvaluationRunConfig(evaluators=[own, PLEASE])
    result, judged = asyncio.run(EvaluationRunner(config).judge(EvaluationInput("please", (POLITE, WARM))))
    assert [[each.criterion_name for each in evaluator.results] for evaluator in judged.evaluators] == [
        ["warm"],
        ["polite"],
    ]
    results = [each for evaluator in judged.evaluators for each in evaluator.results]
    assert sorted(results, key=lambda each: each.criterion_name) == sorted(
        result.results, key=lambda each: each.criterion_name
    )


def test_sums_of_many_sessions_are_the_same_outside_of_memory() -> None:
    spill = TemporarySpill()
    held, spilled = stream_summary_for(None), stream_summary_for(None, spill)
    polite = EvaluationResult("polite", 1, value=1.0, evaluator_type="length")
    for number in range(2 * MAX_HELD + 100):
        given = EvaluationInput("x", session_id=f"s-{number * 7 % (MAX_HELD + 50)}", duration_ms=1.0)
        row = line(number, (number % 4) / 4, polite, given=given)
        for summary in (held, spilled):
            summary.add(row, has_trials=False)
    assert spill.write(b"") not in (None, 0)  # some sums are in the file
    assert held.targets() == spilled.targets()
    assert held.groups() == spilled.groups()
    assert held.evaluators() == spilled.evaluators()
    (target,) = spilled.targets()
    assert target.mean_interval is not None
