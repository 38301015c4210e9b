"""What happened behind an answer, counted: calls, errors, steps of the model, calls that repeat themselves."""

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
"""The calls on record (recorded_calls), None when nothing is."""


def count_calls(context: EvaluationContext, calls: Calls) -> int | None:
    """Return how many tools were called, by the calls, else by the trace summary; None when neither is on record."""
    if calls is not None:
        return len(calls)
    summary = context.candidate_trace_summary
    return None if summary is None else sum(summary.tool_calls_by_name.values())


def count_errors(context: EvaluationContext, calls: Calls) -> int | None:
    """Return how many errors there were: error events of the trace, or calls that ended as one if those are more.

    A call ended as an error when its result is an object with `error`. None when nothing is on record.
    """
    trace = _trace(context)
    if trace is None and calls is None:
        summary = context.candidate_trace_summary
        return None if summary is None else summary.error_count
    events = sum(event.type == "error" for event in trace or ())
    return max(events, sum(map(_ended_as_error, calls or ())))


def count_model_steps(context: EvaluationContext) -> int | None:
    """Return how often the model was asked: its steps in the trace, else its messages; None when neither tells."""
    steps = sum(event.type == "model_step" for event in _trace(context) or ())
    if steps:
        return steps
    messages = recorded_messages(context)
    return sum(message.role == "assistant" for message in messages) if messages else None


def most_repeated_call(calls: Calls) -> tuple[str, int] | None:
    """Return the call that was made most often with the same arguments, in words, and how often.

    ("", 0) when none was made, None when nothing is on record. A call without arguments on record counts as one with
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
        raise EvaluatorError(f"what {call.tool} was called with is nested too deep to compare") from error


def _shown(arguments: str) -> str:
    return arguments if len(arguments) <= _SHOWN_CHARS else f"{arguments[:_SHOWN_CHARS]} …"


def _ended_as_error(call: ToolCall) -> bool:
    return isinstance(call.output, Mapping) and bool(call.output.get("error"))


def _trace(context: EvaluationContext) -> tuple[TraceEvent, ...] | None:
    return context.trace if context.trace is not None else context.candidate_trace
