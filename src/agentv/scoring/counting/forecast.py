"""The expected usage of a run, estimated from rows of earlier runs."""

import math
from collections.abc import Iterable

from msgspec import Struct, field

from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import CaseResult

_MS_PER_S = 1000


class PastUsage(Struct):
    """The measured usage of rows of one suite and target: sums over `rows`."""

    rows: int = 0
    judge_calls: int = 0
    tokens: int | None = 0
    """None if they are unknown for any row."""
    cost_usd: float | None = 0.0
    """None if it is unknown for any row."""
    seconds: float = 0.0
    """Worker seconds."""
    runs: dict[str, None] = field(default_factory=dict)
    """The ids of the rows' runs."""
    is_target_changed: bool = False
    """True if the target had other settings in one of the runs."""

    def add(self, row: CaseResult) -> None:
        """Add one answered row."""
        self.rows += 1
        self.runs[row.run_id] = None
        self.judge_calls += sum(map(_judge_calls, row.evaluator_results))
        usages = [usage for usage in (row.target_usage, row.judge_usage) if usage is not None]
        used = sum(usage.total or usage.input + usage.output for usage in usages)
        self.tokens = None if self.tokens is None or row.target_usage is None else self.tokens + used
        self.cost_usd = None if self.cost_usd is None or row.cost_usd is None else self.cost_usd + row.cost_usd
        judging = math.fsum(result.duration_ms or 0.0 for result in row.evaluator_results)
        self.seconds += ((row.duration_ms or 0.0) + judging) / _MS_PER_S


def _judge_calls(result: EvaluatorResult) -> int:
    own_calls = sum(call.role != "embedding" for call in result.judge_calls)
    return own_calls + sum(map(_judge_calls, result.evaluator_results))


class ForecastPart(Struct, frozen=True):
    """The planned rows of one suite and target, and their usage in earlier runs."""

    suite: str
    target: str
    workers: int
    """The number of concurrent calls of the target."""
    rows: int | None
    """None for a stream of unknown length."""
    measured: PastUsage | None
    """None without an earlier run."""
    reruns: int = 0
    """The maximum number of rows that may be called again to confirm regressions."""

    @property
    def reruns_cost_usd(self) -> float | None:
        """Dollars for all re-runs; None if the cost of a row is not known."""
        if not self.reruns:
            return 0.0
        if self.measured is None or self.measured.cost_usd is None:
            return None
        return self.measured.cost_usd / self.measured.rows * self.reruns

    def scaled(self, amount: float | None) -> float | None:
        """Return an amount of the measured rows, scaled to the planned rows; None if it is not known."""
        if self.rows is None or self.measured is None or amount is None:
            return None
        return amount / self.measured.rows * self.rows


class Forecast(Struct, frozen=True):
    """The expected usage of a run. A sum is None if any of its parts is unknown."""

    parts: tuple[ForecastPart, ...]

    @property
    def judge_calls(self) -> float | None:
        """Calls of judges."""
        return _sum(part.scaled(part.measured.judge_calls if part.measured else None) for part in self.parts)

    @property
    def tokens(self) -> float | None:
        """Tokens of targets and judges, in and out."""
        return _sum(part.scaled(part.measured.tokens if part.measured else None) for part in self.parts)

    @property
    def cost_usd(self) -> float | None:
        """Dollars for targets and judges, if no answer comes from a cache."""
        return _sum(part.scaled(part.measured.cost_usd if part.measured else None) for part in self.parts)

    @property
    def reruns_cost_usd(self) -> float | None:
        """The most dollars that re-runs may cost."""
        return _sum(part.reruns_cost_usd for part in self.parts)

    @property
    def seconds(self) -> float | None:
        """The expected duration: targets work concurrently, each with its number of workers."""
        by_target: dict[str, list[float | None]] = {}
        for part in self.parts:
            seconds = part.scaled(part.measured.seconds if part.measured else None)
            by_target.setdefault(part.target, []).append(None if seconds is None else seconds / part.workers)
        sums = [_sum(seconds) for seconds in by_target.values()]
        return None if None in sums else max((seconds for seconds in sums if seconds is not None), default=0.0)

    @property
    def runs(self) -> tuple[str, ...]:
        """The stored runs that the forecast is estimated from, oldest first."""
        return tuple(sorted({run for part in self.parts if part.measured for run in part.measured.runs}))

    @property
    def measured_rows(self) -> int:
        """The number of measured rows in `runs`."""
        return sum(part.measured.rows for part in self.parts if part.measured)

    @property
    def unknown(self) -> tuple[ForecastPart, ...]:
        """The parts without a measured row."""
        return tuple(part for part in self.parts if part.measured is None)

    @property
    def changed(self) -> tuple[str, ...]:
        """The targets that had other settings in any of `runs`."""
        return tuple(
            dict.fromkeys(part.target for part in self.parts if part.measured and part.measured.is_target_changed)
        )


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = list(amounts)
    return None if None in known else math.fsum(amount for amount in known if amount is not None)
