"""Summaries and metrics of a trace: tool calls, errors, steps of the model, repeated calls."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agentv.scoring.keys.identity import canonical_json
from agentv.scoring.tools.recorded_calls import recorded_messages
from agentv.scoring.tools.tool_calls import calls_in
from agentv.types.errors import EvaluatorError, MessageError
from agentv.types.evaluation import EvaluationContext
from agentv.types.message_shapes.reading import read_message
from agentv.types.messages import TRACE_EVENT_TYPES, Message, ToolCall, TraceEvent, TraceSummary
from agentv.types.messages_json import trace_from_json

TraceStep: TypeAlias = TraceEvent | Message | Mapping[str, Any]
_SHOWN_CHARS = 120
Calls: TypeAlias = Sequence[ToolCall] | None
"""The recorded calls (recorded_calls), None when nothing is recorded."""


def summarize_trace(steps: Sequence[TraceStep]) -> TraceSummary:
    """Count the events of a trace, or the tool calls of output messages.

    Steps may be plain JSON: trace events with one of their types, or messages in any shape that targets may return.
    Raises MessageError with the place of a step that is neither.

    >>> summarize_trace([TraceEvent(type="tool_call", name="search"), {"type": "error"}]).error_count
    1
    """
    if isinstance(steps, str | Mapping | TraceEvent | Message):
        raise MessageError("trace", "must be a list of trace events or messages", f"got {type(steps).__name__}")
    read = [each for place, step in enumerate(steps) for each in _read_step(step, f"trace[{place}]")]
    messages = [step for step in read if isinstance(step, Message)]
    events = [step for step in read if isinstance(step, TraceEvent)]
    called = calls_in(messages)
    calls = Counter(call.tool for call in (*called, *tool_calls_of_trace(events)))
    return TraceSummary(
        event_count=len(events) + len(called),
        tool_names=tuple(sorted(calls)),
        tool_calls_by_name=dict(calls),
        error_count=sum(event.type == "error" for event in events),
    )


def _read_step(step: TraceStep, at: str) -> Sequence[TraceEvent | Message]:
    if isinstance(step, TraceEvent | Message):
        return (step,)
    # Anything may be given as JSON; read_message refuses what is no mapping.
    if isinstance(step, dict) and "role" not in step and step.get("type") in TRACE_EVENT_TYPES:
        return trace_from_json([step], at) or ()
    try:
        return read_message(step, at)
    except MessageError as error:
        types = ", ".join(TRACE_EVENT_TYPES)
        raise MessageError(error.at, error.what, f"a trace event has one of the types {types}") from error


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


def count_calls(context: EvaluationContext, calls: Calls) -> int | None:
    """Return the number of tool calls, from the calls, else from the trace summary; None when neither is recorded."""
    if calls is not None:
        return len(calls)
    summary = context.candidate_trace_summary
    return None if summary is None else sum(summary.tool_calls_by_name.values())


def count_errors(context: EvaluationContext, calls: Calls) -> int | None:
    """Return the number of errors: error events of the trace, or calls that ended as one if those are more.

    A call ended as an error when its result is an object with `error`. None when nothing is recorded.
    """
    trace = _trace(context)
    if trace is None and calls is None:
        summary = context.candidate_trace_summary
        return None if summary is None else summary.error_count
    events = sum(event.type == "error" for event in trace or ())
    return max(events, sum(map(_ended_as_error, calls or ())))


def count_model_steps(context: EvaluationContext) -> int | None:
    """Return the number of model calls: steps in the trace, else the assistant's messages; None without either."""
    steps = sum(event.type == "model_step" for event in _trace(context) or ())
    if steps:
        return steps
    messages = recorded_messages(context)
    return sum(message.role == "assistant" for message in messages) if messages else None


def most_repeated_call(calls: Calls) -> tuple[str, int] | None:
    """Return the call that was made most often with the same arguments, as text, and its number.

    ("", 0) when none was made, None when nothing is recorded. A call without recorded arguments counts as one with
    none. Raises EvaluatorError for arguments that are nested too deep to compare.
    """
    if calls is None:
        return None
    counts = Counter((call.tool, _arguments(call)) for call in calls)
    if not counts:
        return "", 0
    ((tool, arguments), count), *_ = counts.most_common(1)
    return f"{tool} with {_shown(arguments)}", count


def _arguments(call: ToolCall) -> str:
    try:
        return canonical_json({} if call.input is None else call.input)
    except RecursionError as error:
        raise EvaluatorError(f"the arguments of {call.tool} are nested too deep to compare") from error


def _shown(arguments: str) -> str:
    return arguments if len(arguments) <= _SHOWN_CHARS else f"{arguments[:_SHOWN_CHARS]} …"


def _ended_as_error(call: ToolCall) -> bool:
    return isinstance(call.output, Mapping) and bool(call.output.get("error"))


def _trace(context: EvaluationContext) -> tuple[TraceEvent, ...] | None:
    return context.trace if context.trace is not None else context.candidate_trace
