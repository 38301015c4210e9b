"""A context made by hand, to test an evaluator of one's own without a run."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import replace

from agentv.engine.calling.given_answer import context_of_input
from agentv.engine.running.context import trace_summary
from agentv.providers.local.python import JudgeFunction, PythonSettings
from agentv.types.cases import EvaluatorConfig
from agentv.types.criteria.evaluation_input import EvaluationInput
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.reading import read_messages
from agentv.types.messages import Message, TraceEvent
from agentv.types.messages_json import trace_from_json
from agentv.types.provider import Provider
from agentv.types.targets import ResolvedTarget

MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of a context for which none is given: tests see the same one every day."""


def make_context(
    answer: str | Message | Mapping[str, Any] = "",
    *,
    question: str = "",
    expected_outcome: str = "",
    reference: JsonValue = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    history: Sequence[Message | Mapping[str, Any]] = (),
    trace: Sequence[TraceEvent | Mapping[str, Any]] | None = None,
    criteria: Sequence[EvaluationCriteria | Mapping[str, Any]] = (),
    settings: JsonObject | None = None,
    context: JsonObject | None = None,
    metadata: JsonObject | None = None,
    judge: Provider | Callable[..., object] | None = None,
    id: str = "case",  # noqa: A002 - the name that it has in files
    now: datetime = MADE_AT,
) -> EvaluationContext:
    """Return the context that an evaluator would get for an answer, to test an evaluator of your own.

    `answer` is a text or a message, `messages` are all that the agent said and called, and `history` the conversation
    before. `reference` is the reference answer, or any JSON. `settings` are those of the evaluator, in
    `context.evaluator.settings`. `judge` is a Provider, or a function that gets the request and returns the verdict.
    Raises ConfigError, EvalFileError or MessageError for a value that is not understood.

        def names_paris(context):
            return "Paris" in context.candidate

        assert names_paris(make_context("It is Paris.", question="Capital of France?"))
    """
    given = EvaluationInput(
        answer,
        question or None,
        criteria,
        ground_truth=reference,
        message_history=history,
        context=context or {},
        metadata=metadata or {},
        id=id,
    )
    made = context_of_input(given, given.criteria, judge=judge_of(judge), now=now)
    case = replace(made.eval_case, expected_outcome=expected_outcome, metadata=metadata or {})
    output = made.output_messages if messages is None else read_messages(messages, "messages")
    events = None if trace is None else trace_from_json(cast(JsonValue, trace), "trace")
    return replace(
        made,
        eval_case=case,
        output_messages=output,
        trace=events,
        candidate_trace=events,
        candidate_trace_summary=trace_summary(output, events),
        evaluator=None if settings is None else EvaluatorConfig("evaluator", "evaluator", settings),
    )


def judge_of(given: Provider | Callable[..., object] | None) -> Provider | None:
    """Return a judge; a function is wrapped. Raises ConfigError for another object."""
    if given is None or isinstance(given, Provider):
        return given
    if not callable(given):
        raise ConfigError(f"judge= takes a Provider or a function; got {type(given).__name__}")
    return _FunctionJudge(given)


class _FunctionJudge(JudgeFunction):
    """A function as a judge, which needs nothing of a run."""

    is_code = True

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(ResolvedTarget("judge", "python", PythonSettings(function)), None)
