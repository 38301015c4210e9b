"""Messages of other programs: what each real dump holds, and what is refused. The dumps are in fixtures/messages."""

import dataclasses
import json
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from pydantic import BaseModel
from tests.support.judging import make_context

from agentv.messages.shapes.fields import read_invalid_calls
from agentv.messages.shapes.objects import plain_json
from agentv.messages.shapes.reading import read_answer, read_message, read_messages
from agentv.scoring.tools.recorded_calls import recorded_calls
from agentv.types.errors import MessageError
from agentv.types.messages import DataPart, Message, TextPart, ToolCall
from agentv.types.messages_json import content_text, messages_from_json, messages_to_json

FOLDER = Path(__file__).parents[1] / "fixtures" / "messages"
DUMPS = [
    "ai_sdk response_messages",
    "ai_sdk ui_messages",
    "anthropic",
    "langchain convert_to_openai_messages",
    "langchain dumpd",
    "langchain messages_to_dict",
    "langchain model_dump",
    "openai_chat",
    "openai_responses",
    "pydantic_ai",
]


def dump(name: str) -> Any:
    file, _, key = name.partition(" ")
    written = json.loads((FOLDER / f"{file}.json").read_text("utf-8"))
    return written[key] if key else written


def calls_of(name: str) -> list[tuple[str, Any, Any]]:
    messages = read_messages(dump(name), "messages")
    return [
        (call.tool, call.input, call.output) for call in recorded_calls(make_context(output_messages=messages)) or ()
    ]


def read_one(**fields: Any) -> Message:
    (message,) = read_message({"role": "assistant", **fields}, "messages[0]")
    return message


@pytest.mark.parametrize("name", DUMPS)
def test_a_real_dump_is_read_to_its_answer_and_survives_storing(name: str) -> None:
    messages = read_messages(dump(name), "messages")
    assert content_text(messages[-1].content).replace("\n", "") in ("The capital is Paris.", "4")
    assert messages_from_json(json.loads(json.dumps(messages_to_json(messages)))) == messages
    again = read_messages(messages_to_json(messages), "messages")
    assert messages_to_json(again) == messages_to_json(messages)


SEARCH = {"q": "capital of France"}
CALLS = {
    "ai_sdk response_messages": [("search", SEARCH, {"hits": ["Paris"]})],
    "ai_sdk ui_messages": [("search", {"q": "x"}, {"hits": ["Paris"]})],
    "anthropic": [("search", SEARCH, {"error": "no such country"}), ("web_search", {"query": "Paris"}, [])],
    "langchain dumpd": [("search", {"q": "Paris"}, "Paris"), ("search", "{bad", {"error": "bad json"})],
    "langchain messages_to_dict": [("search", {"q": "Paris"}, "Paris"), ("search", "{bad", {"error": "bad json"})],
    "langchain model_dump": [("search", {"q": "Paris"}, "Paris"), ("search", "{bad", {"error": "bad json"})],
    "langchain convert_to_openai_messages": [("search", {"q": "Paris"}, "Paris")],
    "openai_chat": [("search", SEARCH, "Paris"), ("shell", "ls", "map.png"), ("search", {"q": "again"}, "Paris")],
    "openai_responses": [("search", SEARCH, "Paris")],
    "pydantic_ai": [
        ("search", SEARCH, {"hits": ["Paris"]}),
        ("search", {"q": "capital of Franse"}, {"error": "no such country"}),
    ],
}


@pytest.mark.parametrize("name", DUMPS)
def test_the_calls_of_a_real_dump_are_found_with_their_results(name: str) -> None:
    assert calls_of(name) == CALLS[name]


@pytest.mark.parametrize("name", ["ai_sdk ui_messages", "openai_chat", "openai_responses", "pydantic_ai"])
def test_reasoning_is_a_part_of_its_own_and_not_the_answer(name: str) -> None:
    messages = read_messages(dump(name), "messages")
    parts = [part for message in messages if isinstance(message.content, tuple) for part in message.content]
    assert [getattr(part, "type", None) for part in parts].count("reasoning") == 1
    assert all("ook it up" not in content_text(message.content) for message in messages)


