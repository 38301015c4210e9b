"""Metrics of a trace: calls, errors, steps of the model, repeated calls."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from agentv.scoring.keys.identity import canonical_json
from agentv.scoring.tools.recorded_calls import recorded_messages
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.messages import ToolCall, TraceEvent

_SHOWN_CHARS = 120


Calls: TypeAlias = Sequence[ToolCall] | None
"""The recorded calls (recorded_calls), None when nothing is recorded."""


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
