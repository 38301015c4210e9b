from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import make_context

from agentv.messages.shapes.reading import read_messages
from agentv.scoring.tools.recorded_calls import recorded_calls
from agentv.scoring.tools.tool_calls import calls_in
from agentv.scoring.tools.traces import observed_calls, summarize_trace
from agentv.types.errors import EvaluatorError
from agentv.types.messages import Message, ToolCall, TraceEvent

SEARCH = ToolCall("search", {"q": "a"}, id="c1")


def messages(*raw: Any) -> tuple[Message, ...]:
    return read_messages(list(raw), "messages")


def assistant(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts), **fields}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "tool_call", "toolCallId": "c1", "toolName": "search", "args": {"q": "a"}},
        {"type": "tool_call", "tool_call_id": "c1", "tool_name": "search", "args": {"q": "a"}},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "search", "input": {"q": "a"}},
        {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "a"}},
        {"type": "tool_call", "id": "c1", "function": {"name": "search", "arguments": '{"q": "a"}'}},
    ],
)
def test_calls_in_content_parts_are_read_however_they_are_spelled(part: dict[str, Any]) -> None:
    recorded = messages(assistant({"type": "text", "text": "one moment"}, part))
    assert calls_in(recorded) == (SEARCH,)
    assert recorded_calls(make_context(output_messages=recorded)) == (SEARCH,)


@pytest.mark.parametrize(
    "result",
    [
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "tool", "content": [{"type": "tool_result", "toolCallId": "c1", "result": "found"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]},
        {"role": "tool", "content": [{"type": "tool_result", "toolName": "search", "output": "found"}]},
        {"role": "tool", "name": "search", "content": [{"type": "text", "text": "found"}], "toolCallId": "c1"},
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "found"}}],
        },
    ],
)
def test_results_are_joined_to_their_calls(result: dict[str, Any]) -> None:
    recorded = messages(assistant({"type": "tool_call", "toolCallId": "c1", "toolName": "search", "args": {}}), result)
    (call,) = recorded_calls(make_context(message_history=recorded)) or ()
    assert call.output == "found"


@pytest.mark.parametrize(
    "failed",
    [
        {"type": "tool_result", "toolCallId": "c1", "result": "no such order", "isError": True},
        {"type": "tool-error", "toolCallId": "c1", "error": "no such order"},
        {"type": "tool-result", "toolCallId": "c1", "output": {"type": "error-text", "value": "no such order"}},
    ],
)
def test_a_failed_result_becomes_an_error(failed: dict[str, Any]) -> None:
    recorded = messages(
        {"role": "assistant", "toolCalls": [{"tool": "s", "id": "c1"}]}, {"role": "tool", "content": [failed]}
    )
    (call,) = recorded_calls(make_context(message_history=recorded)) or ()
    assert call.output == {"error": "no such order"}


def test_a_call_in_history_and_output_counts_once() -> None:
    recorded = (Message("assistant", tool_calls=(SEARCH,)),)
    again = (Message("assistant", tool_calls=(SEARCH, ToolCall("search", {"q": "b"}, id="c2"))),)
    calls = recorded_calls(make_context(message_history=recorded, output_messages=again))
    assert calls == (SEARCH, ToolCall("search", {"q": "b"}, id="c2"))


def test_output_that_ends_the_history_counts_once_without_ids_too() -> None:
    answer = (Message("assistant", tool_calls=(ToolCall("search"),)),)
    history = (Message("user", "hi"), *answer, Message("user", "again"), *answer)
    assert recorded_calls(make_context(message_history=history, output_messages=answer)) == (ToolCall("search"),) * 2


def test_output_that_continues_the_history_counts_its_beginning_once() -> None:
    step = Message("assistant", tool_calls=(ToolCall("search"),))
    history = (Message("user", "hi"), step)
    output = (step, Message("assistant", "found", tool_calls=(ToolCall("look"),)))
    calls = recorded_calls(make_context(message_history=history, output_messages=output))
    assert calls == (ToolCall("search"), ToolCall("look"))


def test_a_part_that_repeats_its_messages_call_counts_once() -> None:
    part = {"type": "tool_call", "toolName": "search", "args": {"q": "a"}}
    recorded = messages(assistant(part, tool_calls=[{"tool": "search", "input": {"q": "a"}}]))
    assert len(calls_in(recorded)) == 1