@pytest.mark.parametrize(
    ("role", "ours"), [("developer", "system"), ("function", "tool"), ("data", "system"), ("user", "user")]
)
def test_roles_of_other_programs_are_ours(role: str, ours: str) -> None:
    assert read_one(role=role, content="hi") == Message(ours, "hi")  # type: ignore[arg-type]  # as given


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_calls": [{"tool": "delete", "input": {"id": 7}}]},
        {"toolCalls": [{"toolName": "delete", "args": {"id": 7}}]},
        {"tool_calls": [{"type": "function", "function": {"name": "delete", "arguments": '{"id": 7}'}}]},
        {"tool_calls": [{"name": "delete", "args": '{"id": 7}'}]},
        {"function_call": {"name": "delete", "arguments": '{"id": 7}'}, "content": None},
        {"toolInvocations": [{"state": "call", "toolName": "delete", "args": {"id": 7}}], "content": ""},
        {"parts": [{"type": "tool-invocation", "toolInvocation": {"toolName": "delete", "args": {"id": 7}}}]},
        {"parts": [{"type": "tool-delete", "state": "input-available", "input": {"id": 7}}]},
        {"parts": [{"type": "dynamic-tool", "toolName": "delete", "state": "call", "input": {"id": 7}}]},
    ],
)
def test_a_call_is_read_wherever_it_is_written(fields: dict[str, Any]) -> None:
    assert read_one(**fields).tool_calls == (ToolCall("delete", {"id": 7}),)


def test_each_step_of_a_ui_message_is_a_message() -> None:
    call = {"type": "tool-look", "toolCallId": "c", "state": "output-error", "errorText": "no"}
    steps = [{"type": "step-start"}, {"type": "text", "text": "Let me see."}, call]
    last = [{"type": "step-start"}, {"type": "text", "text": "It "}, {"type": "text", "text": "is."}]
    found = read_message({"role": "assistant", "parts": [*steps, *last]}, "m")
    assert found == (
        Message("assistant", "Let me see.", tool_calls=(ToolCall("look", None, {"error": "no"}, "c"),)),
        Message("assistant", "It is."),
    )


def test_a_call_in_the_parts_and_beside_them_counts_once() -> None:
    made = {"toolCallId": "c", "toolName": "look", "args": {}, "state": "result", "result": 1}
    parts = [{"type": "tool-invocation", "toolInvocation": made}, {"type": "text", "text": "Done."}]
    assert read_one(content="Done.", parts=parts, toolInvocations=[made]) == Message(
        "assistant", "Done.", tool_calls=(ToolCall("look", {}, 1, "c"),)
    )


def test_a_refusal_and_the_transcript_of_a_spoken_answer_are_its_text() -> None:
    assert read_one(content=None, refusal="I cannot.").content == "I cannot."
    assert read_one(content=None, audio={"id": "a", "transcript": "Hello."}).content == "Hello."


@pytest.mark.parametrize(
    "fields", [{"content": None}, {"content": ""}, {"content": []}, {"content": None, "refusal": None}]
)
def test_a_message_that_says_nothing_itself_is_empty(fields: dict[str, Any]) -> None:
    assert content_text(read_one(**fields).content) == ""


def test_calls_of_the_responses_api_have_the_names_of_their_tools() -> None:
    items = [
        {"type": "web_search_call", "id": "w", "action": {"query": "x"}, "status": "completed"},
        {"type": "mcp_call", "id": "m", "name": "delete", "arguments": "{}", "output": "gone", "server_label": "s"},
        {"type": "custom_tool_call", "call_id": "c", "name": "shell", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "a.txt"},
        {"type": "code_interpreter_call", "id": "i", "code": "1+1", "outputs": [{"logs": "2"}]},
    ]
    calls = recorded_calls(make_context(output_messages=read_messages(items, "m"))) or ()
    assert [(call.tool, call.input, call.output) for call in calls] == [
        ("web_search", {"query": "x"}, None),
        ("delete", {}, "gone"),
        ("shell", "ls", "a.txt"),
        ("code_interpreter", "1+1", [{"logs": "2"}]),
    ]


# --- objects -----------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    id: int
    colour: Colour


@dataclasses.dataclass
class ToolCallPart:
    tool_name: str
    args: object
    tool_call_id: str
    part_kind: str = "tool-call"


@dataclasses.dataclass
class ModelResponse:
    parts: list[ToolCallPart]
    kind: str = "response"


class RunItem:
    """As an item of openai-agents: the item of the API, beside an agent that cannot be written as JSON."""

    def __init__(self, raw_item: object) -> None:
        self.raw_item = raw_item
        self.agent = object()


def test_objects_are_read_by_their_fields() -> None:
    response = ModelResponse([ToolCallPart("refund", Order(id=7, colour=Colour.RED), "c1")])
    call = ToolCall("refund", {"id": 7, "colour": "red"}, id="c1")
    assert read_messages((response,), "m") == (Message("assistant", tool_calls=(call,)),)
    item = RunItem({"type": "function_call", "name": "refund", "arguments": "{}", "call_id": "c2"})
    assert read_messages([item], "m") == (Message("assistant", tool_calls=(ToolCall("refund", {}, id="c2"),)),)


