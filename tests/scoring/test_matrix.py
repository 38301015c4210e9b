from collections.abc import Iterable, Iterator

import pytest
from msgspec.structs import replace
from tests.support.stored import make_result

from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.counting.summary import Summary
from agentv.scoring.statistics.mcnemar import mcnemar_test
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.summaries import BestCell, MatrixSummary
from agentv.types.usage import Usage

PROMPTS = ("plain", "hinted")
TARGETS = ("small", "large")


def row(case: str, *, prompt: str | None, target: str, score: float, trial: int = 0) -> CaseResult:
    return make_result(
        slot=ResultKey("s.yaml", case, target, trial, prompt),
        score=score,
        verdict="pass" if score == 1 else "fail",
        evaluator_results=(),
        prompt=prompt,
    )


def matrix_of(rows: Iterable[CaseResult], *, has_trials: bool = False) -> MatrixSummary | None:
    summary = Summary(has_shared_cases=True)
    for each in rows:
        summary.add(each, has_trials=has_trials)
    return summary.matrix()


def rows_where(passing: dict[tuple[str, str], int], cases: int) -> Iterator[CaseResult]:
    """Yield the rows of each cell, of which the first `passing` cases pass."""
    for (prompt, target), passed in passing.items():
        for number in range(cases):
            yield row(f"c{number}", prompt=prompt, target=target, score=float(number < passed))


def best_of(passing: dict[tuple[str, str], int], cases: int = 20) -> BestCell:
    matrix = matrix_of(rows_where(passing, cases))
    assert matrix is not None
    assert matrix.best is not None
    return matrix.best


def test_each_prompt_and_target_has_a_cell_with_its_own_rate_and_mean() -> None:
    passing = {("plain", "small"): 2, ("plain", "large"): 5, ("hinted", "small"): 8, ("hinted", "large"): 10}
    matrix = matrix_of(rows_where(passing, cases=20))
    assert matrix is not None
    assert (matrix.prompts, matrix.targets) == (PROMPTS, TARGETS)
    for (prompt, target), passed in passing.items():
        cell = matrix.cell(prompt, target)
        assert cell is not None
        assert (cell.rows, cell.judged) == (20, 20)
        assert cell.pass_rate == cell.mean_score == passed / 20
        assert cell.pass_rate_interval is not None
        assert cell.pass_rate_interval.low < passed / 20 < cell.pass_rate_interval.high


def test_the_best_is_significant_if_it_passes_enough_more_cases() -> None:
    best = best_of({("plain", "small"): 2, ("plain", "large"): 2, ("hinted", "small"): 18})
    assert (best.prompt, best.target, best.next_prompt, best.next_target) == ("hinted", "small", "plain", "small")
    assert best.difference == pytest.approx(16 / 20)
    assert best.cases == 20
    # 16 cases pass only there, and Holm doubles the smaller of two p
    assert best.p == pytest.approx(2 * mcnemar_test(16, 0))
    assert best.is_significant


def test_the_best_is_not_significant_if_the_second_is_close() -> None:
    best = best_of({("plain", "small"): 0, ("plain", "large"): 17, ("hinted", "small"): 18})
    assert best.p == pytest.approx(mcnemar_test(1, 0))
    assert not best.is_significant
    assert best.lower == (("plain", "small"),)


def test_cells_that_are_alike_have_no_best() -> None:
    best = best_of({("plain", "small"): 9, ("plain", "large"): 9})
    assert (best.difference, best.p, best.is_significant) == (0, 1, False)


def test_only_cases_of_both_cells_are_compared() -> None:
    rows = [*rows_where({("plain", "small"): 0}, cases=9), row("other", prompt="hinted", target="small", score=1)]
    matrix = matrix_of(rows)
    assert matrix is not None
    assert matrix.best is not None
    assert (matrix.best.cases, matrix.best.difference, matrix.best.is_significant) == (0, None, False)


def test_trials_of_a_case_count_as_one_case() -> None:
    rows = [
        row("a", prompt=prompt, target="t", score=float(prompt == "hinted"), trial=trial)
        for prompt in PROMPTS
        for trial in range(30)
    ]
    matrix = matrix_of(rows, has_trials=True)
    assert matrix is not None
    assert matrix.best is not None
    assert (matrix.best.cases, matrix.best.is_significant) == (1, False)


