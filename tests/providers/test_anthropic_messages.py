import json
from typing import Any

import pytest
from tests.support.asking import make_request

from agentv.providers.apis.anthropic import AnthropicSettings, MessagesDialogue
from agentv.providers.apis.dialogue import Turn, open_conversation, parse_turn
from agentv.providers.apis.http import HttpResponse
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.provider import ProviderError
from agentv.types.usage import Usage


def body_of(settings: dict[str, Any] | None = None, **request: Any) -> JsonObject:
    dialogue = MessagesDialogue(AnthropicSettings(model="m", api_key="k", **settings or {}))
    return dialogue.build_body(open_conversation(dialogue, make_request("?", **request)))


def parse(value: JsonValue) -> Turn:
    dialogue = MessagesDialogue(AnthropicSettings(model="m", api_key="k"))
    return parse_turn(dialogue, HttpResponse(200, {"request-id": "req_1"}, json.dumps(value).encode()))


def failure_in(value: JsonValue) -> Failure:
    with pytest.raises(ProviderError) as raised:
        parse(value)
    return raised.value.failure


def test_a_response_is_parsed_completely() -> None:
    content: JsonValue = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "One "},
        {"type": "text", "text": "moment."},
        {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"order": 7}},
    ]
    turn = parse(
        {
            "id": "msg_1",
            "model": "m-dated",
            "content": content,
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 30,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 60,
                "output_tokens": 40,
                "output_tokens_details": {"thinking_tokens": 25},
            },
        }
    )

    assert turn.text == "One moment."
    assert turn.tool_calls == (ToolCall("lookup", {"order": 7}, id="toolu_1"),)
    assert turn.items == ({"role": "assistant", "content": content},)
    assert (turn.finish_reason, turn.is_cut, turn.request_id, turn.model) == ("tool_use", False, "req_1", "m-dated")
    assert turn.usage == Usage(input=100, output=40, cached_input=60, reasoning=25, total=140, requests=1)


@pytest.mark.parametrize(("stop_reason", "is_cut"), [("max_tokens", True), ("model_context_window_exceeded", True)])
def test_a_reply_that_was_cut_off_says_so(stop_reason: str, *, is_cut: bool) -> None:
    assert parse({"content": [], "stop_reason": stop_reason}).is_cut is is_cut


def test_a_refusal_of_the_provider_is_a_content_filter_with_its_reason() -> None:
    value: JsonValue = {"content": [], "stop_reason": "refusal", "stop_details": {"explanation": "harm"}}

    failure = failure_in(value)

    assert (failure.kind, failure.message) == ("content_filter", "the provider blocked the answer of the model: harm")


@pytest.mark.parametrize(
    "content",
    [
        *(None, {}, "text", [None], [{}], [{"type": 7}], [{"type": "text"}], [{"type": "text", "text": 7}]),
        *([{"type": "tool_use", "name": "lookup"}], [{"type": "tool_use", "id": "toolu_1", "name": None}]),
    ],
)
def test_content_of_another_shape_is_no_reply(content: JsonValue) -> None:
    failure = failure_in({"content": content})

    assert failure.kind == "unexpected_shape"
    assert failure.message.startswith("the response has no list of content blocks: ")


def test_blocks_of_a_new_kind_do_no_harm() -> None:
    assert parse({"content": [{"type": "hologram", "rays": 7}, {"type": "text", "text": "hi"}]}).text == "hi"


@pytest.mark.parametrize(
    ("settings", "request_", "limit"),
    [
        ({}, {}, 4096),
        ({"max_output_tokens": 100}, {}, 100),
        ({"max_output_tokens": 100}, {"max_output_tokens": 16}, 16),
        ({"thinking_budget": 2000}, {}, 6096),
        ({"thinking_budget": 2000}, {"max_output_tokens": 16}, 2016),
        ({"thinking_budget": 2000}, {"max_output_tokens": 3000}, 3000),
    ],
)
def test_a_limit_is_always_sent_and_leaves_room_for_an_answer(
    settings: dict[str, Any], request_: dict[str, Any], limit: int
) -> None:
    assert body_of(settings, **request_)["max_tokens"] == limit


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "lookup", "description": "d", "parameters": {"type": "object"}},
        {"name": "lookup", "description": "d", "input_schema": {"type": "object"}},
        {"name": "lookup", "description": "d", "parameters": {"type": "object"}, "strict": True},
        {"name": "lookup", "description": "d"},
        {"type": "custom", "name": "lookup", "description": "d", "input_schema": {"type": "object"}},
        {"type": "function", "function": {"name": "lookup", "description": "d", "parameters": {"type": "object"}}},
    ],
)
def test_tools_may_be_written_as_any_api_has_them(tool: JsonObject) -> None:
    tools = body_of({"tools": (tool,)})["tools"]

    assert tools == [{"name": "lookup", "description": "d", "input_schema": {"type": "object"}}]


def test_tools_of_the_api_itself_are_passed_on() -> None:
    tool: JsonObject = {"type": "web_search_20250305", "name": "web_search"}

    assert body_of({"tools": (tool,)})["tools"] == [tool]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "api_key is needed for https://api.anthropic.com; write it as \\${{ ANTHROPIC_API_KEY }}"),
        ({"base_url": "api.anthropic.com"}, "base_url must start with http:// or https://"),
        ({"api_key": "k", "thinking_budget": 100}, "thinking_budget must be at least 1024"),
        (
            {"api_key": "k", "thinking_budget": 2000, "max_output_tokens": 2000},
            "max_output_tokens must be larger than thinking_budget, which is part of it",
        ),
        (
            {"api_key": "k", "thinking_budget": 2000, "temperature": 0.0},
            "temperature cannot be combined with thinking_budget",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AnthropicSettings(model="m", **settings)


def test_a_key_may_come_as_a_header() -> None:
    AnthropicSettings(model="m", extra_headers={"X-Api-Key": "k"})