def test_an_object_of_a_vendors_package_is_read_with_the_keys_it_does_not_know() -> None:
    made = ChatCompletionMessage.model_validate({"role": "assistant", "content": "4", "reasoning_content": "2 + 2"})
    (message,) = read_messages([made], "m")
    assert content_text(message.content) == "4"
    assert messages_to_json([message]) == [
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "text": "2 + 2"}, {"type": "text", "value": "4"}],
        }
    ]


def test_a_value_that_contains_itself_is_read_once() -> None:
    loop: list[object] = []
    loop.append(loop)
    (message,) = read_messages([{"role": "assistant", "tool_calls": [{"tool": "t", "input": loop}]}], "m")
    assert message.tool_calls[0].input == ["[a reference to a value that contains it]"]


class OwnMessage(Message, frozen=True):
    """A message of a program that has fields of its own."""


def test_a_message_of_a_sub_class_is_returned_unchanged() -> None:
    message = OwnMessage("assistant", "hi")
    assert plain_json(message) is message


def test_parts_of_messages_that_contain_each_other_are_refused() -> None:
    parts: list[object] = [TextPart("hi")]
    parts.append(parts)
    with pytest.raises(MessageError, match="is nested more than 100 levels deep"):
        plain_json(Message("assistant", parts))  # type: ignore[arg-type] # what a program may give


# --- refusals ----------------------------------------------------------------------------------------------------


