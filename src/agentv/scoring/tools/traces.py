"""Summary of an agent's trace, and its tool calls in order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agentv.messages.shapes.fields import milliseconds_between
from agentv.scoring.tools.tool_calls import calls_in
from agentv.types.errors import MessageError
from agentv.types.evaluation import EvaluationContext
from agentv.types.messages import TRACE_EVENT_TYPES, Message, ToolCall, TraceEvent, TraceSummary
from agentv.types.messages_json import trace_from_json

TraceStep: TypeAlias = TraceEvent | Message | Mapping[str, Any]


def summarize_trace(steps: Sequence[TraceStep]) -> TraceSummary:
    """Count the events of a trace, or the tool calls of output messages.

    Steps may be plain JSON: trace events with one of their types, or messages in any shape that targets may return.
    Raises MessageError with the place of a step that is neither.

    >>> summarize_trace([TraceEvent(type="tool_call", name="search"), {"type": "error"}]).error_count
    1
    """
    if not hasattr(steps, "__iter__") or isinstance(steps, str | Mapping | TraceEvent | Message):
        raise MessageError("trace", "must be a list of trace events or messages", f"got {type(steps).__name__}")
    parts = [each for index, step in enumerate(steps) for each in _read_step(step, f"trace[{index}]")]
    messages = [each for each in parts if isinstance(each, Message)]
    events = [each for each in parts if isinstance(each, TraceEvent)]
    message_calls = calls_in(messages)
    counts = Counter(call.tool for call in (*message_calls, *tool_calls_of_trace(events)))
    return TraceSummary(
        event_count=len(events) + len(message_calls),
        tool_names=tuple(sorted(counts)),
        tool_calls_by_name=dict(counts),
        error_count=sum(event.type == "error" for event in events),
    )


def _read_step(step: TraceStep, at: str) -> Sequence[TraceEvent | Message]:
    if isinstance(step, TraceEvent | Message):
        return (step,)
    # Python callers may pass anything; `read_message` rejects everything but mappings.
    if isinstance(step, dict) and "role" not in step and step.get("type") in TRACE_EVENT_TYPES:
        return trace_from_json([step], at) or ()
    from agentv.messages.shapes.reading import read_message  # noqa: PLC0415 - most steps are objects

    try:
        return read_message(step, at)
    except MessageError as error:
        types = ", ".join(TRACE_EVENT_TYPES)
        raise MessageError(error.at, error.what, f"a trace event has one of the types {types}") from error


def tool_calls_of_trace(trace: Sequence[TraceEvent]) -> tuple[ToolCall, ...]:
    """Return the named tool calls of a trace, in order."""
    ended = {event.id: event.timestamp for event in trace if event.type == "tool_result" and event.id is not None}
    return tuple(
        ToolCall(
            tool=event.name,
            input=event.input,
            output=event.output,
            id=event.id,
            timestamp=event.timestamp,
            duration_ms=_time_between(event.timestamp, ended.get(event.id or "")),
        )
        for event in trace
        if event.type == "tool_call" and event.name
    )


def _time_between(began: str | None, ended: str | None) -> float | None:
    return None if began is None or ended is None else milliseconds_between(began, ended)


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
