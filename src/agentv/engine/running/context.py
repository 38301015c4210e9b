"""The evaluation context of one answer, built once and shared by all of a case's evaluators."""

from datetime import datetime

from agentv.scoring.tools.traces import summarize_trace
from agentv.types.cases import EvalCase, EvalSuite
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.evaluation import EvaluationContext, PromptInputs
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message, TraceEvent, TraceSummary
from agentv.types.messages_json import reference_answer
from agentv.types.provider import Provider
from agentv.types.records.answer import Answer
from agentv.types.targets import ResolvedTarget


def build_context(
    case: EvalCase,
    answer: Answer,
    *,
    target: ResolvedTarget,
    provider: Provider,
    prompt: PromptInputs,
    criteria: tuple[EvaluationCriteria, ...],
    judge: Provider | None,
    now: datetime,
    workspace_path: str | None = None,
) -> EvaluationContext:
    """Return the context of an answer. The trace summary is made from output messages, else from the trace."""
    reference = reference_answer(case.expected_messages)
    return EvaluationContext(
        eval_case=case,
        candidate=answer.text,
        target=target,
        provider=provider,
        prompt_inputs=prompt,
        attempt=answer.attempt,
        now=now,
        judge_provider=judge,
        reference_answer=reference,
        output_messages=answer.output_messages,
        trace=answer.trace,
        candidate_trace=answer.trace,
        candidate_trace_summary=trace_summary(answer.output_messages, answer.trace),
        criteria=criteria,
        ground_truth=reference,
        message_history=_history(case),
        metadata=case.metadata,
        workspace_path=workspace_path,
        diff=None if answer.workspace is None else _diff_of(answer.workspace),
        suite=answer.slot.suite,
        trial=answer.slot.trial,
        duration_ms=answer.duration_ms,
        cost_usd=answer.cost_usd,
        usage=answer.usage,
    )


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


def trace_summary(messages: tuple[Message, ...] | None, trace: tuple[TraceEvent, ...] | None) -> TraceSummary | None:
    """Return the counts of an agent's steps; None if it reported neither messages nor a trace."""
    if messages is not None:
        return summarize_trace(messages)
    return None if trace is None else summarize_trace(trace)


def criteria_of(case: EvalCase, suite: EvalSuite) -> tuple[EvaluationCriteria, ...]:
    """Return the suite's criteria and the case's own; a case's criterion replaces the suite's of the same name."""
    if not case.criteria:
        return suite.criteria
    merged = {criterion.name: criterion for criterion in (*suite.criteria, *case.criteria)}
    return tuple(merged.values())


def tags_of(case: EvalCase, suite: EvalSuite) -> tuple[str, ...]:
    """Return the suite's tags and the case's own, each once."""
    return tuple(dict.fromkeys((*suite.tags, *case.tags))) if suite.tags or case.tags else ()
