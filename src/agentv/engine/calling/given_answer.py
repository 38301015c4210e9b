"""An answer that exists already, as evaluators see it: the same context that a live answer gets."""

from datetime import datetime

from agentv.engine.running.context import trace_summary
from agentv.types.cases import EvalCase
from agentv.types.criteria.evaluation_input import EvaluationInput
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import ProviderError
from agentv.types.evaluation import EvaluationContext, PromptInputs
from agentv.types.failures import Failure
from agentv.types.messages import Message
from agentv.types.messages_json import content_text
from agentv.types.provider import Provider, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

GIVEN_ANSWER = "given_answer"
GIVEN_TARGET = ResolvedTarget(GIVEN_ANSWER, GIVEN_ANSWER, settings=None)
NAMELESS = "input"
"""What the case of an input is called that belongs to no session."""


class GivenAnswer:
    """The provider of an answer that exists already: it cannot be asked again."""

    kind = GIVEN_ANSWER

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Refuse: raises ProviderError."""
        raise ProviderError(
            Failure("target_missing", f"the answer to {request.eval_case_id!r} was given; there is no target to ask")
        )


_PROVIDER = GivenAnswer()


def context_of_input(
    given: EvaluationInput, criteria: tuple[EvaluationCriteria, ...], *, judge: Provider | None, now: datetime
) -> EvaluationContext:
    """Return the context of a given answer. What the agent did since the last question are its output messages."""
    question = _question(given)
    truth = given.ground_truth
    case = EvalCase(
        id=given.session_id or NAMELESS,
        input_messages=(Message("user", question),) if question else (),
        expected_messages=(Message("assistant", truth),) if isinstance(truth, str) else (),
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
    )


def _question(given: EvaluationInput) -> str:
    """Return what was asked: the prompt, else the last thing that a user said."""
    if given.prompt is not None:
        return given.prompt
    asked = (content_text(message.content) for message in reversed(given.message_history) if message.role == "user")
    return next(asked, "")


def output_messages(given: EvaluationInput) -> tuple[Message, ...] | None:
    """Return what the agent did since the last question, its answer at the end; None when there is only a text."""
    if not given.message_history:
        return None if isinstance(given.response, str) else (given.response,)
    asked = [index for index, message in enumerate(given.message_history) if message.role == "user"]
    said = [content_text(given.message_history[index].content) for index in asked]
    is_new = bool(said) and given.prompt is not None and given.prompt not in said
    # A prompt that the history does not know was asked after it: what stands there answered something else.
    since = () if is_new else given.message_history[asked[-1] + 1 if asked else 0 :]
    since = tuple(message for message in since if message.role != "system")
    answer = given.response
    if isinstance(answer, str):
        if not since or _says(since[-1], answer):
            return since or None
        return (*since, Message("assistant", answer))
    return since if since and since[-1] == answer else (*since, answer)


def _says(message: Message, text: str) -> bool:
    return message.role == "assistant" and content_text(message.content) == text
