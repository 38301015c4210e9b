import json

import pytest

from agentv.providers.apis.responses import parse_output
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, ToolCall, TraceEvent
from agentv.types.provider import ProviderError

TOOL_TURN: JsonValue = {"role": "assistant", "tool_calls": [{"tool": "lookup"}]}


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("plain words\n", "plain words"),
        ("plain words\r\n", "plain words"),
        ("two\n\n", "two\n"),
        ("", ""),
        ("42", "42"),
        ("\ufeffhi", "hi"),
        ('\ufeff{"text": "hi"}', "hi"),
        ('"quoted"', '"quoted"'),
        ("[1, 2]", "[1, 2]"),
        ("{broken", "{broken"),
        ('{"answer": 42}\n', '{"answer": 42}'),
        ('{"text": "hello\\n"}', "hello\n"),
        ('{"text": 42}', "42"),
        ('{"text": {"a": [1]}}', '{"a":[1]}'),
        ('{"text": null, "x": 1}', '{"text": null, "x": 1}'),
        ('{"output_messages": [], "text": "fallback"}', "fallback"),
        ('{"role": "assistant", "content": "hi"}', "hi"),
        ('{"role": "admin", "content": "hi"}', '{"role": "admin", "content": "hi"}'),
    ],
)
def test_the_answer_is_the_text_of_an_object_or_everything(written: str, answer: str) -> None:
    assert parse_output(written).text == answer


@pytest.mark.parametrize("key", ["output_messages", "outputMessages"])
def test_the_last_assistant_message_that_has_content_is_the_answer(key: str) -> None:
    said: JsonValue = [
        {"role": "assistant", "content": "Let me look."},
        {"role": "assistant", "content": [{"type": "text", "value": "On its "}, {"type": "text", "value": "way."}]},
        TOOL_TURN,
        {"role": "user", "content": "thanks"},
    ]

    response = parse_output(json.dumps({key: said, "text": "not this"}))

    assert response.text == "On its way."
    assert response.output_messages is not None
    assert len(response.output_messages) == 4


def test_messages_are_the_answer_if_the_text_is_empty() -> None:
    said = [TOOL_TURN, {"role": "assistant", "content": "Paris"}]
    response = parse_output(json.dumps({"text": "", "messages": said}))
    assert (response.text, len(response.output_messages or ())) == ("Paris", 2)


def test_without_content_the_text_is_the_answer_and_the_calls_are_kept() -> None:
    response = parse_output(json.dumps({"output_messages": [TOOL_TURN], "text": "done"}))

    assert response.text == "done"
    assert response.output_messages is not None
    assert isinstance(response.output_messages[0], Message)
    assert parse_output(json.dumps({"output_messages": [TOOL_TURN]})).text == ""


def test_a_trace_is_read() -> None:
    trace: JsonValue = [{"type": "tool_call", "name": "lookup"}, {"type": "error", "text": "x"}]

    response = parse_output(json.dumps({"text": "done", "trace": trace}))

    assert response.trace == (TraceEvent("tool_call", name="lookup"), TraceEvent("error", text="x"))
    assert parse_output('{"text": "done"}').trace is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"output_messages": "none", "text": "x"}, "output_messages must be a list of messages, but is a text"),
        ({"output_messages": [TOOL_TURN, "noise"]}, "output_messages[1] is not a message, but a text; write {role, "),
        ({"output_messages": [{"role": "assistant", "text": "x"}]}, "has no content, and its 'text' is not understood"),
        ({"outputMessages": [{"role": "assistant", "toolUses": [1]}]}, "outputMessages[0].toolUses is not understood"),
        ({"text": "x", "tool_calls": [{"id": 1}]}, 'tool_calls[0] is not a tool call: {"id":1}'),
        ({"text": "x", "trace": [{"type": "thought"}]}, "trace[0] is not a trace event; write {type, …} with one of "),
    ],
)
def test_what_is_not_understood_is_a_failure_with_its_place(reply: JsonValue, said: str) -> None:
    with pytest.raises(ProviderError) as raised:
        parse_output(json.dumps(reply))
    assert raised.value.failure.kind == "unexpected_shape"
    assert said in raised.value.failure.message