def test_ids_that_each_turn_numbers_anew_are_of_different_calls() -> None:
    recorded = tuple(Message("assistant", tool_calls=(ToolCall("search", {"q": q}, id="1"),)) for q in "abb")
    assert [call.input for call in recorded_calls(make_context(message_history=recorded)) or ()] == [
        {"q": "a"},
        {"q": "b"},
    ]


@pytest.mark.parametrize("key", ["input", "args", "arguments", "tool_arguments", "toolArguments"])
def test_what_a_tool_was_called_with_has_several_names(key: str) -> None:
    listed = {"toolCalls": [{"toolName": "search", key: {"q": "a"}}]}
    assert recorded_calls(make_context(context=listed)) == (ToolCall("search", {"q": "a"}),)


@pytest.mark.parametrize("key", ["toolCalls", "tool_calls"])
def test_calls_that_the_context_lists_are_read(key: str) -> None:
    listed = [
        {"toolName": "search", "args": {"q": "a"}, "result": 1},
        {"tool": "search", "input": {"q": "b"}, "output": 2},
        {"name": "search", "arguments": {"q": "c"}},
    ]
    calls = recorded_calls(make_context(context={key: listed}))
    assert [(call.input, call.output) for call in calls or ()] == [({"q": "a"}, 1), ({"q": "b"}, 2), ({"q": "c"}, None)]


def test_a_call_in_messages_and_context_counts_once_and_is_completed() -> None:
    recorded = (Message("assistant", tool_calls=(ToolCall("search", {"q": "a"}), ToolCall("search", {"q": "a"}))),)
    listed = {"toolCalls": [{"tool": "search", "args": {"q": "a"}, "result": 1}, {"tool": "look"}]}
    calls = recorded_calls(make_context(output_messages=recorded, context=listed))
    assert calls == (ToolCall("search", {"q": "a"}, 1), ToolCall("search", {"q": "a"}), ToolCall("look"))


def test_each_source_can_be_read_alone() -> None:
    recorded = (Message("assistant", tool_calls=(SEARCH,)),)
    context = make_context(message_history=recorded, context={"toolCalls": [{"tool": "look"}]})
    assert recorded_calls(context, "message_history") == (SEARCH,)
    assert recorded_calls(context, "context") == (ToolCall("look"),)
    assert recorded_calls(context) == (SEARCH, ToolCall("look"))
    assert recorded_calls(make_context(message_history=recorded), "context") is None


def test_without_messages_the_trace_is_read() -> None:
    assert recorded_calls(make_context(trace=(TraceEvent("tool_call", name="search"),))) == (ToolCall("search"),)
    assert recorded_calls(make_context()) is None
    assert recorded_calls(make_context(output_messages=())) == ()
    assert recorded_calls(make_context(message_history=(Message("user", "hi"),))) == ()


def test_only_an_assistant_calls_tools() -> None:
    part = {"type": "tool_call", "toolName": "refund", "args": {}}
    forged = messages({"role": "user", "content": [part], "tool_calls": [{"tool": "refund"}]})
    assert recorded_calls(make_context(message_history=forged)) == ()


@pytest.mark.parametrize("listed", ["search", {"tool": "a"}, [{"args": {}}], ["search"]])
def test_a_list_in_the_context_that_cannot_be_read_is_an_error(listed: Any) -> None:
    with pytest.raises(EvaluatorError, match=r"context\.toolCalls"):
        recorded_calls(make_context(context={"toolCalls": listed}))


def test_trajectories_and_summaries_count_calls_in_content_parts() -> None:
    recorded = messages(assistant({"type": "tool_call", "toolName": "search", "args": {}}))
    assert observed_calls(make_context(output_messages=recorded)) == (ToolCall("search", {}),)
    assert summarize_trace(recorded).tool_calls_by_name == {"search": 1}


CALLS = st.lists(st.builds(ToolCall, st.sampled_from("ab"), st.integers(0, 2), id=st.none()), max_size=6)


@given(CALLS, CALLS)
def test_merged_calls_number_between_the_larger_record_and_the_sum(
    recorded: list[ToolCall], listed: list[ToolCall]
) -> None:
    context = {"toolCalls": [{"tool": call.tool, "input": call.input} for call in listed]}
    messages = (Message("assistant", tool_calls=tuple(recorded)),)
    calls = recorded_calls(make_context(output_messages=messages, context=context)) or ()
    assert max(len(recorded), len(listed)) <= len(calls) <= len(recorded) + len(listed)
    assert list(calls[: len(recorded)]) == recorded
