import math
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.counting.summary import MAX_LISTED_ANSWER, Summary
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, JudgeCall
from agentv.types.failures import Failure
from agentv.types.messages import Message, TraceEvent
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.usage import Usage

BROKEN = Failure("server_error", "HTTP 503")


def summary_of(*rows: object) -> Summary:
    summary = Summary()
    for row in rows:
        summary.add(row)  # type: ignore[arg-type]  # rows come from make_row
    return summary


def test_a_row_without_a_result_is_counted_beside_the_rates_never_inside() -> None:
    summary = summary_of(make_row("a"), make_row("b", score=None, error=BROKEN))
    (target,) = summary.targets()
    assert target.counts == {"pass": 1, "error": 1}
    assert (target.pass_rate, target.mean_score) == (1.0, 1.0)


def test_a_row_whose_judge_broke_keeps_its_zero_out_of_the_mean() -> None:
    summary = summary_of(make_row("a"), make_row("b", score=0.0, error=Failure("judge_error", "no JSON", "evaluator")))
    assert summary.all.mean == 1.0
    assert summary.evaluators()[0].errors == 1


def test_the_five_states_are_disjoint_and_add_up() -> None:
    rows = [make_row("a"), make_row("b", score=0.7), make_row("c", score=0.1), make_row("d", score=None, error=BROKEN)]
    assert summary_of(*rows).all.counts == {"pass": 1, "borderline": 1, "fail": 1, "error": 1}


def test_a_call_without_a_known_price_makes_the_cost_unknown_not_zero() -> None:
    known = make_row("a", usage=Usage(input=1), cost_usd=0.5)
    unknown = make_row("b", usage=Usage(input=1))
    assert summary_of(known).cost_usd == 0.5
    assert summary_of(known, unknown).cost_usd is None


def test_an_answer_without_tokens_and_cost_is_not_free() -> None:
    silent = make_row("a")
    assert summary_of(silent).cost_usd is None
    assert summary_of(make_row("b", cost_usd=0.5), silent).cost_usd is None
    unjudged = make_row("c", score=0.0, error=Failure("judge_error", "no JSON", "evaluator"))
    assert summary_of(unjudged).cost_usd is None
    assert summary_of(make_row("d", score=None, error=BROKEN)).cost_usd == 0.0
    (target,) = summary_of(silent).targets()
    assert (target.target_cost_usd, target.judge_cost_usd) == (None, 0.0)


def test_a_row_that_was_skipped_without_a_call_costs_nothing() -> None:
    uncalled = replace(make_row("s", score=None, is_skipped=True), evaluator_results=())
    summary = summary_of(make_row("a", cost_usd=0.5), uncalled)
    assert summary.cost_usd == 0.5
    (target,) = summary.targets()
    assert target.target_cost_usd == 0.5


def test_a_judge_without_tokens_and_cost_is_not_free() -> None:
    def judged_by(*calls: JudgeCall) -> CaseResult:
        member = EvaluatorResult(name="m", type="llm_judge", score=1.0, judge_calls=calls)
        composite = EvaluatorResult(name="c", type="composite", score=1.0, evaluator_results=(member,))
        return replace(
            make_row("a", cost_usd=0.5),
            evaluator_results=(composite,),
            usage_by=UsageBy(Spent(cost_usd=0.5), Spent(cost_usd=0.25)),
        )

    priced = JudgeCall("j", "sample", "{}", cost_usd=0.25)
    assert summary_of(judged_by(priced)).cost_usd == 0.75
    assert summary_of(judged_by(priced, JudgeCall("j", "sample", "{}"))).cost_usd is None
    assert summary_of(judged_by(priced, JudgeCall("j", "sample", "{}", cached=True))).cost_usd == 0.75


def judged_row(number: int, score: float | None, *, trials: int = 1) -> CaseResult:
    """Return a row of its own kind or of another's: with tags, a dataset and criteria computed from its number."""
    row = make_row(
        f"c{number // trials}",
        score=score,
        error=BROKEN if score is None else None,
        trial=number % trials,
        duration_ms=float(number),
        tags=("x", "y")[: number % 3],
    )
    value = 0.0 if score is None else score
    polite = EvaluationResult("polite", score, score, error="broken" if score is None else None)
    judges = [replace(row.evaluator_results[0], name=name, results=(polite,)) for name in ("one", "two")]
    return replace(row, dataset=f"d{number % 2}", evaluator_results=tuple(judges[: 1 + (value < 1)]))


