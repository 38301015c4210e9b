"""The evaluation context of one answer, built once and shared by all of a case's evaluators."""

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from agentv.scoring.tools.trace_summary import trace_summary
from agentv.types.cases import EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluationContext, PromptInputs
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message
from agentv.types.messages_json import reference_answer
from agentv.types.provider import Provider
from agentv.types.records.answer import Answer
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import blank
from agentv.types.targets import ResolvedTarget

_BLANK = blank(EvaluationContext)


def unanswered_context(target: ResolvedTarget, provider: Provider, judge: Provider | None) -> EvaluationContext:
    """Return what the contexts of all answers of a target have in common; `build_context` adds the rest."""
    return replace(_BLANK, target=target, provider=provider, judge_provider=judge)


def build_context(
    unanswered: EvaluationContext,
    case: EvalCase,
    answer: Answer,
    *,
    prompt: PromptInputs,
    criteria: tuple[EvaluationCriteria, ...],
    now: datetime,
    workspace_path: str | None = None,
    is_workspace_missing: bool = False,
) -> EvaluationContext:
    """Return the context of an answer. The trace summary counts its output messages, else its trace."""
    reference = reference_answer(case.expected_messages)
    # A call with more keywords than these would go through a dict, which takes longer (bench/echo_cases.py).
    context = replace(
        unanswered,
        eval_case=case,
        prompt_inputs=prompt,
        reference_answer=reference,
        criteria=criteria,
        ground_truth=reference,
        context={},
        message_history=_history(case),
        metadata=case.metadata,
        candidate=answer.text,
        attempt=answer.attempt,
        now=now,
        suite=answer.slot.suite,
        trial=answer.slot.trial,
        duration_ms=answer.duration_ms,
    )
    if workspace_path is None and not is_workspace_missing and _is_text_alone(answer):
        return context
    return replace(
        context,
        workspace_path=workspace_path,
        is_workspace_missing=is_workspace_missing,
        output_messages=answer.output_messages,
        trace=answer.trace,
        candidate_trace=answer.trace,
        candidate_trace_summary=trace_summary(answer.output_messages, answer.trace),
        diff=None if answer.workspace is None else _diff_of(answer.workspace),
        cost_usd=answer.cost_usd,
        usage=answer.usage,
    )


def _is_text_alone(answer: Answer) -> bool:
    """Return True if an answer has no usage, messages, trace, workspace or cost."""
    return (
        answer.usage is None
        and answer.output_messages is None
        and answer.trace is None
        and answer.workspace is None
        and answer.cost_usd is None
    )


def conversation_context(context: EvaluationContext, answer: Answer) -> EvaluationContext:
    """Return the context of an answer to all turns of a case: its messages are those of the whole conversation.

    Calls of tools are known only if the target reported its messages in every turn.
    """
    before, messages = context.eval_case.input_messages, answer.output_messages or ()
    knows_messages = all(turn.has_messages for turn in answer.turns)
    end = 1 if knows_messages else answer.turns[-1].start + 1
    history = (*before, *messages[:end])
    output = messages[end:] if knows_messages else None
    return replace(
        context,
        eval_case=replace(context.eval_case, input_messages=history),
        message_history=history if len(history) > 1 else (),
        output_messages=output,
        candidate_trace_summary=trace_summary(output, answer.trace),
    )


def conversation_evaluator(evaluator: EvaluatorLike) -> EvaluatorLike:
    """Return an evaluator that judges the whole conversation instead of the last answer.

    An evaluator with `per_turn` or `window` chooses its turns itself, and a Python object gets the messages: both are
    returned unchanged.
    """
    if not isinstance(evaluator, EvaluatorConfig) or evaluator.per_turn or evaluator.window is not None:
        return evaluator
    settings = {key: _conversation_members(value) for key, value in evaluator.settings.items()}
    source = "conversation" if evaluator.source == "response" else evaluator.source
    return replace(evaluator, source=source, settings=settings)


def _conversation_members(value: object) -> Any:
    """Return a setting; if it lists members, such as those of a composite, they judge the whole conversation too."""
    if isinstance(value, tuple) and value and all(isinstance(member, EvaluatorConfig) for member in value):
        return tuple(conversation_evaluator(member) for member in value)
    return value


def _history(case: EvalCase) -> tuple[Message, ...]:
    """Return the recorded conversation that a case continues; empty for a prompt alone.

    Evaluators would mistake a prompt alone for the steps of the agent.
    """
    for message in case.input_messages:
        if message.role in {"assistant", "tool"}:
            return case.input_messages
    return ()


def _diff_of(workspace: JsonObject) -> str | None:
    diff = workspace.get("diff")
    return diff if isinstance(diff, str) else None
