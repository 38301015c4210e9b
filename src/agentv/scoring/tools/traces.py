"""Summary of an agent's trace, and its tool calls in order."""

from collections import Counter
from collections.abc import Mapping, Sequence

from agentv.scoring.tools.message_calls import calls_in
from agentv.types.evaluation import EvaluationContext
from agentv.types.messages import Message, ToolCall, TraceEvent, TraceSummary


def summarize_trace(steps: Sequence[TraceEvent] | Sequence[Message]) -> TraceSummary:
    """Count the events of a trace, or the tool calls of output messages.

    >>> summarize_trace([TraceEvent(type="tool_call", name="search"), TraceEvent(type="error")]).error_count
    1
    """
    messages = [step for step in steps if isinstance(step, Message)]
    events = [step for step in steps if isinstance(step, TraceEvent)]
    called = calls_in(messages)
    calls = Counter(call.tool for call in (*called, *tool_calls_of_trace(events)))
    return TraceSummary(
        event_count=len(events) + len(called),
        tool_names=tuple(sorted(calls)),
        tool_calls_by_name=dict(calls),
        error_count=sum(event.type == "error" for event in events),
    )


def tool_calls_of_trace(trace: Sequence[TraceEvent]) -> tuple[ToolCall, ...]:
    """Return the named tool calls of a trace, in order."""
    return tuple(
        ToolCall(tool=event.name, input=event.input, output=event.output, id=event.id, timestamp=event.timestamp)
        for event in trace
        if event.type == "tool_call" and event.name
    )


def observed_calls(context: EvaluationContext) -> tuple[ToolCall, ...] | None:
    """Return the tool calls of an answer, from its output messages, else its trace; None without either."""
    if context.output_messages:
        return calls_in(context.output_messages)
    trace = context.trace if context.trace is not None else context.candidate_trace
    if trace is not None:
        return tool_calls_of_trace(trace)
    return None if context.output_messages is None else ()


def call_counts(context: EvaluationContext) -> Mapping[str, int] | None:
    """Return the number of calls of each tool, from the calls, else from the trace summary; None without either."""
    calls = observed_calls(context)
    if calls is not None:
        return Counter(call.tool for call in calls)
    summary = context.candidate_trace_summary
    return None if summary is None else summary.tool_calls_by_name
