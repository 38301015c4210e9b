"""The expected usage of a run, estimated from rows of earlier runs."""

import math
from collections.abc import Iterable

from msgspec import Struct, field

from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import CaseResult

_MS = 1000


class PastUsage(Struct):
    """The measured usage of rows of one suite and target: sums over `rows`, in tokens, dollars and worker seconds.

    Tokens and cost are None as soon as they are unknown for one row.
    """

    rows: int = 0
    judge_calls: int = 0
    tokens: int | None = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    runs: dict[str, None] = field(default_factory=dict)
    is_changed: bool = False

    def add(self, row: CaseResult) -> None:
        """Add one answered row."""
        self.rows += 1
        self.runs[row.run_id] = None
        self.judge_calls += sum(map(_judge_calls, row.evaluator_results))
        usages = [usage for usage in (row.target_usage, row.judge_usage) if usage is not None]
        used = sum(usage.total or usage.input + usage.output for usage in usages)
        self.tokens = None if self.tokens is None or row.target_usage is None else self.tokens + used
        known = row.cost_usd is not None
        self.cost_usd = self.cost_usd + (row.cost_usd or 0.0) if known and self.cost_usd is not None else None
        judging = math.fsum(result.duration_ms or 0.0 for result in row.evaluator_results)
        self.seconds += ((row.duration_ms or 0.0) + judging) / _MS


def _judge_calls(result: EvaluatorResult) -> int:
    own = sum(call.role != "embedding" for call in result.judge_calls)
    return own + sum(map(_judge_calls, result.evaluator_results))


class Part(Struct, frozen=True):
    """The rows of one suite and target. `rows` is None for a stream, `measured` is None if no stored run has them."""

    suite: str
    target: str
    workers: int
    rows: int | None
    measured: PastUsage | None

    def scaled(self, amount: float | None) -> float | None:
        """Return an amount of the measured rows scaled to these rows; None when it is not known."""
        if self.rows is None or self.measured is None or amount is None:
            return None
        return amount / self.measured.rows * self.rows


class Forecast(Struct, frozen=True):
    """The expected usage of a run. Every sum is None as soon as one of its parts is unknown."""

    parts: tuple[Part, ...]

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
        """Dollars for targets and judges, without a cache."""
        return _sum(part.scaled(part.measured.cost_usd if part.measured else None) for part in self.parts)

    @property
    def seconds(self) -> float | None:
        """The expected duration: targets work concurrently, each with its number of workers."""
        by_target: dict[str, list[float | None]] = {}
        for part in self.parts:
            taken = part.scaled(part.measured.seconds if part.measured else None)
            by_target.setdefault(part.target, []).append(None if taken is None else taken / part.workers)
        sums = [_sum(taken) for taken in by_target.values()]
        return None if None in sums else max((taken for taken in sums if taken is not None), default=0.0)

    @property
    def runs(self) -> tuple[str, ...]:
        """The stored runs that the forecast is estimated from, oldest first."""
        return tuple(sorted({run for part in self.parts if part.measured for run in part.measured.runs}))

    @property
    def measured_rows(self) -> int:
        """The number of rows of those runs."""
        return sum(part.measured.rows for part in self.parts if part.measured)

    @property
    def unknown(self) -> tuple[Part, ...]:
        """The parts that no stored run has rows of."""
        return tuple(part for part in self.parts if part.measured is None)

    @property
    def changed(self) -> tuple[str, ...]:
        """Targets whose settings differed in one of those runs."""
        return tuple(dict.fromkeys(part.target for part in self.parts if part.measured and part.measured.is_changed))


def _sum(amounts: Iterable[float | None]) -> float | None:
    found = list(amounts)
    return None if None in found else math.fsum(amount for amount in found if amount is not None)
