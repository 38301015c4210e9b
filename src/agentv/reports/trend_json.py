"""Trends as JSON."""

from collections.abc import Sequence

from agentv.reports.report_json import interval_to_json
from agentv.scoring.trend import SeriesChange, TrendPoint, TrendSeries
from agentv.types.json_value import JsonObject

TREND_SCHEMA = "agentv-trend-1"


def trend_to_json(series: Sequence[TrendSeries], metric: str) -> JsonObject:
    """Return all series of a metric, with every point."""
    return {"schema": TREND_SCHEMA, "metric": metric, "series": [_series_to_json(each) for each in series]}


def _series_to_json(series: TrendSeries) -> JsonObject:
    return {
        "suite": series.suite,
        "target": series.target,
        "points": [_point_to_json(point) for point in series.points],
        "changes": [_change_to_json(series, change) for change in series.changes],
    }


def _point_to_json(point: TrendPoint) -> JsonObject:
    run, found = point.run, point.measured
    return {
        "run_id": run.run_id,
        "name": run.name,
        "created_at": run.created_at.isoformat(),
        "state": run.state,
        "commit": run.commit,
        "dirty": run.is_dirty,
        "tags": list(run.tags),
        "shard": run.shard,
        "selection": run.selection or None,
        "parents": list(run.parents),
        "counts": dict(point.counts),
        "value": None if found is None else found.value,
        "judged": None if found is None else found.judged,
        "interval": None if found is None else interval_to_json(found.interval),
        "difference": point.difference,
        "gap": point.gap,
        "suite_edited": point.is_suite_changed,
        "runs": point.runs,
    }


def _change_to_json(series: TrendSeries, change: SeriesChange) -> JsonObject:
    return {
        "run_id": series.points[change.at].run.run_id,
        "before": change.before,
        "after": change.after,
        "p": change.p,
    }
