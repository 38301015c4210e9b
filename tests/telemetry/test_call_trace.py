"""The spans of one call of a target: what they add to its response, and whether some are missing."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.spans import attribute, export, span
from tests.support.traced_agent import answer_to, spans_of_call
from tests.telemetry.test_recorded_traces import CALL, EQUAL, RECORDED, unqualified
from tests.telemetry.test_recorded_traces import spans as recorded

from agentv.telemetry.joining.call_trace import has_all_parents, read_call
from agentv.telemetry.otlp.spans import Span, spans_of
from agentv.types.messages import tool_calls_of

TRACE, PARENT = "a" * 32, "b" * 16
ORDER = "Where is my order?"


def spans(question: str = ORDER, *modes: str, at_s: int = 0) -> list[Span]:
    return spans_of(export(*spans_of_call(question, trace_id=TRACE, parent=PARENT, modes=modes, at_s=at_s)))


def test_messages_are_what_the_target_did_without_the_question() -> None:
    trace = read_call(spans(), parent_id=PARENT)

    assert trace.messages is not None
    assert [message.role for message in trace.messages] == ["assistant", "tool", "assistant"]
    assert [(call.tool, call.input) for call in tool_calls_of(trace.messages)] == [("find_order", {"question": ORDER})]
    assert trace.usage is not None
    assert (trace.usage.input, trace.usage.output, trace.usage.requests, trace.model) == (20, 10, 2, "gpt-4o-mini")
    assert (trace.is_complete, trace.notes) == (True, ())


def test_earlier_turns_in_the_spans_are_not_calls_of_this_turn() -> None:
    said = [
        {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c0", "name": "find_order", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "ok"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "On its way."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Thanks"}]},
    ]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "You are welcome."}]}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": said, "gen_ai.output.messages": answer}
    trace = read_call(spans_of(export(span(1, None, attributes))))

    assert [message.content for message in trace.messages or ()] == ["You are welcome."]


def test_several_agents_of_one_call_are_all_in_its_messages() -> None:
    both = [*spans("order one"), *spans("order two", at_s=5)]
    trace = read_call(both, parent_id=PARENT, text=answer_to("order one"))

    assert [call.input for call in tool_calls_of(trace.messages or ())] == [
        {"question": "order one"},
        {"question": "order two"},
    ]
    judged = next(each for each in both if each.span_id == trace.span_id)
    assert (judged.name, judged.span_id) == ("span 0", both[2].span_id)  # the one with the text of the answer


@pytest.mark.parametrize("name", EQUAL)
def test_every_instrumentation_gives_the_calls_and_tokens_of_a_row(name: str) -> None:
    trace = read_call(recorded(name))

    made = [(call.tool, call.input) for call in tool_calls_of(trace.messages or ()) if call.tool != "final_answer"]
    assert [(unqualified(tool), given) for tool, given in made] == [CALL]
    assert trace.usage is not None
    assert {"input": trace.usage.input, "output": trace.usage.output} == RECORDED[name]["tokens"]


def test_tokens_are_known_without_messages_and_calls_are_not() -> None:
    trace = read_call(spans(ORDER, "silent"), parent_id=PARENT)

    assert trace.messages is None
    assert trace.usage is not None
    assert trace.usage.total or trace.usage.input == 20
    (note,) = trace.notes
    assert "have no messages, so tool calls may be missing" in note


def test_tokens_of_several_models_have_no_common_price() -> None:
    chats = [
        span(number, None, {"gen_ai.operation.name": "chat", "gen_ai.request.model": model})
        for number, model in enumerate(("small", "large"), start=1)
    ]
    assert read_call(spans_of(export(*chats))).model is None


def test_spans_that_are_not_of_agents_are_named() -> None:
    trace = read_call(spans_of(export(span(1, None, {"http.request.method": "GET"}))))

    assert (trace.messages, trace.usage, trace.is_complete) == (None, None, False)
    assert trace.notes == ("its spans have no agent and no call of a model, so its tool calls are unknown",)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ('[{"role": "assistant", "parts": [{"ty', "gen_ai.output.messages is not a list of messages"),
        (
            [{"role": "assistant", "content": [{"toolUse": "find"}]}],
            "gen_ai.output.messages[0].content[0].toolUse must",
        ),
    ],
)
def test_calls_are_unknown_if_the_output_cannot_be_read(output: Any, problem: str) -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Where?"}]}]
    given = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": asked, "gen_ai.output.messages": output}
    found = read_call(spans_of(export(span(1, None, given))))
    assert (found.messages, found.is_complete) == (None, False)
    (note,) = found.notes
    assert note.startswith("a span was not read, so tool calls may be missing: ")
    assert problem in note


def test_no_spans_add_nothing() -> None:
    assert read_call([]) == type(read_call([]))()


def test_a_call_of_a_tool_that_nothing_continues_is_not_complete() -> None:
    first = spans()[0]
    trace = read_call([first], parent_id=first.parent_id)

    assert not trace.is_complete
    assert trace.notes == ("its spans end with a call of a tool that nothing continues, so tool calls may be missing",)


@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_spans_are_complete_exactly_when_all_have_arrived(rng: random.Random, count: int) -> None:
    whole = [each for number in range(count) for each in spans(f"order {number}")]
    arrived = whole.copy()
    rng.shuffle(arrived)
    for end in range(len(arrived)):
        missing = arrived[end:]
        is_parent_missing = any(each.parent_id == PARENT for each in missing if _has_child(each, arrived[:end]))
        assert not (is_parent_missing and has_all_parents(arrived[:end], PARENT))
    assert has_all_parents(arrived, PARENT)


def _has_child(parent: Span, others: list[Span]) -> bool:
    return any(each.parent_id == parent.span_id for each in others)


def test_a_log_record_of_a_span_that_has_not_arrived_is_not_complete() -> None:
    whole = spans()
    record: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": "c" * 16,
        "eventName": "gen_ai.choice",
        "attributes": [attribute("gen_ai.system", "openai")],
    }
    logs = spans_of({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    assert has_all_parents(whole, PARENT)
    assert not has_all_parents([*whole, *logs], PARENT)
