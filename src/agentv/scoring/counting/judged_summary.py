"""Summary of judged lines for gates and reports: one pass, in constant memory for any length of stream."""

import heapq
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import count

from msgspec import Struct, field

from agentv.scoring.counting.tallies import Tally, pooled, pooled_interval
from agentv.scoring.results.aggregation import verdict_of
from agentv.types.criteria.aggregated_result import AggregatedEvaluationResult
from agentv.types.criteria.judged_lines import CriterionSummary, JudgedLine
from agentv.types.evaluation import EvaluationResult
from agentv.types.results import RowState
from agentv.types.summaries import Interval
from agentv.types.usage import Usage

_WIDTH = math.log(1.02)
_LEAST = 1e-9


class Quantiles:
    """Counts of positive values in buckets 2 % wide, so that percentiles are accurate to 1 %."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """Count one value; one below 1e-9 counts as 1e-9."""
        self._buckets[math.floor(math.log(max(value, _LEAST)) / _WIDTH)] += 1

    def at(self, share: float) -> float | None:
        """Return the value below which `share` (0..1) of the values lie; None without values."""
        wanted = share * self._buckets.total()
        below = 0
        for bucket, values in sorted(self._buckets.items()):
            below += values
            if below >= wanted:
                return math.exp((bucket + 0.5) * _WIDTH)
        return None


SHOWN = 5
MAX_CRITERIA = 200
OTHERS = "(others)"
"""The name for all criteria after the first 200: in a stream, each line may bring new criteria."""


class JudgedSummary(Struct):
    """Adds up judged lines. `worst` and `errors` hold a few of them; `named` criteria always get their own tally."""

    named: frozenset[str] = frozenset()
    all: Tally = field(default_factory=Tally)
    errors: list[JudgedLine] = field(default_factory=list)
    usage: Usage | None = None
    cost_usd: float | None = 0.0
    unverified: int = 0
    judge_failures: tuple[int, int] = (0, 0)
    durations_s: Quantiles = field(default_factory=Quantiles)
    _criteria: dict[str, Tally] = field(default_factory=dict)
    _worst: list[tuple[float, int, JudgedLine]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)

    def add(self, line: JudgedLine) -> None:
        """Count one line."""
        state, judged = line.state, line.judged
        self.all.add(state, None if judged is None else judged.overall_score)
        if state == "error" and len(self.errors) < SHOWN:
            self.errors.append(line)
        if judged is None:
            return
        if state in ("borderline", "fail") and judged.overall_score is not None:
            entry = (-judged.overall_score, -next(self._order), line)
            heapq.heappush(self._worst, entry) if len(self._worst) < SHOWN else heapq.heappushpop(self._worst, entry)
        self.unverified += judged.unverified > 0
        failed = state == "error" and any(error.kind == "judge_error" for error in judged.run_errors)
        failures, called = self.judge_failures
        self.judge_failures = failures + failed, called + (failed or judged.judge_usage is not None)
        self._add_criteria(judged.results)
        self.durations_s.add(judged.duration_ms / 1000)
        self._add_cost(judged)

    def _add_criteria(self, results: Iterable[EvaluationResult]) -> None:
        """Count a line's results; a result on a scale that cannot be averaged only adds its criterion's name."""
        by_name: dict[str, list[tuple[RowState, float | None]]] = {}
        for result in results:
            rows = by_name.setdefault(result.criterion_name, [])
            if result.error is not None:
                rows.append(("error", None))
            elif result.value is not None:
                rows.append((verdict_of(result.value), result.value))
        for name, rows in by_name.items():
            tally = self._criterion(name)
            if len(rows) == 1:
                tally.add(*rows[0])
            else:
                tally.add_whole(rows)

    def _criterion(self, name: str) -> Tally:
        tally = self._criteria.get(name)
        if tally is None:
            is_own = len(self._criteria) < MAX_CRITERIA or name in self.named
            tally = self._criteria.setdefault(name if is_own else OTHERS, Tally())
        return tally

    def _add_cost(self, judged: AggregatedEvaluationResult) -> None:
        if judged.judge_usage is not None:
            self.usage = judged.judge_usage if self.usage is None else self.usage + judged.judge_usage
            if judged.judge_cost_usd is None:
                self.cost_usd = None
        if self.cost_usd is not None:
            self.cost_usd += judged.judge_cost_usd or 0.0

    @property
    def worst(self) -> tuple[JudgedLine, ...]:
        """The lines with the lowest scores among those that did not pass, the lowest first."""
        return tuple(line for _, _, line in sorted(self._worst, key=lambda entry: entry[:2], reverse=True))

    def criteria(self) -> tuple[CriterionSummary, ...]:
        """Return one summary per criterion, in order of first appearance."""
        return tuple(
            CriterionSummary(
                name=name,
                judged=tally.judged,
                mean=tally.mean,
                pass_rate=tally.pass_rate,
                errors=tally.counts["error"],
                mean_interval=tally.mean_interval,
                pass_rate_interval=tally.pass_rate_interval,
            )
            for name, tally in self._criteria.items()
        )

    def of_suite(self, suite: str) -> "JudgedSummary":  # noqa: ARG002 - a stream has no suites
        """Return the whole summary: a stream has no suites."""
        return self

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a gate's metric (scoring.gates), None when there is nothing to measure."""
        match name:
            case "errors":
                return float(self.all.counts["error"])
            case "cost_usd":
                return self.cost_usd
            case "p50" | "p95" | "p99":
                return self._duration(float(name.removeprefix("p")) / 100, in_ms=argument == "duration_ms")
            case _:
                return pooled(self._tallies(argument), field or name)

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval of a mean or a pass rate, with each line as a case; None with fewer than two."""
        return pooled_interval(self._tallies(argument), field or name)

    def names(self, kind: str) -> Collection[str]:  # noqa: ARG002 - criteria alone have names here
        """Return the criteria that were judged."""
        return self._criteria.keys()

    def left_out(self, kind: str, name: str) -> int:  # noqa: ARG002 - criteria alone have names here
        """Return the number of a criterion's results with an error."""
        return sum(tally.counts["error"] for tally in self._tallies(name))

    def _tallies(self, criterion: str | None) -> Sequence[Tally]:
        """Return the tally of a criterion, or of all lines when none is named."""
        if criterion is None:
            return [self.all]
        return [self._criteria[criterion]] if criterion in self._criteria else []

    def _duration(self, share: float, *, in_ms: bool) -> float | None:
        seconds = self.durations_s.at(share)
        return seconds * 1000 if in_ms and seconds is not None else seconds