@given(st.lists(st.sampled_from([None, 0.0, 0.7, 1.0]), max_size=60), st.integers(1, 4))
@example([0.7, 0.1, 0.7] * 100, 1)
def test_reading_in_the_middle_counts_every_row_and_changes_nothing(scores: list[float | None], trials: int) -> None:
    def summary() -> Summary:
        return Summary(["evals/s.yaml"], has_shared_cases=trials > 1)

    read_often, left_alone = summary(), summary()
    for number, score in enumerate(scores):
        row = judged_row(number, score, trials=trials)
        read_often.add(row, has_trials=trials > 1)
        left_alone.add(row, has_trials=trials > 1)
        assert (read_often.all.rows, read_often.of_suite("evals/s.yaml").all.rows) == (number + 1, number + 1)
        assert sum(sum(target.counts.values()) for target in read_often.targets()) == number + 1
    for one, other in (
        (read_often, left_alone),
        (read_often.of_suite("evals/s.yaml"), left_alone.of_suite("evals/s.yaml")),
    ):
        assert (one.all.counts, one.all.scores()) == (other.all.counts, other.all.scores())
        assert (one.targets(), one.groups(), one.evaluators()) == (other.targets(), other.groups(), other.evaluators())
        assert (one.flaky, one.counts.histogram) == (other.flaky, other.counts.histogram)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=150), st.randoms())
def test_the_order_in_which_rows_finish_changes_no_number(scores: list[float], random: Random) -> None:
    rows = [judged_row(number, score) for number, score in enumerate(scores)]
    once, again = Summary(has_shared_cases=False), Summary(has_shared_cases=False)
    for row in rows:
        once.add(row, has_trials=False)
    random.shuffle(rows)
    for row in rows:
        again.add(row, has_trials=False)
    assert once.all.mean == pytest.approx(math.fsum(scores) / len(scores), rel=1e-15)
    assert (once.targets(), set(once.evaluators())) == (again.targets(), set(again.evaluators()))
    assert {(each.by, each.name): each for each in once.groups()} == {
        (each.by, each.name): each for each in again.groups()
    }


