"""What evaluators see of an answer that no target was called for: one given by the user, or made in a test."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import replace

from agentv.messages.shapes.reading import read_messages
from agentv.providers.local.python import PythonProvider, PythonSettings
from agentv.scoring.tools.trace_summary import trace_summary
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluationContext, PromptInputs
from agentv.types.evaluation_input import EvaluationInput, output_messages
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, TraceEvent
from agentv.types.messages_json import content_text, trace_from_json
from agentv.types.provider import Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.scales import EvaluationCriteria
from agentv.types.targets import ResolvedTarget

GIVEN_ANSWER = "given_answer"
GIVEN_TARGET = ResolvedTarget(GIVEN_ANSWER, GIVEN_ANSWER, settings=None)
DEFAULT_CASE_ID = "input"
"""The case id of an input with neither an id nor a session id."""


class GivenAnswer:
    """The provider of an answer that exists already. It cannot be called."""

    kind = GIVEN_ANSWER

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Raise ProviderError."""
        raise ProviderError(
            Failure("target_missing", f"the answer to {request.eval_case_id!r} was given; there is no target to call")
        )


_PROVIDER = GivenAnswer()


_EMPTY_CASE = EvalCase(DEFAULT_CASE_ID, ())


def context_of_input(
    given: EvaluationInput, criteria: tuple[EvaluationCriteria, ...], *, judge: Provider | None, now: datetime
) -> EvaluationContext:
    """Return the context of a given answer. Its output messages are those after the last message of the user."""
    question = question_of(given)
    truth = given.ground_truth
    case = replace(
        _EMPTY_CASE,
        id=given.id or given.session_id or DEFAULT_CASE_ID,
        input_messages=(Message("user", question),) if question else (),
        expected_messages=(Message("assistant", truth),) if isinstance(truth, str) else (),
        tags=given.tags,
    )
    output = output_messages(given)
    return EvaluationContext(
        eval_case=case,
        candidate=given.text,
        target=GIVEN_TARGET,
        provider=_PROVIDER,
        prompt_inputs=PromptInputs(question),
        now=given.timestamp or now,
        judge_provider=judge,
        reference_answer=truth if isinstance(truth, str) else None,
        output_messages=output,
        candidate_trace_summary=None if output is None else trace_summary(output, None),
        criteria=criteria,
        ground_truth=truth,
        context=given.context,
        message_history=given.message_history,
        agent_config=given.agent_config,
        session_id=given.session_id,
        agent_id=given.agent_id,
        metadata=given.metadata,
        duration_ms=given.duration_ms,
        cost_usd=given.cost_usd,
        usage=given.usage,
    )


def metadata_of(given: EvaluationInput) -> JsonObject:
    """Return the metadata of an input, with its model and agent, so that results can be grouped by them."""
    known = {"model": given.model, "agent_id": given.agent_id}
    added = {name: value for name, value in known.items() if value is not None}
    return {**added, **given.metadata} if added else given.metadata


def question_of(given: EvaluationInput) -> str:
    """Return the prompt, or the last message of the user if there is none."""
    if given.prompt is not None:
        return given.prompt
    prompts = (content_text(message.content) for message in reversed(given.message_history) if message.role == "user")
    return next(prompts, "")


DEFAULT_NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""The default time of a context, fixed so that tests do not depend on the date."""


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
    now: datetime = DEFAULT_NOW,
) -> EvaluationContext:
    """Return the context that an evaluator would get for an answer, to test an evaluator of your own.

    `answer` is a text or a message, `messages` are all messages of the agent with its tool calls, and `history` is the
    conversation before. `reference` is the reference answer, or any JSON. `settings` are those of the evaluator, in
    `context.evaluator.settings`. `judge` is a Provider, or a function that gets the request and returns the verdict.
    Raises ConfigError, EvalFileError or MessageError for an invalid value.

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
    base = context_of_input(given, given.criteria, judge=judge_of(judge), now=now)
    case = replace(base.eval_case, expected_outcome=expected_outcome, metadata=metadata or {})
    output = base.output_messages if messages is None else read_messages(messages, "messages")
    events = None if trace is None else trace_from_json(cast(JsonValue, trace), "trace")
    return replace(
        base,
        eval_case=case,
        output_messages=output,
        trace=events,
        candidate_trace=events,
        candidate_trace_summary=trace_summary(output, events),
        evaluator=None if settings is None else EvaluatorConfig("evaluator", "evaluator", settings),
    )


def judge_of(given: Provider | Callable[..., object] | None) -> Provider | None:
    """Return a provider as it is, and a function as a provider. Raises ConfigError for another object."""
    if given is None or isinstance(given, Provider):
        return given
    if not callable(given):
        raise ConfigError(f"judge= takes a Provider or a function; got {type(given).__name__}")
    return _FunctionJudge(given)


class _FunctionJudge(PythonProvider):
    """A judge that calls a function, without a run."""

    is_code = True

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(ResolvedTarget("judge", "python", PythonSettings(function)), None)
