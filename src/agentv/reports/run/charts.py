"""The charts of a run: cost against score of prompts and targets, and the latencies of targets."""

from collections.abc import Iterator

from agentv.reports.document.blocks import Axis, Box, Boxes, Scatter, ScatterPoint
from agentv.reports.run.figures import has_tables
from agentv.reports.run.row_text import cell_text
from agentv.types.results import RunReport
from agentv.types.summaries import Interval, TargetSummary

_MIN_POINTS = 2
_COST = Axis("cost of an answer", "usd")
_SCORE = Axis("mean score", "score")
_LATENCY = Axis("latency", "s")


def run_charts(report: RunReport) -> Iterator[Scatter | Boxes]:
    """Yield the charts of a run that is large enough for tables, as far as their numbers are known."""
    if not has_tables(report):
        return
    points = tuple(_points(report))
    if len(points) >= _MIN_POINTS:
        yield Scatter("cost and score", "prompts and targets", _COST, _SCORE, points)
    boxes = tuple(box for each in report.targets if (box := _box(each)) is not None)
    if boxes:
        yield Boxes("latency", "target", _LATENCY, boxes)


def _points(report: RunReport) -> Iterator[ScatterPoint]:
    matrix = report.matrix
    for cell in () if matrix is None else matrix.cells:
        if cell.mean_cost_usd is not None and cell.mean_score is not None:
            name = cell_text(cell.target, cell.prompt)
            yield ScatterPoint(name, cell.mean_cost_usd, cell.mean_score, _bounds(cell.mean_interval))


def _box(target: TargetSummary) -> Box | None:
    """Return the latencies of a target; None without any."""
    p5, p25, median = target.latency_p5_s, target.latency_p25_s, target.latency_median_s
    p75, p95 = target.latency_p75_s, target.latency_p95_s
    if p5 is None or p25 is None or median is None or p75 is None or p95 is None:
        return None
    return Box(target.target, (p5, p25, median, p75, p95), _bounds(target.latency_median_interval))


def _bounds(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)
