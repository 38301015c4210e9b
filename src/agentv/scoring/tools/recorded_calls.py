"""The recorded tool calls of an answer: from the conversation, from `context.toolCalls`, else from the trace."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from agentv.scoring.text.overlaps import overlap
from agentv.scoring.tools.tool_calls import ToolResult, calls_of, json_equal, results_of
from agentv.scoring.tools.traces import tool_calls_of_trace
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.message_shapes.fields import tool_call_from_json
from agentv.types.messages import Message, ToolCall

CallSource: TypeAlias = Literal["message_history", "context"]
_CONTEXT_KEYS = ("toolCalls", "tool_calls")


def recorded_calls(context: EvaluationContext, source: CallSource | None = None) -> tuple[ToolCall, ...] | None:
    """Return the recorded tool calls, with their results if known; None when nothing is recorded.

    `message_history` stands for the history and the output messages, `context` for the list `context.toolCalls`, None
    for both, and for the trace when they hold no call. A call that is recorded in several places counts once. Raises
    EvaluatorError for a list in the context that cannot be read.
    """
    messages = () if source == "context" else recorded_messages(context)
    listed = None if source == "message_history" else _listed(context)
    record = _Record()
    for message in messages:
        record.read(message)
    record.pair(listed or ())
    trace = context.trace if context.trace is not None else context.candidate_trace
    if source is None and not record.calls and trace is not None:
        return tool_calls_of_trace(trace)
    is_recorded = bool(messages) or listed is not None or (source != "context" and context.output_messages is not None)
    return tuple(record.calls) if is_recorded else None


def recorded_messages(context: EvaluationContext) -> tuple[Message, ...]:
    """Return the message history followed by the output messages; messages at the end of both count once."""
    history, output = context.message_history, context.output_messages or ()
    return (*history, *output[overlap(history, output) :])


def _listed(context: EvaluationContext) -> tuple[ToolCall, ...] | None:
    """Return the calls that the context lists; None when it has no such list."""
    key = next((key for key in _CONTEXT_KEYS if key in context.context), None)
    if key is None:
        return None
    listed = context.context[key]
    if not isinstance(listed, list | tuple):
        raise EvaluatorError(f"`context.{key}` must be a list of tool calls")
    return tuple(_read(entry, f"context.{key}.{index}") for index, entry in enumerate(listed))


def _read(entry: JsonValue, place: str) -> ToolCall:
    call = tool_call_from_json(entry)
    if call is None:
        raise EvaluatorError(f"`{place}` is not a tool call: it has no tool name")
    return call


class _Record:
    """Accumulates recorded calls, merging several records of one call."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self._by_id: dict[str, list[int]] = defaultdict(list)

    def read(self, message: Message) -> None:
        """Add the calls and the results in a message."""
        for call in calls_of(message) if message.role == "assistant" else ():
            known = self._known(call)
            if known is None:
                self._add(call)
            else:
                self._complete(known, call.output)
        for result in results_of(message):
            self._take(result)

    def pair(self, listed: Sequence[ToolCall]) -> None:
        """Merge a list of calls from another source; each is either a known call or a new one."""
        free: dict[str, list[int]] = defaultdict(list)
        for index, call in enumerate(self.calls):
            free[call.tool].append(index)
        for call in listed:
            same = next((index for index in free[call.tool] if _is_same(call, self.calls[index])), None)
            if same is None:
                self._add(call)
            else:
                free[call.tool].remove(same)
                self._complete(same, call.output)

    def _add(self, call: ToolCall) -> None:
        if call.id is not None:
            self._by_id[call.id].append(len(self.calls))
        self.calls.append(call)

    def _known(self, call: ToolCall) -> int | None:
        """Return the call that this one repeats; some agents number their calls anew in each turn."""
        indexes = () if call.id is None else self._by_id.get(call.id, ())
        return next((index for index in indexes if _is_same(call, self.calls[index])), None)

    def _take(self, result: ToolResult) -> None:
        if result.id is not None:
            indexes: Sequence[int] = self._by_id.get(result.id, ())
        else:
            indexes = [index for index, call in enumerate(self.calls) if call.tool == result.tool]
        waiting = [index for index in indexes if self.calls[index].output is None]
        if waiting:
            self._complete(waiting[0], {"error": result.output} if result.failed else result.output)

    def _complete(self, index: int, output: JsonValue) -> None:
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
