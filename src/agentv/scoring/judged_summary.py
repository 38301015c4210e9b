"""From judged lines to what gates and reports ask: one pass, constant memory however long the stream is."""

import heapq
from dataclasses import dataclass, field
from itertools import count

from agentv.scoring.aggregation import verdict_of
from agentv.scoring.quantiles import Quantiles
from agentv.scoring.tallies import Tally
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.evaluation import EvaluationResult
from agentv.types.judged_lines import CriterionSummary, JudgedLine
from agentv.types.usage import Usage

SHOWN = 5
CRITERIA_KEPT = 200
OTHERS = "(others)"
"""Stands for all criteria after the first 200: in a stream each line may bring criteria of its own."""


@dataclass(slots=True)
class _Criterion:
    judged: int = 0
    passed: int = 0
    score_sum: float = 0.0
    errors: int = 0

    def add(self, result: EvaluationResult) -> None:
        if result.error is not None:
            self.errors += 1
        elif result.value is not None:
            self.judged += 1
            self.passed += verdict_of(result.value) == "pass"
            self.score_sum += result.value

    def measure(self, field: str | None) -> float | None:
        total = {"mean": self.score_sum, "pass_rate": self.passed}[field or "mean"]
        return total / self.judged if self.judged else None


@dataclass(slots=True)
class JudgedSummary:
    """Adds up lines as they are judged. `worst` and `errors` hold a few of them."""

    all: Tally = field(default_factory=Tally)
    errors: list[JudgedLine] = field(default_factory=list)
    usage: Usage | None = None
    cost_usd: float | None = 0.0
    durations_s: Quantiles = field(default_factory=Quantiles)
    _criteria: dict[str, _Criterion] = field(default_factory=dict)
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
        for result in judged.results:
            self._criterion(result.criterion_name).add(result)
        self.durations_s.add(judged.duration_ms / 1000)
        self._spend(judged)

    def _criterion(self, name: str) -> _Criterion:
        found = self._criteria.get(name)
        if found is None:
            name = name if len(self._criteria) < CRITERIA_KEPT else OTHERS
            found = self._criteria.setdefault(name, _Criterion())
        return found

    def _spend(self, judged: AggregatedEvaluationResult) -> None:
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
        """Return one summary per criterion, in the order in which they came."""
        return tuple(
            CriterionSummary(name, tally.judged, tally.measure("mean"), tally.measure("pass_rate"), tally.errors)
            for name, tally in self._criteria.items()
        )

    def of_suite(self, suite: str) -> "JudgedSummary":  # noqa: ARG002 - a stream has no suites
        """Return the whole: a stream has no suites."""
        return self

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a gate's metric (scoring.gates), None when there is nothing to measure."""
        match name:
            case "mean":
                return self.all.mean
            case "pass_rate":
                return self.all.pass_rate
            case "error_rate":
                return self.all.error_rate
            case "errors":
                return float(self.all.counts["error"])
            case "cost_usd":
                return self.cost_usd
            case "criterion":
                found = self._criteria.get(argument or "")
                return None if found is None else found.measure(field)
            case _:
                return self._duration(float(name.removeprefix("p")) / 100, in_ms=argument == "duration_ms")

    def _duration(self, share: float, *, in_ms: bool) -> float | None:
        seconds = self.durations_s.at(share)
        return seconds * 1000 if in_ms and seconds is not None else seconds
