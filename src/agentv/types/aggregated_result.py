"""The result of the criteria API: every criterion's result, and the overall score."""

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any, Protocol, Self, cast, runtime_checkable

from msgspec import Struct, field, structs

from agentv.types.evaluation import VERDICTS, EvaluationResult, Verdict, verdict_of
from agentv.types.evaluation_input import (
    EvaluationInput,
    milliseconds_of,
    moment_of,
    without_impossible_facts,
)
from agentv.types.failures import FailureKind
from agentv.types.fields import Fields, Problems
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.scales import EvaluationCriteria
from agentv.types.usage import Usage, known_cost, known_usage
from agentv.types.views import Line, View, reason_of, score_text, view_html, view_of, view_text


class EvaluationRunError(Struct, frozen=True):
    """An error while judging or storing."""

    evaluator: str
    """The name of the evaluator, or several names with commas; for a `store_error`, the name of the store."""
    message: str
    kind: FailureKind = "evaluator_error"
    criterion: str | None = None
    """None if the error is not about a single criterion."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the error as JSON."""
        known = {"evaluator": self.evaluator, "criterion": self.criterion, "kind": self.kind, "message": self.message}
        return {key: value for key, value in known.items() if value is not None}


class AggregatedEvaluationResult(Struct, frozen=True):
    """The judgement of one existing answer.

    A result is not in the mean if its evaluator was skipped or has weight 0, or if its scale is a custom one. A result
    that could not be judged has an error in `run_errors`; it is in the mean, as 0, only with `error_policy="zero"`.
    """

    overall_score: float | None
    """0..1, the criteria's weighted mean; None if no result has a value, 0 if a `required` evaluator with `unmet: zero`
    is unmet.
    """
    results: tuple[EvaluationResult, ...]
    scored: int
    """The number of results in the mean."""
    expected: int
    """The number of results, plus one for each evaluator that failed and has no result with its error."""
    timestamp: datetime
    input_snapshot: EvaluationInput
    """A deep copy of the input."""
    evaluation_config_snapshot: JsonObject = field(default_factory=dict)
    """Its `config` is the config with secrets redacted, which `EvaluationRunConfig.from_dict` reads."""
    agent_id: str | None = None
    session_id: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    run_errors: tuple[EvaluationRunError, ...] = ()
    judge_usage: Usage | None = None
    """That of all judges."""
    judge_cost_usd: float | None = None
    """That of all judges; None if it is not known, or if no judge was called."""
    warnings: tuple[str, ...] = ()
    duration_ms: float = 0.0
    """The wall time of the judging."""
    verdict: Verdict | None = None
    """The quality band of the score, or `fail` if a `required` evaluator is unmet; None if there is no score, or if a
    result with weight or a required one could not be judged.
    """
    unverified: int = 0
    """The number of evaluators with a verdict that may come from the judged text instead of the judge, because it does
    not repeat the nonce, the random text that each call gives its judge.
    """
    clamped: int = 0
    """The number of evaluators with a number that was a little outside 0..1."""

    @property
    def passed(self) -> bool | None:
        """True if the verdict is `pass` and judging had no error; None if there is no verdict and `scored` is 0."""
        if self.verdict is None and self.scored == 0:
            return None
        return self.verdict == "pass" and not self._judging_errors()

    @property
    def failures(self) -> tuple[EvaluationResult, ...]:
        """The results that have an error or did not pass, and one made from each judging error not among them."""
        failed = [each for each in self.results if each.error is not None or each.passed is False]
        reported = {each.criterion_name for each in failed if each.error is not None}
        named = [(error.criterion or error.evaluator, error.message) for error in self._judging_errors()]
        broken = [EvaluationResult(name, reasoning=text, error=text) for name, text in named if name not in reported]
        return (*failed, *broken)

    def _judging_errors(self) -> tuple[EvaluationRunError, ...]:
        return tuple(error for error in self.run_errors if error.kind != "store_error")

    def _view(self) -> View:
        state = self.verdict or ("error" if self._judging_errors() else "not judged")
        heading = f"{state.upper()} {score_text(self.overall_score)} ({self.scored} of {self.expected} scored)"
        failures = self.failures
        shown = [each for each in self.results if each not in failures]
        return view_of(state, heading, map(_line_of, (*failures, *shown)))

    def __str__(self) -> str:
        """Return the verdict, and the first results with their reasons; failures come first."""
        return view_text(self._view())

    def _repr_html_(self) -> str:
        """Return the text of `str` as an HTML table, for notebooks."""
        return view_html(self._view())

    def result(self, criterion: str) -> EvaluationResult:
        """Return the first result of a criterion. Raises KeyError when it has none."""
        found = next((result for result in self.results if result.criterion_name == criterion), None)
        if found is None:
            raise KeyError(criterion)
        return found

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the judgement as JSON with camelCase keys; messages, usages and the config have snake_case keys."""
        known: dict[str, JsonValue] = {
            "overallScore": self.overall_score,
            "verdict": self.verdict,
            "results": [result.to_dict() for result in self.results],
            "scored": self.scored,
            "expected": self.expected,
            "timestamp": milliseconds_of(self.timestamp),
            "agentId": self.agent_id,
            "sessionId": self.session_id,
            "inputSnapshot": self.input_snapshot.to_dict(),
            "evaluationConfigSnapshot": self.evaluation_config_snapshot,
            "metadata": self.metadata or None,
            "runErrors": [error.to_dict() for error in self.run_errors] or None,
            "judgeUsage": None if self.judge_usage is None else structs.asdict(self.judge_usage),
            "judgeCostUsd": self.judge_cost_usd,
            "warnings": list(self.warnings) or None,
            "unverified": self.unverified or None,
            "clamped": self.clamped or None,
            "durationMs": round(self.duration_ms, 3),
        }
        return {key: value for key, value in known.items() if value is not None}

    @classmethod
    def from_dict(cls, raw: object) -> Self:
        """Read a judgement that `to_dict` wrote; keys may be in snake_case, too, and unknown keys are ignored.

        Raises EvalFileError with every problem.
        """
        problems = Problems(cls.__name__, ignores_unknown=True)
        fields = Fields(raw, problems)
        snapshot = fields.value("input_snapshot")
        timestamp = fields.read("timestamp", moment_of)
        if timestamp is None and not problems.found:  # an invalid timestamp is a problem already
            problems.add("$", "`timestamp` is missing")
        known: dict[str, Any] = {
            "overall_score": fields.number("overall_score"),
            "results": tuple(EvaluationResult.read(item, problems, at) for at, item in fields.items("results")),
            "scored": fields.count("scored"),
            "expected": fields.count("expected"),
            "input_snapshot": EvaluationInput.read(
                {} if snapshot is None else without_impossible_facts(snapshot), problems, "$.input_snapshot"
            ),
            "evaluation_config_snapshot": fields.mapping("evaluation_config_snapshot") or {},
            "agent_id": fields.text("agent_id"),
            "session_id": fields.text("session_id"),
            "metadata": fields.mapping("metadata") or {},
            "run_errors": tuple(_read_error(item, problems, at) for at, item in fields.items("run_errors")),
            "judge_usage": _usage(fields.mapping("judge_usage")),
            "judge_cost_usd": known_cost(fields.number("judge_cost_usd")),
            "warnings": tuple(str(item) for _, item in fields.items("warnings")),
            "unverified": fields.count("unverified"),
            "clamped": fields.count("clamped"),
            "duration_ms": fields.number("duration_ms") or 0.0,
            "verdict": next((verdict for verdict in VERDICTS if verdict == fields.value("verdict")), None),
        }
        problems.raise_any()
        return cls(timestamp=cast(datetime, timestamp), **known)


def _line_of(result: EvaluationResult) -> Line:
    judged_state = "-" if result.value is None else verdict_of(result.value)
    state = judged_state if result.error is None else "error"
    own_scale = "" if result.score is None or result.score == result.value else f"{result.score} on {result.scale}"
    return Line(
        state, result.criterion_name, result.value, reason_of(result.reasoning, (), result.error), note=own_scale
    )


def _usage(raw: JsonObject | None) -> Usage | None:
    if raw is None:
        return None
    counts = ((name, raw.get(name)) for name in Usage.__struct_fields__)
    return known_usage(Usage(**{name: count for name, count in counts if isinstance(count, int)}))


def _read_error(raw: JsonValue, problems: Problems, at: str) -> EvaluationRunError:
    fields = Fields(raw, problems, at)
    kind = cast(FailureKind, fields.text("kind") or "evaluator_error")
    return EvaluationRunError(
        fields.required_text("evaluator"), fields.required_text("message"), kind, fields.text("criterion")
    )


@runtime_checkable
class CriteriaEvaluator(Protocol):
    """An evaluator of the criteria API; accepted wherever an evaluator is.

    `evaluate` may be a plain function or a coroutine function.
    """

    @property
    def type(self) -> str:
        """The kind of evaluator."""

    def evaluate(
        self, given: EvaluationInput, criteria: Sequence[EvaluationCriteria], /
    ) -> Sequence[EvaluationResult] | Awaitable[Sequence[EvaluationResult]]:
        """Judge the answer in `given`, and return one result for each criterion that this evaluator judges."""


@runtime_checkable
class EvaluationStorageProvider(Protocol):
    """Stores judgements of the criteria API. `save_result` may be a plain function or a coroutine function."""

    def save_result(self, result: AggregatedEvaluationResult) -> Awaitable[None] | None:
        """Store one judgement. Any exception that it raises becomes a run error of kind `store_error`."""
