"""Charts of a run: they have the numbers of the report, and stand in documents that are not short."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.reports.hostile_run import report_of, with_matrix
from tests.support.stored import make_result

from agentv.reports.document.blocks import Block, Boxes, Histogram, Scatter, Section
from agentv.reports.run.charts import run_charts
from agentv.reports.run.document import run_document
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.results import RunReport
from agentv.types.usage import Usage

USD = {("short", "small"): 0.001, ("short", "large"): 0.01, ("long", "small"): 0.002, ("long", "large"): 0.02}


def rows(cases: int = 20, *, usd: dict[tuple[str, str], float] | None = None) -> Iterator[CaseResult]:
    """Yield the results of all prompts and targets; the duration of case n is n + 1 seconds."""
    for prompt, target in USD:
        for number in range(cases):
            cost = (USD if usd is None else usd).get((prompt, target))
            yield make_result(
                slot=ResultKey("s.yaml", f"c{number}", target, prompt=prompt),
                prompt=prompt,
                score=float(number % 4 > 0),
                usage_by=UsageBy(Spent.of(Usage(input=10), cost)),
                duration_ms=1000.0 * (number + 1),
            )


def report(cases: int = 20, *, usd: dict[tuple[str, str], float] | None = None) -> RunReport:
    return with_matrix(report_of(list(rows(cases, usd=usd))))


def charts_of(made: RunReport, kind: type[Block]) -> list[Block]:
    return [each for each in run_charts(made) if isinstance(each, kind)]


def test_each_prompt_and_target_is_a_point_at_its_mean_cost_and_score() -> None:
    made = report()
    (scatter,) = charts_of(made, Scatter)
    assert isinstance(scatter, Scatter)
    assert made.matrix is not None
    cells = {f"{cell.target} · {cell.prompt}": cell for cell in made.matrix.cells}
    assert {each.name for each in scatter.points} == set(cells)
    for point in scatter.points:
        cell = cells[point.name]
        assert point.x == pytest.approx(USD[cell.prompt or "", cell.target])
        assert cell.mean_interval is not None
        assert (point.y, point.y_bounds) == (cell.mean_score, (cell.mean_interval.low, cell.mean_interval.high))


def test_a_cell_with_an_unknown_cost_is_no_point() -> None:
    (scatter,) = charts_of(report(usd=dict(list(USD.items())[:3])), Scatter)
    assert isinstance(scatter, Scatter)
    assert len(scatter.points) == 3
    assert charts_of(report(usd={}), Scatter) == []


def test_the_latencies_of_a_target_are_drawn_from_its_percentiles() -> None:
    made = report()
    (boxes,) = charts_of(made, Boxes)
    assert isinstance(boxes, Boxes)
    assert [each.name for each in boxes.boxes] == ["small", "large"]
    for box, target in zip(boxes.boxes, made.targets, strict=True):
        assert box.quantiles == pytest.approx((1.95, 5.75, 10.5, 15.25, 19.05))
        assert (box.quantiles[2], box.quantiles[4]) == (target.latency_median_s, target.latency_p95_s)


def test_a_small_run_has_no_charts() -> None:
    assert list(run_charts(report(4))) == []


def test_charts_stand_in_the_whole_document_and_not_in_the_short_one() -> None:
    made = replace(report(), folder=None)
    blocks = run_document(made, None, is_short=False).blocks
    (section,) = [each for each in blocks if isinstance(each, Section) and each.title == "Scores, cost and latency"]
    assert [type(each) for each in section.blocks] == [Histogram, Scatter, Boxes]
    short = repr(run_document(made, None, is_short=True))
    assert "Histogram(" in short  # folded
    assert "Scatter(" not in short
    assert "Boxes(" not in short