EVENT = {"author": "shop", "invocation_id": "i"}
BLOCKS = {"role": "assistant", "blocks": [{"block_type": "text", "text": "Hi"}]}
RESULTS = {"source": "shop", "type": "ToolCallExecutionEvent"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hi", "m must be a list of messages, but is a text; write {role, content, "),
        (None, "m must be a list of messages, but is null"),
        ([object()], "m[0] is not a message, but of type object; write {role, content, "),
        ([{"role": "assistant", "text": "x"}], "m[0] has no content, and its 'text' is not understood; write {role, "),
        ([{"role": "assistant", "contents": "x"}], "m[0] has no content, and its 'contents' is not understood"),
        ([{"role": "assistant", "output": "x", "a": 1}], "m[0] has no content, and its 'output', 'a' are not"),
        ([{"role": "assistant"}], "m[0] has neither content nor tool calls"),
        ([{"text": "x"}], "m[0] has no role; its keys: 'text'; write {role, content, "),
        ([{"role": "bot", "content": "x"}], "m[0] has the unknown role 'bot'; known roles: system, user, assistant,"),
        ([{"role": ["a"], "content": "x"}], "m[0] has the unknown role ['a']"),
        ([{"role": "assistant", "content": "x", "toolUses": [1]}], "m[0].toolUses is not understood"),
        ([{"role": "assistant", "tool_calls": {"tool": "x"}}], "m[0].tool_calls must be a list of tool calls, but is"),
        ([{"role": "assistant", "tool_calls": [{"id": "x"}]}], 'm[0].tool_calls[0] is not a tool call: {"id":"x"}'),
        ([{"role": "assistant", "content": [{"type": "hum"}]}], "m[0].content[0] has the unknown type 'hum'; known"),
        ([{"role": "assistant", "content": [{"type": "tool_use"}]}], "m[0].content[0] is not a tool call"),
        ([{"role": "assistant", "content": [{"type": "text"}]}], "m[0].content[0] is a text part without a text"),
        ([{"role": "assistant", "content": [4]}], "m[0].content[0] is not a content part: 4"),
        ([{"role": "assistant", "parts": [{"functionCall": {}}]}], "m[0].parts[0] is a text part without a text"),
        ([{"kind": "response", "parts": [{"part_kind": "hum"}]}], "m[0].parts[0] has the unknown part_kind 'hum'"),
        ([{"kind": "request", "parts": "x"}], "m[0].parts must be a list of message parts"),
        ([{"type": "chat", "role": "critic", "content": "x"}], "m[0] has the unknown role 'critic'"),
        ([{"type": "remove", "content": "", "id": "x"}], "m[0] is a RemoveMessage"),
        ([{"type": "function_call", "arguments": "{}"}], "m[0] is not a tool call"),
        ([{"type": "reasoning", "summary": [{"type": "summary_text"}]}], "m[0].summary[0] is reasoning without a text"),
        (
            [{"type": "reasoning", "content": {"a": 1}}],
            'm[0].content must be a text or a list of texts, but is {"a":1}',
        ),
        ([{**EVENT, "content": "hi"}], "m[0] has no role; its keys: 'author', 'invocation_id', 'content'"),
        ([{**EVENT, "content": {"parts": "hi"}}], "m[0].parts must be a list of parts, but is hi"),
        ([{"role": "model", "parts": [{"functionCall": {"args": {}}}]}], "m[0].parts[0] is not a tool call"),
        ([{**BLOCKS, "additional_kwargs": {"tool_calls": "x"}}], "m[0].additional_kwargs.tool_calls must be a list of"),
        ([{**RESULTS, "content": "hi"}], "m[0].content must be a list of results of tools, but is hi"),
        (
            [{**RESULTS, "content": [4]}],
            "m[0].content[0] is not the result of a tool: 4; write {call_id, name, content}",
        ),
        ([{**RESULTS, "content": [{"name": "look"}]}], 'm[0].content[0] is not the result of a tool: {"name":"look"}'),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(given: Any, said: str) -> None:
    with pytest.raises(MessageError) as raised:
        read_messages(given, "m")
    assert said in str(raised.value)


def test_what_langchain_notes_for_the_responses_api_is_no_call() -> None:
    call = {"name": "search", "args": {"q": "Paris"}, "id": "c1", "type": "tool_call"}
    kwargs = {"__openai_function_call_ids__": {"c1": "fc_1"}}
    (message,) = read_messages([{"type": "ai", "content": [], "tool_calls": [call], "additional_kwargs": kwargs}], "m")
    assert [(each.tool, each.id) for each in message.tool_calls] == [("search", "c1")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "role",
        "content",
        "parts",
        "tool_calls",
        "toolInvocations",
        "type",
        "kind",
        "lc",
        "kwargs",
        "data",
        "function_call",
    ]
)
WORDS = st.sampled_from(["assistant", "user", "ai", "tool", "response", "request", "text", "function_call", "tool_use"])


@given(st.dictionaries(KEYS, WORDS | JSON | st.lists(st.dictionaries(KEYS, WORDS | JSON, max_size=3), max_size=2)))
def test_any_object_is_read_or_refused_and_never_lost(value: Mapping[str, Any]) -> None:
    messages: tuple[Message, ...] = ()
    with suppress(MessageError):
        messages = read_messages([value], "m")
        assert messages or value.get("parts") in ([], [{}])
    assert messages_from_json(messages_to_json(messages)) == messages


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"type": "reasoning", "content": "Let me see."}, "Let me see."),
        ({"type": "reasoning", "summary": ["Let me", {"text": "see."}]}, "Let me\nsee."),
        ({"role": "assistant", "content": None, "reasoning": [{"text": "hm"}]}, '[{"text":"hm"}]'),
        ({"role": "assistant", "content": None, "reasoning": True, "thinking": "hm"}, "hm"),
    ],
)
def test_reasoning_in_any_form_is_read(message: dict[str, Any], text: str) -> None:
    (read,) = read_messages([message], "m")
    assert read.content == (DataPart("reasoning", {"text": text}),)


# --- answers -----------------------------------------------------------------------------------------------------


def test_an_answer_without_a_role_is_the_assistants() -> None:
    assert read_answer({"content": "hi"}, "response") == Message("assistant", "hi")
    with pytest.raises(MessageError, match="response holds no message"):
        read_answer({"tool_calls": []}, "response")
    with pytest.raises(MessageError, match="response has no content, and its 'text' is not understood"):
        read_answer({"text": "hi"}, "response")


def test_an_answer_of_several_steps_is_what_was_said_last_with_all_calls() -> None:
    ui = dump("ai_sdk ui_messages")[1]
    call = ToolCall("search", {"q": "x"}, {"hits": ["Paris"]}, "c1")
    assert read_answer(ui, "response") == Message("assistant", "The capital is Paris.", tool_calls=(call,))


@pytest.mark.parametrize("kind", [list, tuple])
def test_invalid_calls_are_read_from_a_list_or_tuple(kind: type) -> None:
    call = {"name": "search", "args": "{q", "id": "c1", "error": "not JSON"}
    expected = (ToolCall("search", "{q", {"error": "not JSON"}, "c1"),)
    assert read_invalid_calls(kind([call]), "invalid_tool_calls") == expected


@pytest.mark.parametrize("key", ["tool_name", "toolName"])
def test_an_empty_output_of_a_tool_that_has_a_name_is_read(key: str) -> None:
    (message,) = read_messages([{"role": "tool", "content": "", key: "look"}], "messages")
    assert (message.role, message.name, message.content) == ("tool", "look", "")
