"""How a run differs from the one that it is held against."""

from collections.abc import Mapping
from typing import cast, get_args

from msgspec import Struct, field

from agentv.types.intervals import LEVEL, Interval, IntervalMethod
from agentv.types.json_value import JsonValue


class BaselineSummary(Struct, frozen=True):
    """A run beside its baseline, over the `cases` that were judged in both.

    `difference` is that of the mean scores, this run minus the baseline, None where no case is in both; `evaluators`
    holds the same for each evaluator by name. `finding` says better, worse, or no evidence of a difference. `lost` is
    how many of the baseline's cases this run did not have.
    """

    baseline: str
    cases: int
    finding: str
    difference: float | None = None
    interval: Interval | None = None
    improved: int = 0
    regressed: int = 0
    evaluators: Mapping[str, float] = field(default_factory=dict)
    lost: int = 0


def baseline_to_json(summary: BaselineSummary) -> dict[str, JsonValue]:
    """Return what reports in JSON, and the run's own records, say of a baseline."""
    found = summary.interval
    return {
        "baseline": summary.baseline,
        "cases": summary.cases,
        "finding": summary.finding,
        "difference": summary.difference,
        "interval": None
        if found is None
        else {"low": found.low, "high": found.high, "level": found.level, "method": found.method},
        "improved": summary.improved,
        "regressed": summary.regressed,
        "evaluators": dict(summary.evaluators),
        "lost": summary.lost,
    }


def baseline_from_json(told: JsonValue) -> BaselineSummary | None:
    """Return what was kept of a baseline, None when nothing was; what is missing counts as not known."""
    if not isinstance(told, Mapping):
        return None
    cases, improved, regressed, lost = (_integer(told.get(key)) for key in ("cases", "improved", "regressed", "lost"))
    evaluators = told.get("evaluators")
    named = evaluators if isinstance(evaluators, Mapping) else {}
    return BaselineSummary(
        baseline=str(told.get("baseline", "")),
        cases=cases,
        finding=str(told.get("finding", "")),
        difference=_number(told.get("difference")),
        interval=_interval(told.get("interval")),
        improved=improved,
        regressed=regressed,
        evaluators={name: number for name, value in named.items() if (number := _number(value)) is not None},
        lost=lost,
    )


def _interval(told: JsonValue) -> Interval | None:
    if not isinstance(told, Mapping):
        return None
    low, high, method = _number(told.get("low")), _number(told.get("high")), told.get("method")
    if low is None or high is None or method not in get_args(IntervalMethod):
        return None
    return Interval(low, high, cast(IntervalMethod, method), _number(told.get("level")) or LEVEL)


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _integer(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
