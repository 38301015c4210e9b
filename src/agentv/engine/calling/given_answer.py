"""The context of an answer that exists already: evaluators see the same as for a live answer."""

from datetime import datetime

from msgspec.structs import replace

from agentv.engine.running.context import trace_summary
from agentv.types.cases import EvalCase
from agentv.types.criteria.evaluation_input import EvaluationInput, output_messages
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import ProviderError
from agentv.types.evaluation import EvaluationContext, PromptInputs
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message
from agentv.types.messages_json import content_text
from agentv.types.provider import Provider, ProviderRequest, ProviderResponse
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


_CASE = EvalCase(DEFAULT_CASE_ID, ())


def context_of_input(
    given: EvaluationInput, criteria: tuple[EvaluationCriteria, ...], *, judge: Provider | None, now: datetime
) -> EvaluationContext:
    """Return the context of a given answer. Its output messages are those after the last message of the user."""
    question = question_of(given)
    truth = given.ground_truth
    case = replace(
        _CASE,
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
    named = {name: value for name, value in known.items() if value is not None}
    return {**named, **given.metadata} if named else given.metadata


def question_of(given: EvaluationInput) -> str:
    """Return the prompt, or the last message of the user if there is none."""
    if given.prompt is not None:
        return given.prompt
    prompts = (content_text(message.content) for message in reversed(given.message_history) if message.role == "user")
    return next(prompts, "")
