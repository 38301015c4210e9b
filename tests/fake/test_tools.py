"""Tools, structured replies and limits, in the form of each API."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.fake.client import (
    ASK,
    CONTENTS,
    MESSAGES,
    SAID,
    TEXT_OF,
    chat,
    chat_text,
    gemini,
    gemini_text,
    messages,
    messages_text,
    post,
    responses,
    responses_text,
)

from agentv.fake import FakeServer

SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}


def test_chat_calls_a_tool_and_takes_its_answer(fake_server: FakeServer) -> None:
    tools = [{"type": "function", "function": {"name": "lookup", "parameters": SCHEMA}}]
    said = chat(fake_server, "calls-tool", tools=tools).json["choices"][0]
    (call,) = said["message"]["tool_calls"]
    assert (said["finish_reason"], said["message"]["content"]) == ("tool_calls", None)
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("lookup", {"order": 1})
    result = {"role": "tool", "tool_call_id": call["id"], "content": "20 euros"}
    answered = chat(fake_server, "calls-tool", tools=tools, messages=[*MESSAGES, said["message"], result])
    assert chat_text(answered.json) == "The tool answered: 20 euros"


def test_responses_call_a_tool_and_take_its_answer(fake_server: FakeServer) -> None:
    tools = [{"type": "function", "name": "lookup", "parameters": SCHEMA}]
    (call,) = responses(fake_server, "calls-tool", tools=tools).json["output"]
    assert (call["type"], call["name"], json.loads(call["arguments"])) == ("function_call", "lookup", {"order": 1})
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "20 euros"}
    answered = responses(fake_server, "calls-tool", tools=tools, input=[*MESSAGES, call, result])
    assert responses_text(answered.json) == "The tool answered: 20 euros"


def test_responses_call_a_custom_tool_with_plain_text(fake_server: FakeServer) -> None:
    said = '@call patch {"input": "*** Begin"}'
    answered = responses(fake_server, input=said, tools=[{"type": "custom", "name": "patch"}], stream=True)
    pieces = [event["delta"] for event in answered.events if event["type"].endswith("custom_tool_call_input.delta")]
    assert "".join(pieces) == "*** Begin"


def test_messages_call_a_tool_and_take_its_answer(fake_server: FakeServer) -> None:
    tools = [{"name": "lookup", "input_schema": SCHEMA}]
    said = messages(fake_server, "calls-tool", tools=tools).json
    (block,) = said["content"]
    assert (said["stop_reason"], block["name"], block["input"]) == ("tool_use", "lookup", {"order": 1})
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "20 euros"}]}
    turns = [
        *MESSAGES,
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": [result, {"type": "text", "text": "A reminder."}]},
    ]
    answered = messages(fake_server, "calls-tool", tools=tools, messages=turns)
    assert messages_text(answered.json) == "The tool answered: 20 euros"


def test_messages_take_a_tools_answer_before_a_system_message(fake_server: FakeServer) -> None:
    tools = [{"name": "lookup", "input_schema": SCHEMA}]
    call = {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"order": 1}}
    turns = [
        *MESSAGES,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "20 euros"}]},
        {"role": "system", "content": "Today is Monday."},
    ]
    body = {"model": "calls-tool", "max_tokens": 100, "tools": tools, "messages": turns}
    beta = "mid-conversation-system-2026-04-07"
    answered = post(fake_server, "/v1/messages", body, anthropic_version="2023-06-01", anthropic_beta=beta)
    assert messages_text(answered.json) == "The tool answered: 20 euros"


def test_gemini_calls_a_tool_and_takes_its_answer(fake_server: FakeServer) -> None:
    tools = [{"functionDeclarations": [{"name": "lookup", "parameters": SCHEMA}]}]
    said = gemini(fake_server, "calls-tool", tools=tools).json["candidates"][0]["content"]
    assert said["parts"] == [{"functionCall": {"name": "lookup", "args": {"order": 1}}}]
    result = {"role": "user", "parts": [{"functionResponse": {"name": "lookup", "response": {"total": 20}}}]}
    answered = gemini(fake_server, "calls-tool", tools=tools, contents=[*CONTENTS, said, result])
    assert gemini_text(answered.json) == 'The tool answered: {"total": 20}'


NAMELESS: Mapping[str, tuple[list[Any], str]] = {
    "chat": ([{"function": {"name": "a"}}, {}], "Missing required parameter: 'tools[1].function.name'."),
    "responses": ([{"name": "a"}, {"type": "function"}], "Missing required parameter: 'tools[1].name'."),
    "messages": ([{"name": "a"}, 0], "tools.1.name: Field required"),
}


@pytest.mark.parametrize("api", NAMELESS)
def test_a_tool_without_a_name_is_refused_by_its_index(fake_server: FakeServer, api: str) -> None:
    tools, message = NAMELESS[api]
    answered = ASK[api](fake_server, tools=tools)
    assert (answered.status, answered.json["error"]["message"]) == (400, message)


STRUCTURED: Mapping[str, dict[str, Any]] = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    "azure": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "gemini": {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
}
FORCED: Mapping[str, dict[str, Any]] = {
    "chat": {"tool_choice": "required", "tools": [{"function": {"name": "lookup", "parameters": SCHEMA}}]},
    "responses": {"tool_choice": "required", "tools": [{"type": "function", "name": "lookup", "parameters": SCHEMA}]},
    "messages": {"tool_choice": {"type": "any"}, "tools": [{"name": "lookup", "input_schema": SCHEMA}]},
    "gemini": {
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "tools": [{"functionDeclarations": [{"name": "lookup", "parameters": SCHEMA}]}],
    },
}
LIMITED: Mapping[str, dict[str, Any]] = {
    "chat": {"max_tokens": 2},
    "azure": {"max_completion_tokens": 2},
    "responses": {"max_output_tokens": 2},
    "messages": {"max_tokens": 2},
    "gemini": {"generationConfig": {"maxOutputTokens": 2}},
}


@pytest.mark.parametrize("api", STRUCTURED)
def test_a_schema_is_kept_to(fake_server: FakeServer, api: str) -> None:
    assert json.loads(TEXT_OF[api](ASK[api](fake_server, **STRUCTURED[api]).json)) == {"order": 1}


@pytest.mark.parametrize("api", FORCED)
def test_a_demanded_tool_is_called(fake_server: FakeServer, api: str) -> None:
    assert b"lookup" in ASK[api](fake_server, **FORCED[api]).body


@pytest.mark.parametrize("api", LIMITED)
def test_a_limit_of_tokens_is_kept(fake_server: FakeServer, api: str) -> None:
    assert TEXT_OF[api](ASK[api](fake_server, **LIMITED[api]).json) == SAID[:8]