def test_tool_calls_beside_the_text_belong_to_the_answer() -> None:
    calls: JsonValue = [{"type": "function", "id": "c1", "function": {"name": "delete", "arguments": '{"id": 7}'}}]
    call = ToolCall("delete", {"id": 7}, id="c1")
    assert parse_output(json.dumps({"text": "Done.", "tool_calls": calls})).output_messages == (
        Message("assistant", "Done.", tool_calls=(call,)),
    )
    said = [{"role": "assistant", "content": "Done."}]
    beside = parse_output(json.dumps({"output_messages": said, "toolCalls": calls}))
    assert (beside.text, [message.tool_calls for message in beside.output_messages or ()]) == ("Done.", [(call,), ()])
    repeated = parse_output(json.dumps({"output_messages": [TOOL_TURN], "tool_calls": calls}))
    assert repeated.output_messages == (Message("assistant", tool_calls=(ToolCall("lookup"),)),)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input": 3, "output": 4, "note": "x"}, (3, 4, 7)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9}, (3, 4, 9)),
        ({"input_tokens": 3, "output_tokens": 4.0}, (3, 4, 7)),
        ({"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}, (3, 4, 7)),
    ],
)
def test_usage_is_read_by_the_names_of_any_api(usage: JsonValue, counts: tuple[int, int, int]) -> None:
    found = parse_output(json.dumps({"text": "x", "usage": usage})).usage
    assert found is not None
    assert (found.input, found.output, found.total) == counts


def test_usage_without_a_count_is_unknown_and_reported() -> None:
    response = parse_output('{"text": "x", "usage": {"tokens": 4, "input": "3", "output": -1}}')
    assert response.usage is None
    assert response.notes == ("the usage in its responses has no known token counts; write {input, output}",)


@pytest.mark.parametrize("cost", ['"free"', "-3", "true", "1e999", "NaN", '{"total": 1}'])
@pytest.mark.parametrize("key", ["cost_usd", "cost"])
def test_a_cost_that_is_no_amount_is_unknown_and_reported(key: str, cost: str) -> None:
    response = parse_output(f'{{"text": "x", "{key}": {cost}}}')
    assert response.cost_usd is None
    assert response.notes == ("the cost in its responses is not an amount; write a number of dollars, 0 or more",)


@pytest.mark.parametrize(
    "beside", [{"cost_usd": 0.5}, {"cost": 0.5}, {"cost": "0.50"}, {"usage": {"input": 1, "cost": 0.5}}]
)
def test_cost_is_read_beside_the_text_or_in_the_usage(beside: dict[str, JsonValue]) -> None:
    response = parse_output(json.dumps({"text": "x", **beside}))
    assert (response.cost_usd, response.notes) == (0.5, ())


def test_keys_that_are_not_read_are_noted_only_in_a_reply_that_is_read() -> None:
    misspelt, unknown = parse_output('{"text": "x", "txet": 1, "shoe": 2}').notes
    assert misspelt == "its responses have the unknown key 'txet', which is ignored; did you mean 'text'?"
    assert unknown.startswith(
        "its responses have the unknown key 'shoe', which is ignored; known keys: text, output_messages, "
    )
    assert parse_output('{"answer": "x"}').notes == ()


def test_a_hundred_thousand_brackets_are_text() -> None:
    text = "[" * 100_000

    assert parse_output(text).text == text


def test_the_answer_file_of_agentv_4_has_messages_usage_and_cost() -> None:
    written = {
        "output": [
            {"role": "assistant", "tool_calls": [{"tool": "lookup", "input": {"id": 7}, "output": "ok"}]},
            {"role": "assistant", "content": "On its way."},
        ],
        "token_usage": {"input": 10, "output": 2, "cached": 4},
        "cost_usd": 0.25,
    }

    response = parse_output(json.dumps(written))

    assert response.text == "On its way."
    assert [call.tool for message in response.output_messages or () for call in message.tool_calls] == ["lookup"]
    assert response.usage is not None
    assert (response.usage.input, response.usage.output, response.usage.cached_input) == (10, 2, 4)
    assert response.cost_usd == 0.25
    assert response.notes == ()


@pytest.mark.parametrize("output", [[], [1], [{"x": 1}], "text", {"a": 1}])
def test_an_output_that_is_no_messages_is_the_answer_as_it_is(output: JsonValue) -> None:
    written = json.dumps({"output": output})

    assert parse_output(written).text == written
