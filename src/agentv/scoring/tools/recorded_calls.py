"""The recorded tool calls of an answer, from the conversation, `context.toolCalls` or the trace; and their metrics."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from agentv.messages.shapes.fields import tool_call_from_json
from agentv.scoring.keys.identity import canonical_json
from agentv.scoring.text.overlaps import overlap
from agentv.scoring.tools.tool_calls import ToolResult, calls_of, json_equal, results_of
from agentv.scoring.tools.traces import tool_calls_of_trace
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, ToolCall, TraceEvent

CallSource: TypeAlias = Literal["message_history", "context"]
_CONTEXT_KEYS = ("toolCalls", "tool_calls")
_MAX_SHOWN_CHARS = 120
Calls: TypeAlias = Sequence[ToolCall] | None
"""The result of `recorded_calls`: None when nothing is recorded."""


def recorded_calls(context: EvaluationContext, source: CallSource | None = None) -> tuple[ToolCall, ...] | None:
    """Return the recorded tool calls, with their results if known; None when nothing is recorded.

    `message_history` selects the history and the output messages, `context` the list `context.toolCalls`, None both,
    and the trace if they hold no call. A call that is recorded in several places counts once. Raises EvaluatorError for
    a list in the context that cannot be read.
    """
    messages = () if source == "context" else recorded_messages(context)
    listed = None if source == "message_history" else _listed(context)
    records = _CallRecords()
    for message in messages:
        records.add_message(message)
    records.merge(listed or ())
    trace = context.trace if context.trace is not None else context.candidate_trace
    if source is None and not records.calls and trace is not None:
        return tool_calls_of_trace(trace)
    is_recorded = bool(messages) or listed is not None or (source != "context" and context.output_messages is not None)
    return tuple(records.calls) if is_recorded else None


def recorded_messages(context: EvaluationContext) -> tuple[Message, ...]:
    """Return the message history followed by the output messages; messages at the end of both count once."""
    history, output = context.message_history, context.output_messages or ()
    return (*history, *output[overlap(history, output) :])


def _listed(context: EvaluationContext) -> tuple[ToolCall, ...] | None:
    """Return the calls in the context's list; None without such a list."""
    key = next((key for key in _CONTEXT_KEYS if key in context.context), None)
    if key is None:
        return None
    listed = context.context[key]
    if not isinstance(listed, list | tuple):
        raise EvaluatorError(f"`context.{key}` must be a list of tool calls")
    return tuple(_read_call(entry, f"context.{key}.{index}") for index, entry in enumerate(listed))


def _read_call(entry: JsonValue, place: str) -> ToolCall:
    call = tool_call_from_json(entry)
    if call is None:
        raise EvaluatorError(f"`{place}` is not a tool call: it has no tool name")
    return call


