import json
from typing import Any

import pytest
from tests.support.asking import make_request

from agentv.providers.apis.dialogue import Turn, open_conversation, parse_turn
from agentv.providers.apis.gemini import ContentDialogue, GeminiSettings
from agentv.providers.apis.http import HttpResponse
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.provider import ProviderError
from agentv.types.usage import Usage


def body_of(settings: dict[str, Any] | None = None, **request: Any) -> JsonObject:
    dialogue = ContentDialogue(GeminiSettings(api_key="k", **settings or {}))
    return dialogue.build_body(open_conversation(dialogue, make_request("?", **request)))


def parse(value: JsonValue) -> Turn:
    dialogue = ContentDialogue(GeminiSettings(api_key="k"))
    return parse_turn(dialogue, HttpResponse(200, {}, json.dumps(value).encode()))


def failure_in(value: JsonValue) -> Failure:
    with pytest.raises(ProviderError) as raised:
        parse(value)
    return raised.value.failure


def candidate(parts: JsonValue, reason: JsonValue = "STOP", **more: JsonValue) -> JsonObject:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, **more}]}


def test_a_response_is_parsed_completely() -> None:
    parts: JsonValue = [
        {"text": "hm", "thought": True},
        {"text": "One "},
        {"text": "moment."},
        {"functionCall": {"id": "f1", "name": "lookup", "args": {"order": 7}}, "thoughtSignature": "s"},
    ]
    turn = parse(
        {
            **candidate(parts),
            "modelVersion": "m-dated",
            "responseId": "r-1",
            "usageMetadata": {
                "promptTokenCount": 90,
                "toolUsePromptTokenCount": 10,
                "cachedContentTokenCount": 60,
                "candidatesTokenCount": 15,
                "thoughtsTokenCount": 25,
                "totalTokenCount": 140,
            },
        }
    )

    assert turn.text == "One moment."
    assert turn.tool_calls == (ToolCall("lookup", {"order": 7}, id="f1"),)
    assert turn.items == ({"role": "model", "parts": parts},)
    assert (turn.finish_reason, turn.is_cut, turn.request_id, turn.model) == ("STOP", False, "r-1", "m-dated")
    assert turn.usage == Usage(input=100, output=40, cached_input=60, reasoning=25, total=140, requests=1)


def test_a_model_that_thought_up_to_the_limit_said_nothing() -> None:
    turn = parse({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]})

    assert (turn.text, turn.finish_reason, turn.is_cut) == ("", "MAX_TOKENS", True)


def test_a_blocked_prompt_is_a_content_filter() -> None:
    failure = failure_in({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})

    assert failure.kind == "content_filter"
    assert failure.message == "the provider's filter blocked the prompt (PROHIBITED_CONTENT)"


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"])
def test_a_filtered_reply_is_none_whatever_came_before(reason: str) -> None:
    assert failure_in(candidate([{"text": "On its w"}], reason)).kind == "content_filter"


def test_a_call_that_the_provider_cannot_read_is_malformed() -> None:
    failure = failure_in(candidate([], "MALFORMED_FUNCTION_CALL", finishMessage="print(lookup(7)"))

    assert failure.kind == "malformed_reply"
    assert failure.message.endswith("(MALFORMED_FUNCTION_CALL): print(lookup(7)")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"candidates": []},
        {"candidates": [None]},
        {"candidates": [{}]},
        {"candidates": [{"content": {"parts": 4}, "finishReason": "STOP"}]},
        {"candidates": [{"content": {"parts": [{"text": 7}]}, "finishReason": "STOP"}]},
        {"candidates": [{"content": {"parts": ["text"]}, "finishReason": "STOP"}]},
        {"candidates": [{"content": 4, "finishReason": 7}]},
    ],
)
def test_a_reply_of_another_shape_is_none(value: JsonValue) -> None:
    failure = failure_in(value)

    assert failure.kind == "unexpected_shape"
    assert "candidates[0]" in failure.message


def test_answers_of_tools_are_objects() -> None:
    dialogue = ContentDialogue(GeminiSettings(api_key="k"))

    (turn,) = dialogue.tool_items([ToolCall("a", output={"x": 1}, id="f1"), ToolCall("b", output="text")])

    assert turn == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "f1", "name": "a", "response": {"x": 1}}},
            {"functionResponse": {"name": "b", "response": {"result": "text"}}},
        ],
    }


def test_functions_stand_in_one_group_and_the_apis_own_tools_beside_them() -> None:
    schema: JsonObject = {"type": "object"}
    tools: tuple[JsonObject, ...] = (
        {"name": "a", "parameters": schema},
        {"googleSearch": {}},
        {"type": "function", "function": {"name": "b"}},
    )

    assert body_of({"tools": tools})["tools"] == [
        {"functionDeclarations": [{"name": "a", "parameters_json_schema": schema}, {"name": "b"}]},
        {"googleSearch": {}},
    ]


def test_extra_keys_go_into_objects_that_are_there_already() -> None:
    body = body_of({"temperature": 0.2, "extra_body": {"generationConfig": {"topK": 5}, "contents": []}})

    assert body["generationConfig"] == {"temperature": 0.2, "topK": 5}
    assert body["contents"] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "api_key is needed, or a project for Vertex; write the key as \\${{ GEMINI_API_KEY }}"),
        ({"api_key": "k", "base_url": "localhost"}, "base_url must start with http:// or https://"),
        ({"api_key": "k", "location": "global"}, "location is for Vertex, which also needs a project"),
        ({"api_key": "k", "project": "p"}, "api_key cannot be combined with project"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GeminiSettings(**settings)


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("https://gate.example/", "https://gate.example/v1"),
        ("https://gate.example/v1beta/", "https://gate.example/v1beta"),
        ("https://gate.example/vertex", "https://gate.example/vertex/v1"),
    ],
)
def test_an_address_may_choose_the_version(base_url: str, root: str) -> None:
    assert GeminiSettings(base_url=base_url).root_url == root


def test_the_default_model_is_flash() -> None:
    assert GeminiSettings(api_key="k").model == "gemini-2.5-flash"
