"""The records of `agentv score`: one line of a stream with its judgement, and the report on all lines."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from agentv.types.criteria.aggregated_result import AggregatedEvaluationResult
from agentv.types.criteria.evaluation_input import milliseconds_of
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.results import RowState, RunState, RunVerdict
from agentv.types.summaries import Interval
from agentv.types.usage import Usage


class JudgedLine(Struct, frozen=True):
    """One line with its judgement, or with the failure that prevented one. Lines count from 1."""

    file: str
    number: int
    timestamp: datetime
    judged: AggregatedEvaluationResult | None = None
    failure: Failure | None = None

    @property
    def state(self) -> RowState:
        """The verdict; `error` when there is none."""
        return "error" if self.judged is None else self.judged.verdict or "error"

    @property
    def place(self) -> str:
        """The line's position, as `file:line`."""
        return f"{self.file}:{self.number}"

    @property
    def reason(self) -> str:
        """Why the line did not pass: the failure, else what could not be judged, else the criteria's reasoning."""
        if self.judged is None:
            return "" if self.failure is None else self.failure.message
        errors = [f"{each.criterion or each.evaluator}: {each.message}" for each in self.judged.run_errors]
        if errors and self.state == "error":
            return " | ".join(errors)
        missed = [each for each in self.judged.results if each.value is not None and each.value < 1]
        return " | ".join(f"{each.criterion_name}: {each.reasoning or f'{each.value:g}'}" for each in missed)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the line as JSON: its judgement and `source`, or without a judgement, `error`."""
        source: dict[str, JsonValue] = {"file": self.file, "line": self.number}
        if self.judged is not None:
            return {**self.judged.to_dict(), "source": source}
        error = None if self.failure is None else {"kind": self.failure.kind, "message": self.failure.message}
        return {"error": error, "timestamp": milliseconds_of(self.timestamp), "source": source}


class CriterionSummary(Struct, frozen=True):
    """One criterion over all judgements: mean (0..1) and pass rate of its `judged` results, and those with an error."""

    name: str
    judged: int
    mean: float | None
    pass_rate: float | None
    errors: int
    mean_interval: Interval | None = None
    pass_rate_interval: Interval | None = None


class ScoreReport(Struct, frozen=True):
    """The report on a stream. `read` lines were read, `counts` holds the judged ones by state.

    `worst` are the lowest scores that did not pass, `errors` the first lines without a verdict. Durations are
    those of judging; costs are those of judges, None when a price is unknown. Intervals treat each line as a case.
    `unverified` lines have a judge's verdict without the nonce of its call.
    """

    state: RunState
    read: int
    counts: Mapping[str, int]
    mean: float | None
    criteria: tuple[CriterionSummary, ...]
    verdict: RunVerdict
    worst: tuple[JudgedLine, ...] = ()
    errors: tuple[JudgedLine, ...] = ()
    notes: tuple[str, ...] = ()
    judge_usage: Usage | None = None
    cost_usd: float | None = None
    median_s: float | None = None
    p95_s: float | None = None
    duration_s: float = 0.0
    mean_interval: Interval | None = None
    pass_rate_interval: Interval | None = None
    unverified: int = 0

    @property
    def judged(self) -> int:
        """The number of lines with a verdict: the denominator of every rate and mean."""
        return sum(self.counts.get(state, 0) for state in ("pass", "borderline", "fail"))

    @property
    def pass_rate(self) -> float | None:
        """Share of the judged lines whose verdict is pass."""
        return self.counts.get("pass", 0) / self.judged if self.judged else None