class _CallRecords:
    """Accumulates recorded calls, merging several records of one call."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self._by_id: dict[str, list[int]] = defaultdict(list)

    def add_message(self, message: Message) -> None:
        """Add the calls and the results in a message."""
        for call in calls_of(message) if message.role == "assistant" else ():
            known = self._repeated_index(call)
            if known is None:
                self._add(call)
            else:
                self._set_output(known, call.output)
        for result in results_of(message):
            self._add_result(result)

    def merge(self, listed: Sequence[ToolCall]) -> None:
        """Merge calls from another source: each is either a call that is recorded already or a new one."""
        free: dict[str, list[int]] = defaultdict(list)
        for index, call in enumerate(self.calls):
            free[call.tool].append(index)
        for call in listed:
            same = next((index for index in free[call.tool] if _is_same(call, self.calls[index])), None)
            if same is None:
                self._add(call)
            else:
                free[call.tool].remove(same)
                self._set_output(same, call.output)

    def _add(self, call: ToolCall) -> None:
        if call.id is not None:
            self._by_id[call.id].append(len(self.calls))
        self.calls.append(call)

    def _repeated_index(self, call: ToolCall) -> int | None:
        """Return the index of the recorded call that this one repeats, None for a new call.

        An id alone is not enough: some agents number their calls anew in each turn.
        """
        indexes = () if call.id is None else self._by_id.get(call.id, ())
        return next((index for index in indexes if _is_same(call, self.calls[index])), None)

    def _add_result(self, result: ToolResult) -> None:
        if result.id is not None:
            indexes: Sequence[int] = self._by_id.get(result.id, ())
        else:
            indexes = [index for index, call in enumerate(self.calls) if call.tool == result.tool]
        waiting = [index for index in indexes if self.calls[index].output is None]
        if waiting:
            self._set_output(waiting[0], {"error": result.output} if result.failed else result.output)

    def _set_output(self, index: int, output: JsonValue) -> None:
        if self.calls[index].output is None:
            self.calls[index] = replace(self.calls[index], output=output)


def _is_same(call: ToolCall, other: ToolCall) -> bool:
    """Return True if two records are of one call: same tool, same id if both have one, and same arguments."""
    if call.tool != other.tool or (call.id is not None and other.id is not None and call.id != other.id):
        return False
    is_unknown = call.id is not None and call.id == other.id and (call.input is None or other.input is None)
    return is_unknown or json_equal(_arguments(call), _arguments(other))


def _arguments(call: ToolCall) -> JsonValue:
    return {} if call.input is None else call.input


def count_calls(context: EvaluationContext, calls: Calls) -> int | None:
    """Return the number of tool calls, from the calls, else from the trace summary; None when neither is recorded."""
    if calls is not None:
        return len(calls)
    summary = context.candidate_trace_summary
    return None if summary is None else sum(summary.tool_calls_by_name.values())


def count_errors(context: EvaluationContext, calls: Calls) -> int | None:
    """Return the number of errors: error events of the trace, or, if larger, calls that ended in an error.

    A call ended in an error if its result is an object with `error`. None when nothing is recorded.
    """
    trace = _trace(context)
    if trace is None and calls is None:
        summary = context.candidate_trace_summary
        return None if summary is None else summary.error_count
    events = sum(event.type == "error" for event in trace or ())
    return max(events, sum(map(_ended_as_error, calls or ())))


def count_model_steps(context: EvaluationContext) -> int | None:
    """Return the number of model calls: of `model_step` events, else of assistant messages; None without either."""
    steps = sum(event.type == "model_step" for event in _trace(context) or ())
    if steps:
        return steps
    messages = recorded_messages(context)
    return sum(message.role == "assistant" for message in messages) if messages else None


def most_repeated_call(calls: Calls) -> tuple[str, int] | None:
    """Return the call that was made most often with the same arguments, as text, and how often.

    ("", 0) if no call was made, None if nothing is recorded. Arguments that are not recorded count as none. Raises
    EvaluatorError for arguments that are nested too deep to compare.
    """
    if calls is None:
        return None
    counts = Counter((call.tool, _canonical_arguments(call)) for call in calls)
    if not counts:
        return "", 0
    ((tool, arguments), count), *_ = counts.most_common(1)
    return f"{tool} with {_shown(arguments)}", count


def _canonical_arguments(call: ToolCall) -> str:
    try:
        return canonical_json({} if call.input is None else call.input)
    except RecursionError as error:
        raise EvaluatorError(f"the arguments of {call.tool} are nested too deep to compare") from error


def _shown(arguments: str) -> str:
    return arguments if len(arguments) <= _MAX_SHOWN_CHARS else f"{arguments[:_MAX_SHOWN_CHARS]} …"


def _ended_as_error(call: ToolCall) -> bool:
    return isinstance(call.output, Mapping) and bool(call.output.get("error"))


def _trace(context: EvaluationContext) -> tuple[TraceEvent, ...] | None:
    return context.trace if context.trace is not None else context.candidate_trace