def test_targets_without_prompts_are_compared_as_well() -> None:
    matrix = matrix_of(
        row(f"c{number}", prompt=None, target=target, score=float(target == "large"))
        for number in range(12)
        for target in TARGETS
    )
    assert matrix is not None
    assert matrix.prompts == (None,)
    large = matrix.cell(None, "large")
    assert large is not None
    assert matrix.is_best(large)


def test_one_target_without_prompts_has_no_matrix() -> None:
    assert matrix_of(row(f"c{number}", prompt=None, target="t", score=1) for number in range(3)) is None


def test_prompts_are_no_trials_of_a_case() -> None:
    summary = Summary(has_shared_cases=True)
    for prompt, score in (("plain", 0.0), ("hinted", 1.0)):
        for trial in range(2):
            summary.add(row("a", prompt=prompt, target="t", score=score, trial=trial))
    (target,) = summary.targets()
    # Of each prompt there are two trials, all alike: any and all of two pass for one of two prompts.
    assert [(each.k, each.pass_at, each.pass_hat) for each in target.trials] == [(1, 0.5, 0.5), (2, 0.5, 0.5)]


def test_rows_of_a_case_with_several_prompts_are_one_cluster() -> None:
    summary = Summary(has_shared_cases=True)
    for number in range(40):
        for prompt in PROMPTS:
            summary.add(row(f"c{number}", prompt=prompt, target="t", score=float(number % 2)), has_trials=False)
    (target,) = summary.targets()
    assert target.pass_rate_interval is not None
    of_cases = Summary(has_shared_cases=False)
    for number in range(40):
        of_cases.add(row(f"c{number}", prompt=None, target="t", score=float(number % 2)), has_trials=False)
    (alone,) = of_cases.targets()
    assert alone.pass_rate_interval is not None
    assert target.pass_rate_interval.low == pytest.approx(alone.pass_rate_interval.low, abs=0.01)


def test_a_line_that_cannot_be_read_is_no_row_of_the_matrix() -> None:
    broken = make_result(
        slot=ResultKey("s.yaml", "c9", "small"),
        status="error",
        score=None,
        verdict=None,
        evaluator_results=(),
        error=Failure("config_error", "no question", stage="load"),
    )
    matrix = matrix_of([*rows_where({("plain", "small"): 1, ("hinted", "small"): 2}, cases=3), broken])
    assert matrix is not None
    assert matrix.prompts == PROMPTS


def test_the_matrix_is_in_the_order_of_the_plan() -> None:
    summary = Summary(has_shared_cases=True, order=PlanOrder(("small", "large"), ("plain", "hinted")))
    for prompt, target in (("hinted", "large"), ("plain", "large"), ("hinted", "small"), ("plain", "small")):
        summary.add(row("a", prompt=prompt, target=target, score=1))
    matrix = summary.matrix()
    assert matrix is not None
    assert (matrix.prompts, matrix.targets) == (PROMPTS, TARGETS)
    assert [each.target for each in summary.targets()] == ["small", "large"]


def with_cost(each: CaseResult, usd: float | None) -> CaseResult:
    return replace(each, usage_by=UsageBy(Spent.of(Usage(input=10), usd)))


def test_the_cost_of_a_cell_is_the_mean_over_its_answers() -> None:
    usd = {("plain", "small"): (0.01, 0.03), ("plain", "large"): (0.1, None)}
    rows = [
        with_cost(row(f"c{number}", prompt=prompt, target=target, score=1.0), each)
        for (prompt, target), costs in usd.items()
        for number, each in enumerate(costs)
    ]
    matrix = matrix_of(rows)
    assert matrix is not None
    assert [each.mean_cost_usd for each in matrix.cells] == [pytest.approx(0.02), None]


def test_a_cell_without_an_answer_has_no_cost() -> None:
    failure = Failure("server_error", "HTTP 503")
    failed = [
        replace(
            row("c1", prompt="plain", target=target, score=0.0),
            status="error", score=None, verdict=None, error=failure, usage_by=None,
        )
        for target in TARGETS
    ]  # fmt: skip
    matrix = matrix_of(failed)
    assert matrix is not None
    assert [each.mean_cost_usd for each in matrix.cells] == [None, None]
