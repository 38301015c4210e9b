"""Parts of spans that are not understood: an error or a note with their place, never a message without them."""

import json
from typing import Any

import pytest
from tests.support.spans import export
from tests.telemetry.test_joining import assistant, call, join, user

from agentv.telemetry.contents.contents import said
from agentv.types.messages import DataPart, Message

PLACE = "$.attributes.gen_ai.output.messages"


def why_not(answer: dict[str, Any]) -> str | None:
    """Return why a call with this answer has none that can be read."""
    (one,), _ = join(export(call(1, [user("Where?")], answer)))
    assert one.messages == ()
    return one.error


@pytest.mark.parametrize(
    ("fields", "place", "what"),
    [
        ({"content": [{"text": "Hm."}, {"toolUse": "find"}]}, ".content[1].toolUse", "must be an object, but is find"),
        ({"content": [{"toolResult": None}]}, ".content[0].toolResult", "must be an object, but is null"),
        ({"content": [{"tool_call": ["find"]}]}, ".content[0].tool_call", 'must be an object, but is ["find"]'),
        ({"content": [{"image": "x"}, {"text": "Hm."}]}, ".content[0].image", "must be an object, but is x"),
        ({"content": [{"reasoningContent": {"a": 1}}]}, ".content[0].reasoningContent", "has no text: {"),
        ({"content": [{"reasoning": {"reasoning_text": 1}}]}, ".content[0].reasoning", "has no text: {"),
        (
            {"parts": [{"type": "text", "content": "Hm."}], "tool_calls": ["find"]},
            ".tool_calls[0]",
            "is not a tool call: find",
        ),
        (
            {"parts": [{"type": "text", "content": "Hm."}], "tool_calls": {"a": 1}},
            ".tool_calls",
            "must be a list of tool calls, but is {",
        ),
    ],
)
def test_a_part_that_is_not_understood_is_an_error_with_its_place(
    fields: dict[str, Any], place: str, what: str
) -> None:
    error = why_not({"role": "assistant", **fields})
    assert error is not None
    assert error.startswith(f"cannot be read: gen_ai messages: {PLACE}[0]{place} {what}")


def test_calls_beside_parts_may_be_json() -> None:
    calls = json.dumps([{"id": "c1", "function": {"name": "find", "arguments": "{}"}}])
    answer = {**assistant("Hm."), "tool_calls": calls}
    (one,), _ = join(export(call(1, [user("Where?")], answer)))
    assert [each.tool for each in one.messages[-1].tool_calls] == ["find"]


def test_a_content_beside_an_empty_list_of_parts_is_read() -> None:
    (one,), _ = join(export(call(1, [{"role": "user", "parts": [], "content": "Where?"}], assistant("Here."))))
    assert one.messages[0] == Message("user", "Where?")


def test_redacted_reasoning_of_the_converse_api_is_a_part() -> None:
    content = [{"reasoningContent": {"redactedContent": "x"}}, {"cachePoint": {"type": "default"}}, {"text": "Here."}]
    (one,), _ = join(export(call(1, [user("Where?")], {"role": "assistant", "content": content})))
    parts = one.messages[-1].content
    assert isinstance(parts, tuple)
    assert parts[0] == DataPart("redacted_thinking", {"redactedContent": "x"})
    assert one.text == "Here."


@pytest.mark.parametrize(
    ("value", "text"),
    [([{"document": "Orders"}], "Orders"), ([{"text": "a"}, {"video": 5}], '[{"text":"a"},{"video":5}]')],
)
def test_an_input_with_the_keys_of_parts_may_be_any_value(value: Any, text: str) -> None:
    assert said(value, "user", "$") == (Message("user", text),)


def test_a_text_with_the_keys_of_parts_is_a_text() -> None:
    text = '[{"document": "Orders"}]'
    (one,), _ = join(export(call(1, [{"role": "user", "content": text}], assistant("Here."))))
    assert one.messages[0] == Message("user", text)