@pytest.mark.parametrize("name", ["candidate_answer", "trace", "output_messages"])
def test_no_row_that_may_be_large_is_held_until_others_come(name: str) -> None:
    summary = Summary()
    tracemalloc.start()
    for number in range(12):
        text = f"{number}" * 1_000_000
        large: dict[str, Any] = {
            "candidate_answer": text,
            "trace": (TraceEvent("message", text=text),),
            "output_messages": (Message("assistant", text),),
        }
        summary.add(replace(make_row("a"), **{name: large[name]}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6_000_000


def test_a_score_of_one_stands_in_the_last_bin_of_the_histogram() -> None:
    assert summary_of(make_row("a"), make_row("b", score=0.0), make_row("c", score=0.5)).counts.histogram == [
        1, 0, 0, 0, 0, 1, 0, 0, 0, 1,
    ]  # fmt: skip


def test_a_case_whose_trials_disagree_is_flaky() -> None:
    summary = Summary()
    for row in (make_row("a"), make_row("a", score=0.0, trial=1), make_row("b"), make_row("b", trial=1)):
        summary.add(row)
    assert summary.flaky == ("a (t)",)


def test_a_listed_result_has_the_beginning_of_a_long_answer() -> None:
    summary = summary_of(replace(make_row("a", score=0.0), candidate_answer="long " * 100_000))
    for kept in (*summary.counts.failing, *summary.counts.worst):
        assert len(kept.candidate_answer) == MAX_LISTED_ANSWER
        assert kept.candidate_answer.startswith("long long")
        assert kept.candidate_answer.endswith("… (cut; the stored result has all 500,000 characters)")


def test_only_ten_failing_rows_are_kept_and_all_are_counted() -> None:
    summary = summary_of(*[make_row(f"c{n}", score=0.0) for n in range(25)])
    assert (len(summary.counts.failing), summary.counts.failing_total) == (10, 25)


def test_the_lowest_scores_and_the_first_errors_are_kept() -> None:
    low = [make_row(f"c{n}", score=0.5 - n / 10) for n in range(6)]
    broken = [make_row(f"b{n}", score=None, error=BROKEN) for n in range(7)]
    counts = summary_of(make_row("a"), *low, make_row("d", score=0.0), *broken, make_row("s", is_skipped=True)).counts
    assert [row.eval_id for row in counts.worst] == ["c5", "d", "c4", "c3", "c2"]
    assert [row.eval_id for row in counts.errors] == ["b0", "b1", "b2", "b3", "b4"]


def test_a_criterion_without_a_value_is_listed_only_for_given_answers() -> None:
    own = EvaluationResult("mood", "brisk", scale="moods")
    row = replace(
        make_row("a"), evaluator_results=(EvaluatorResult(name="m", type="human", score=1.0, results=(own,)),)
    )
    for has_given_answers, listed in ((False, []), (True, [("mood", 0, None)])):
        summary = Summary(by=("criterion",), has_given_answers=has_given_answers)
        summary.add(row)
        assert [(each.name, each.rows, each.mean_score) for each in summary.groups()] == listed


def test_a_gate_on_a_percentile_sees_the_duration_that_the_record_shows() -> None:
    summary = Summary()
    summary.add(make_row("a", duration_ms=200.3))
    assert summary.measure("p95", "duration_ms", None) == 200.3
    assert summary.measure("p95", "duration_s", None) == 0.2003


def test_cached_answers_are_part_of_the_cost_and_shown_separately() -> None:
    calls = (
        JudgeCall("j", "sample", "…", cost_usd=0.5, cached=True),
        JudgeCall("j", "repair", "…", cost_usd=0.25),
    )
    member = EvaluatorResult(name="m", type="llm_judge", score=1.0, judge_calls=calls)
    whole = EvaluatorResult(name="all", type="composite", score=1.0, evaluator_results=(member,), cost_usd=0.75)
    called = make_row("a", cost_usd=2.0)
    spent = UsageBy(Spent(cost_usd=3.0), Spent(cost_usd=0.75))
    cached = replace(make_row("b"), cached=True, evaluator_results=(whole,), usage_by=spent)
    (target,) = summary_of(called, cached).targets()
    assert (target.target_cost_usd, target.judge_cost_usd, target.saved_usd) == (5.0, 0.75, 3.5)


def repeated(cases: int, trials: int, *, has_trials: bool) -> Summary:
    """Count cases of which every second passes in each trial."""
    summary = Summary(has_shared_cases=False)
    for number in range(cases):
        for trial in range(trials):
            summary.add(make_row(f"c{number}", score=float(number % 2), trial=trial), has_trials=has_trials)
    return summary


@pytest.mark.parametrize("has_trials", [False, True])
def test_a_case_without_trials_is_flaky_beside_cases_with_trials(*, has_trials: bool) -> None:
    summary = Summary(has_shared_cases=False)
    summary.add(make_row("passed"), has_trials=has_trials)
    for trial in range(2):
        summary.add(make_row("steady", trial=trial), has_trials=True)
    summary.add(replace(make_row("passed", score=0.0), rerun="case"))
    assert summary.flaky == ("passed (t)",)


def test_asking_the_same_cases_again_makes_nothing_surer() -> None:
    (once,) = repeated(40, 1, has_trials=False).targets()
    (often,) = repeated(40, 5, has_trials=True).targets()
    assert once.pass_rate_interval is not None
    assert often.pass_rate_interval is not None
    assert often.pass_rate_interval.low == pytest.approx(once.pass_rate_interval.low)
    assert (once.pass_rate_interval.method, often.pass_rate_interval.method) == ("wilson", "clustered-wilson")
    (naive,) = repeated(40, 5, has_trials=False).targets()
    assert naive.pass_rate_interval is not None
    assert naive.pass_rate_interval.low > once.pass_rate_interval.low + 0.05


def test_two_targets_share_a_case_overall_but_not_in_their_own_counts() -> None:
    summary = Summary()
    for number in range(40):
        for target in ("t", "u"):
            summary.add(make_row(f"c{number}", score=float(number % 2), target=target, tags=("x",)), has_trials=False)
    alone = repeated(40, 1, has_trials=False).targets()[0].pass_rate_interval
    assert alone is not None
    assert [each.pass_rate_interval for each in summary.targets()] == [alone, alone]
    for metric in (("pass_rate", None, None), ("tag", "x", "pass_rate"), ("evaluator", "tone", "pass_rate")):
        found = summary.interval(*metric)
        assert found is not None
        assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


def test_a_gate_gets_the_interval_of_what_it_measures_where_there_is_one() -> None:
    summary = summary_of(*[make_row(f"c{n}", score=n % 4 / 3, tags=("x",)) for n in range(80)])
    (target,) = summary.targets()
    (evaluator,) = summary.evaluators()
    assert summary.interval("mean", None, None) == target.mean_interval
    assert summary.interval("target", "t", "pass_rate") == target.pass_rate_interval
    assert summary.interval("evaluator", "tone", "mean") == evaluator.mean_interval
    assert summary.interval("tag", "x", "mean") == summary.groups()[0].mean_interval
    for metric in (("errors", None, None), ("cost_usd", None, None), ("tag", "y", "mean"), ("p95", "duration_s", None)):
        assert summary.interval(*metric) is None


def test_the_interval_of_a_latency_is_in_the_unit_of_the_metric() -> None:
    summary = Summary()
    for number in range(100):
        summary.add(make_row(f"c{number}", duration_ms=100.0 * number))
    found, in_ms = (summary.interval("p50", unit, None) for unit in ("duration_s", "duration_ms"))
    (target,) = summary.targets()
    assert found == target.latency_median_interval
    assert found is not None
    assert in_ms is not None
    # The 40th and the 61st of the hundred sorted values are the ranks of the binomial distribution.
    assert 3.9 <= found.low <= 4.0
    assert 5.9 <= found.high <= 6.0
    assert in_ms.low == pytest.approx(1000 * found.low)
    assert target.latency_p95_interval is not None


def test_repeats_make_no_percentile_surer() -> None:
    summary = Summary()
    for number in range(5):
        for trial in range(100):
            summary.add(make_row(f"c{number}", trial=trial, duration_ms=1000.0))
    assert summary.targets()[0].latency_median_interval is None


def test_evaluators_of_one_name_and_different_types_are_measured_together() -> None:
    other = replace(
        make_row("b", score=0.0), evaluator_results=(EvaluatorResult(name="tone", type="regex", score=0.0),)
    )
    summary = summary_of(make_row("a"), other)
    assert [(each.type, each.mean_score) for each in summary.evaluators()] == [("contains", 1.0), ("regex", 0.0)]
    assert summary.measure("evaluator", "tone", "mean") == 0.5
    assert summary.measure("evaluator", "tone", "pass_rate") == 0.5


def test_nothing_is_remembered_of_cases_that_have_one_row_each() -> None:
    summary = repeated(10, 1, has_trials=False)
    assert summary.all.cases is None
    assert summary.all.pass_rate_interval is not None
    assert repeated(10, 1, has_trials=True).all.pass_rate_interval == summary.all.pass_rate_interval


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.randoms())
def test_with_several_targets_the_order_changes_no_mean_either(scores: list[float], random: Random) -> None:
    rows = [judged_row(number, score) for number, score in enumerate(scores)]
    once, again = Summary(), Summary()
    for row in rows:
        once.add(row)
    random.shuffle(rows)
    for row in rows:
        again.add(row)
    assert once.all.mean == again.all.mean


def test_a_rerun_changes_no_count_rate_or_gate_and_makes_its_case_flaky() -> None:
    first = [make_row("a", score=0.0), make_row("b"), make_row("c", score=None, error=BROKEN)]
    reruns = [
        replace(make_row("a"), generation=1, rerun="failed"),
        replace(make_row("a"), generation=2, rerun="failed"),
        replace(make_row("b"), generation=1, rerun="case"),
        replace(make_row("c", score=0.0), generation=1, rerun="fresh"),
    ]
    for rows in ((*first, *reruns), (*reruns, *first)):
        summary, without = Summary(), summary_of(*first)
        for row in rows:
            summary.add(row, has_trials=False)
        assert summary.all.counts == without.all.counts
        assert summary.measure("pass_rate", None, None) == 0.5
        assert summary.measure("cost_usd", None, None) == without.measure("cost_usd", None, None)
        assert [each.eval_id for each in summary.counts.failing] == ["a", "c"]
        assert summary.reruns == 3
        assert summary.flaky == ("a (t)",)


def test_a_rerun_is_compared_with_all_trials_of_its_case() -> None:
    trials = [make_row("a", trial=0), make_row("a", trial=1), make_row("b", trial=0), make_row("b", trial=1)]
    reruns = [replace(make_row("a", score=0.0, trial=1), rerun="confirm"), replace(make_row("b"), rerun="confirm")]
    assert summary_of(*trials, *reruns).flaky == ("a (t)",)


def test_rescored_is_how_often_answers_were_judged_again() -> None:
    assert (
        summary_of(make_row("a"), replace(make_row("b"), rescored=2), replace(make_row("c"), rescored=1)).rescored == 2
    )
    assert summary_of(make_row("a")).rescored == 0
