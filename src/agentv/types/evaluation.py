"""The contract of an evaluator: its context, its output, and the stored result."""

from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, Self, TypeAlias, get_args, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import force_setattr

from agentv.types.cases import EvalCase, EvaluatorConfig, Unmet
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.failures import Failure
from agentv.types.fields import Fields, Problems
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ChatMessage, Message, TraceEvent, TraceSummary
from agentv.types.messages_json import content_text
from agentv.types.provider import Provider
from agentv.types.scales import EvaluationCriteria, EvaluationScale
from agentv.types.stored import TOLERANCE, StoredDuration, StoredScore, always
from agentv.types.structs import CamelKeywords
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import StoredCost, Usage

Verdict: TypeAlias = Literal["pass", "borderline", "fail"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
EvaluatorStatus: TypeAlias = Literal["scored", "error", "skipped", "unverified"]
OwnScore: TypeAlias = int | float | bool | str
"""A score on a criterion's own scale."""

JudgeRole: TypeAlias = Literal["sample", "repair", "swap", "member", "embedding"]
"""Why a judge is called: for a verdict, to repair an unreadable reply, with swapped answers, as one of several judges,
or for vectors."""


class PromptInputs(Struct, frozen=True, gc=False):
    """A case's messages as they are sent to one target (docs/reference/eval-files.md)."""

    question: str
    """The prompt as text, which is also shown to judges."""
    guidelines: str = ""
    """The text of the guideline files, which are not part of `question`."""
    chat_prompt: tuple[ChatMessage, ...] | None = None
    """The messages of `question` for chat models; None unless `question` has role markers."""
    guideline_paths: tuple[str, ...] = ()
    file_paths: tuple[str, ...] = ()
    system_prompt: str = ""
    """The text of the system messages that open the prompt; `question` has it, too. "" if no other message follows."""
    after_system: "PromptInputs | None" = None
    """The prompt without `system_prompt`, for targets that take it apart; None without a system prompt."""


class EvaluationResult(Struct, frozen=True, omit_defaults=True, metaclass=CamelKeywords, gc=False):
    """The judgement of one criterion."""

    criterion_name: str
    score: OwnScore | None = None
    """The score on the criterion's own scale."""
    value: StoredScore | None = None
    """The score on 0..1; None if nothing was judged, if there is an error, or if the scale cannot be averaged."""
    scale: EvaluationScale = always("binary")
    reasoning: str | None = None
    evaluator_type: str = always("")
    error: str | None = None
    metadata: JsonObject | None = None

    @property
    def passed(self) -> bool | None:
        """True for a value in the band `pass`; None if the criterion was not judged, or cannot be placed on 0..1."""
        return None if self.error is not None or self.value is None else verdict_of(self.value) == "pass"

    @classmethod
    def from_dict(cls, raw: object) -> Self:
        """Read a result from JSON, keys in snake_case or camelCase. Raises EvalFileError with every problem."""
        problems = Problems(cls.__name__)
        result = cls.read(raw, problems, "$")
        problems.raise_any()
        return result

    @classmethod
    def read(cls, raw: object, problems: Problems, at: str) -> Self:
        """Read a result at a path inside another object, recording its problems."""
        fields = Fields(raw, problems, at)
        result = cls(
            criterion_name=fields.required_text("criterion_name", "criterion"),
            score=fields.read("score", _own_score),
            value=fields.number("value"),
            scale=fields.text("scale") or "binary",
            reasoning=fields.text("reasoning"),
            evaluator_type=fields.text("evaluator_type") or "",
            error=fields.text("error"),
            metadata=fields.mapping("metadata"),
        )
        fields.check_unknown_keys()
        return result

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the result as JSON with camelCase keys; fields without a value are left out."""
        known: dict[str, JsonValue] = {
            "criterionName": self.criterion_name,
            "score": self.score,
            "value": self.value,
            "scale": self.scale,
            "reasoning": self.reasoning,
            "evaluatorType": self.evaluator_type,
            "error": self.error,
            "metadata": self.metadata,
        }
        return {key: value for key, value in known.items() if value is not None}


def _own_score(value: JsonValue) -> float | bool | str:
    if isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"must be a number, true, false or a string, got {type(value).__name__}")


class JudgeCall(Struct, frozen=True, omit_defaults=True, gc=False):
    """One call of a judge model."""

    judge: str
    role: JudgeRole
    """With `embedding`, the call is an embedding request: `reply` is empty, and there is no score."""
    reply: str
    """The model's reply, unchanged."""
    score: float | None = None
    """None when the reply had none."""
    usage: Usage | None = None
    cost_usd: StoredCost | None = None
    duration_ms: float | None = None
    cached: bool = always(False)
    estimated: bool = False
    """True if a part of `usage` was estimated from texts."""


# A tuple, because `float | int` would make a new object for each score (bench/echo_cases.py).
_NUMBERS = (float, int)
PASS_SCORE = 0.8
BORDERLINE_SCORE = 0.6


def verdict_of(score: float) -> Verdict:
    """Return the quality band of a score: `pass` from 0.8, `borderline` from 0.6, else `fail`."""
    if score >= PASS_SCORE - TOLERANCE:
        return "pass"
    return "borderline" if score >= BORDERLINE_SCORE - TOLERANCE else "fail"


class EvaluationScore(Struct, frozen=True, metaclass=CamelKeywords, gc=False):
    """One evaluator's score of one answer (seed REQ-EVAL-005).

    >>> EvaluationScore(0.7).verdict
    'borderline'
    """

    score: float
    """0..1."""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    expected_aspect_count: int = 1
    """At least 1."""
    reasoning: str | None = None
    raw_aspects: tuple[str, ...] | None = None
    evaluator_raw_request: JsonObject | None = None
    """The request to a judge."""
    verdict: Verdict | None = None
    """By default the verdict that follows from the score."""
    status: EvaluatorStatus = "scored"
    error: Failure | None = None
    """If it is set, nothing was judged: the score is then 0.0 by definition, there is no verdict, and the row is
    excluded from every mean, unless the evaluator has weight 0 and is not required.
    """
    results: tuple[EvaluationResult, ...] = ()
    judge_calls: tuple[JudgeCall, ...] = ()
    members: "tuple[EvaluatorResult, ...]" = ()
    must_fail: bool = False
    """True if a required rubric item is unmet: the verdict is then `fail` at any score."""
    clamped: bool = False
    """True if the judge's number was outside 0..1 and `score` is the nearest bound, also beside an `error` about a
    number on another scale.
    """

    def __post_init__(self) -> None:
        """Set the verdict that follows from the score, if none is given."""
        score: Any = self.score
        verdict: Any = self.verdict
        # By its type: `isinstance` also asks an object of a plug-in, which may raise anything.
        if not issubclass(type(score), _NUMBERS):
            return  # an evaluator's mistake, which `to_score` reports
        if verdict is None:
            if self.error is None and self.status != "skipped":
                force_setattr(self, "verdict", "fail" if self.must_fail else verdict_of(score))
        # `str.__eq__`, because a plug-in's subclass of str may define `==` itself.
        elif issubclass(type(verdict), str) and str.__eq__(verdict, "fail") and verdict_of(score) != "fail":
            force_setattr(self, "must_fail", True)


class EvaluatorResult(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One evaluator's score as stored in a row, with its name, weight and cost: an entry of `evaluator_results`."""

    name: str
    type: str
    status: EvaluatorStatus = always("scored")
    score: StoredScore
    weight: float = always(1.0)
    required: bool | float = always(False)
    """True requires the verdict `pass`, a number a score of at least that number; otherwise the case fails."""
    unmet: Unmet = "fail"
    """The effect on the case if `required` is not met: the verdict `fail`, or with `zero` also the score 0."""
    verdict: Verdict | None = None
    hits: tuple[str, ...] = always(())
    misses: tuple[str, ...] = always(())
    reasoning: str | None = None
    expected_aspect_count: int = always(1)
    raw_aspects: tuple[str, ...] | None = None
    error: Failure | None = None
    results: tuple[EvaluationResult, ...] = ()
    evaluator_provider_request: JsonObject | None = None
    judge_calls: tuple[JudgeCall, ...] = ()
    duration_ms: StoredDuration | None = None
    usage: Usage | None = None
    cost_usd: StoredCost | None = None
    evaluator_results: "tuple[EvaluatorResult, ...]" = ()
    clamped: bool = False
    """True if the judge's number was outside 0..1 and `score` is the nearest bound."""

    @property
    def counted_score(self) -> float:
        """The score as it counts in a mean: 0.0 if the evaluator has an error, whatever number its judge gave."""
        return 0.0 if self.error is not None else self.score

    @property
    def evaluator_raw_request(self) -> JsonObject | None:
        """The request to the judge, under its name in EvaluationScore."""
        return self.evaluator_provider_request

    @property
    def passed(self) -> bool | None:
        """True for the verdict `pass`; None if nothing was judged."""
        return None if self.error is not None or self.verdict is None else self.verdict == "pass"


class EvaluationContext(Struct, frozen=True, metaclass=CamelKeywords):
    """The read-only input of an evaluator."""

    eval_case: EvalCase
    candidate: str
    """The answer's text."""
    target: ResolvedTarget
    provider: Provider
    prompt_inputs: PromptInputs
    attempt: int = 0
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    judge_provider: Provider | None = None
    system_prompt: str | None = None
    """Replaces a judge's own instructions."""
    evaluator: EvaluatorConfig | None = None
    judge_model: str | None = None
    reference_answer: str | None = None
    output_messages: tuple[Message, ...] | None = None
    trace: tuple[TraceEvent, ...] | None = None
    """The provider's trace; None if there is none."""
    candidate_trace: tuple[TraceEvent, ...] | None = None
    """The same as `trace`."""
    candidate_trace_summary: TraceSummary | None = None
    """Made from the output messages, or else from the trace."""
    criteria: tuple[EvaluationCriteria, ...] = ()
    ground_truth: JsonValue = None
    """By default the case's reference answer."""
    context: JsonObject = field(default_factory=dict)
    message_history: tuple[Message, ...] = ()
    agent_config: JsonObject | None = None
    session_id: str | None = None
    agent_id: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    workspace_path: str | None = None
    is_workspace_missing: bool = False
    """True if the answer was made in a workspace that was not kept: evaluators that may read it are then not called."""
    diff: str | None = None
    suite: str = ""
    """The path of the suite. Suite, case, target and trial identify the row."""
    trial: int = 0
    """Counted from 0."""
    duration_ms: float | None = None
    """That of the answer; None if it is not known."""
    cost_usd: float | None = None
    """That of the answer; None if it is not known."""
    usage: Usage | None = None
    """That of the answer; None if it is not known."""

    def to_input(self) -> EvaluationInput:
        """Return the input for evaluators of the criteria API."""
        last = self.output_messages[-1] if self.output_messages else None
        is_answer = last is not None and last.content is not None and content_text(last.content) == self.candidate
        return EvaluationInput(
            response=last if is_answer and last is not None else self.candidate,
            criteria=self.criteria,
            prompt=self.prompt_inputs.question,
            context=self.context,
            ground_truth=self.ground_truth,
            agent_config=self.agent_config,
            message_history=self.message_history,
            timestamp=self.now,
            session_id=self.session_id,
            agent_id=self.agent_id,
            metadata={**self.eval_case.metadata, **self.metadata},
            duration_ms=None if self.duration_ms is None else max(0.0, self.duration_ms),
            usage=self.usage,
            cost_usd=self.cost_usd,
            tags=self.eval_case.tags,
        )


MISSING_WORKSPACE = "needs the workspace of this answer, which was not kept (`keep: always` keeps workspaces)"
"""The error of an evaluator that reads the workspace of an answer, and gets the answer without it."""

EvaluatorOutput: TypeAlias = EvaluationScore | EvaluationResult | Sequence[EvaluationResult] | float | bool
"""The types that `evaluate` may return; scoring.results.completion converts the simpler ones to EvaluationScore."""


@runtime_checkable
class Evaluator(Protocol):
    """Judges one answer (seed REQ-EVAL-001).

    `kind` is the kind of evaluator. `evaluate` may be a plain function or a coroutine. An exception is stored as
    this evaluator's error and never as a judgement of the answer.
    """

    @property
    def kind(self) -> str:
        """The kind of evaluator, for instance `llm_judge` or `code`."""

    def evaluate(self, context: EvaluationContext) -> EvaluatorOutput | Awaitable[EvaluatorOutput]:
        """Judge the answer in `context`."""
