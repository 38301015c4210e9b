import json

import pytest

from agentv.providers.apis.replies import parse_output
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, TraceEvent

TOOL_TURN: JsonValue = {"role": "assistant", "tool_calls": [{"tool": "lookup"}]}


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("plain words\n", "plain words"),
        ("plain words\r\n", "plain words"),
        ("two\n\n", "two\n"),
        ("", ""),
        ("42", "42"),
        ('"quoted"', '"quoted"'),
        ("[1, 2]", "[1, 2]"),
        ("{broken", "{broken"),
        ('{"answer": 42}\n', '{"answer": 42}'),
        ('{"text": "hello\\n"}', "hello\n"),
        ('{"text": 42}', "42"),
        ('{"text": {"a": [1]}}', '{"a":[1]}'),
        ('{"text": null, "x": 1}', '{"text": null, "x": 1}'),
        ('{"output_messages": [], "text": "fallback"}', "fallback"),
        ('{"output_messages": "none", "text": "fallback"}', "fallback"),
    ],
)
def test_the_answer_is_the_text_of_an_object_or_everything(written: str, answer: str) -> None:
    assert parse_output(written).text == answer


@pytest.mark.parametrize("key", ["output_messages", "outputMessages"])
def test_the_last_assistant_message_that_has_content_is_the_answer(key: str) -> None:
    said: JsonValue = [
        {"role": "assistant", "content": "Let me look."},
        {"role": "assistant", "content": [{"type": "text", "value": "On its"}, {"type": "text", "value": "way."}]},
        TOOL_TURN,
        {"role": "user", "content": "thanks"},
        "noise",
    ]

    response = parse_output(json.dumps({key: said, "text": "not this"}))

    assert response.text == "On its\nway."
    assert response.output_messages is not None
    assert len(response.output_messages) == 4


def test_without_content_the_text_is_the_answer_and_the_calls_are_kept() -> None:
    response = parse_output(json.dumps({"output_messages": [TOOL_TURN], "text": "done"}))

    assert response.text == "done"
    assert response.output_messages is not None
    assert isinstance(response.output_messages[0], Message)
    assert parse_output(json.dumps({"output_messages": [TOOL_TURN]})).text == ""


def test_a_trace_is_read_and_what_is_no_event_ignored() -> None:
    trace: JsonValue = [{"type": "tool_call", "name": "lookup"}, {"type": "thought"}, 4, {"type": "error", "text": "x"}]

    response = parse_output(json.dumps({"text": "done", "trace": trace}))

    assert response.trace == (TraceEvent("tool_call", name="lookup"), TraceEvent("error", text="x"))
    assert parse_output('{"text": "done"}').trace is None


def test_a_hundred_thousand_brackets_are_text() -> None:
    text = "[" * 100_000

    assert parse_output(text).text == text
