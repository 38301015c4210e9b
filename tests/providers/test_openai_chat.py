import json

import pytest
from msgspec.structs import replace
from tests.support.asking import make_request

from agentv.providers.apis.dialogue import Image, Turn, open_conversation
from agentv.providers.apis.dialogue import parse_turn as parse
from agentv.providers.apis.http import HttpRequest, HttpResponse
from agentv.providers.apis.openai import OpenAISettings, make_dialogue
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ChatMessage, ToolCall
from agentv.types.provider import ProviderError, ProviderRequest
from agentv.types.usage import Usage

SETTINGS = OpenAISettings(model="m-1", base_url="http://127.0.0.1:1/v1/", api_key="sk-secret")
QUESTION: list[JsonObject] = [{"role": "user", "content": "?"}]
KEY = {"Authorization": "Bearer sk-secret"}


def build_request(request: ProviderRequest, settings: OpenAISettings, *images: Image) -> HttpRequest:
    dialogue = make_dialogue(settings)
    return dialogue.build_request(open_conversation(dialogue, request, images), KEY)


def build_messages(request: ProviderRequest, *images: Image) -> JsonValue:
    messages: JsonValue = json.loads(build_request(request, SETTINGS, *images).body)["messages"]
    return messages


def parse_turn(reply: HttpResponse) -> Turn:
    return parse(make_dialogue(SETTINGS), reply)


def test_a_question_follows_the_system_prompt_and_guidelines() -> None:
    request = make_request("Why?", system_prompt="Be brief.", guidelines="Be kind.")

    assert build_messages(request) == [
        {"role": "system", "content": "Be brief.\n\n[[ ## Guidelines ## ]]\n\nBe kind."},
        {"role": "user", "content": "Why?"},
    ]
    assert build_messages(make_request("Why?")) == [{"role": "user", "content": "Why?"}]


def test_a_chat_prompt_is_sent_as_it_is_with_the_system_prompt_in_front() -> None:
    turns = (ChatMessage("system", "You are the shop."), ChatMessage("user", "Hi"), ChatMessage("assistant", "Yes?"))
    request = make_request(chat_prompt=turns, system_prompt="Be brief.", guidelines="stand in the chat prompt")

    assert build_messages(request) == [
        {"role": "system", "content": "Be brief.\n\nYou are the shop."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
    ]


def test_pictures_stand_with_the_last_user_message() -> None:
    request = make_request(chat_prompt=(ChatMessage("user", "Hi"), ChatMessage("assistant", "Yes?")))

    messages = build_messages(request, Image("image/png", b"\x89PNG"))
    assert isinstance(messages, list)
    assert messages[0]["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]


def body_of(settings: OpenAISettings, **fields: object) -> dict[str, JsonValue]:
    body: dict[str, JsonValue] = json.loads(build_request(make_request("?", **fields), settings).body)
    return body


def test_only_what_is_set_is_sent() -> None:
    request = build_request(make_request("?"), SETTINGS)

    assert request.url == "http://127.0.0.1:1/v1/chat/completions"
    assert request.headers == {"Content-Type": "application/json", "Authorization": "Bearer sk-secret"}
    assert json.loads(request.body) == {"model": "m-1", "messages": QUESTION}


def test_what_a_request_says_goes_before_what_the_target_says() -> None:
    settings = replace(SETTINGS, temperature=0.2, max_output_tokens=50)

    assert body_of(settings)["temperature"] == 0.2
    body = body_of(settings, model="m-2", temperature=0.0, max_output_tokens=9)
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m-2", 0.0, 9)


def test_openais_own_server_knows_the_token_limit_by_its_newer_name() -> None:
    settings = OpenAISettings(model="m", api_key="k", max_output_tokens=5)

    assert body_of(settings)["max_completion_tokens"] == 5
    assert "max_tokens" not in body_of(settings)


def test_extra_keys_and_headers_are_passed_through_and_win() -> None:
    settings = replace(SETTINGS, extra_body={"seed": 7, "model": "m-9"}, extra_headers={"Authorization": "Token x"})

    request = build_request(make_request("?"), settings)

    assert json.loads(request.body) == {"model": "m-9", "messages": QUESTION, "seed": 7}
    assert request.headers["Authorization"] == "Token x"


def test_a_schema_is_sent_to_every_server_unless_it_is_turned_off() -> None:
    schema = {"type": "object"}

    assert "response_format" not in body_of(SETTINGS)
    assert "response_format" not in body_of(replace(SETTINGS, structured_output=False), response_schema=schema)
    assert body_of(SETTINGS, response_schema=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": schema, "strict": True},
    }


def test_tools_may_be_written_short_or_as_the_api_has_them() -> None:
    short: JsonObject = {"name": "lookup", "parameters": {"type": "object"}}
    long: JsonObject = {"type": "function", "function": short}

    assert body_of(replace(SETTINGS, tools=(short, long)))["tools"] == [long, long]


def choice(message: JsonValue, finish_reason: JsonValue = "stop") -> JsonValue:
    return {"choices": [{"message": message, "finish_reason": finish_reason}]}


def parsed(value: JsonValue) -> HttpResponse:
    return HttpResponse(200, {}, json.dumps(value).encode())


def test_a_response_is_parsed_completely() -> None:
    usage: JsonValue = {
        "prompt_tokens": 100,
        "completion_tokens": 40,
        "total_tokens": 140,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    call: JsonValue = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"id": 7}'}}
    message: JsonValue = {"role": "assistant", "content": "One moment.", "tool_calls": [call]}
    value: JsonValue = {"id": "chat-1", "model": "m-1-dated", "usage": usage, **_object(choice(message, "tool_calls"))}

    reply = parse_turn(HttpResponse(200, {"x-request-id": "r-1"}, json.dumps(value).encode()))

    assert (reply.text, reply.finish_reason, reply.request_id, reply.model) == (
        "One moment.",
        "tool_calls",
        "r-1",
        "m-1-dated",
    )
    assert reply.tool_calls == (ToolCall("lookup", {"id": 7}, id="c1"),)
    assert reply.usage == Usage(input=100, output=40, cached_input=60, reasoning=30, total=140, requests=1)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None}, ""),
        ({}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 4]}, "ab"),
        ({"content": None, "refusal": "I cannot."}, "I cannot."),
    ],
)
def test_content_comes_in_several_forms(message: JsonValue, text: str) -> None:
    assert parse_turn(parsed(choice(message))).text == text


@pytest.mark.parametrize("usage", [None, 4, {}, {"prompt_tokens": "9", "completion_tokens": -1, "total_tokens": None}])
def test_usage_that_is_missing_or_wrong_costs_no_answer(usage: JsonValue) -> None:
    reply = parse_turn(parsed({**_object(choice({"content": "hi"})), "usage": usage}))

    assert reply.text == "hi"
    assert reply.usage in (None, Usage(requests=1))


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"", "malformed_reply", "the response is empty"),
        (b" \n", "malformed_reply", "the response is empty"),
        (b"<html>", "malformed_reply", "the response is not JSON: "),
        (b'{"choices": [{"mess', "malformed_reply", "the response is not JSON: "),
        (b"[" * 100_000, "malformed_reply", "the response is not JSON: "),
        (b'{"a": "caf\xe9"}', "malformed_reply", "the response is not UTF-8 (first invalid byte at offset 10)"),
        (b"null", "unexpected_shape", "the response has JSON null instead of an object"),
        (b"[]", "unexpected_shape", "the response has JSON list instead of an object"),
        (b"4", "unexpected_shape", "the response has JSON int instead of an object"),
        (b"{}", "unexpected_shape", "the response has no choices[0].message: {}"),
        (b'{"choices": []}', "unexpected_shape", "the response has no choices[0].message"),
        (b'{"choices": {"0": 1}}', "unexpected_shape", "the response has no choices[0].message"),
        (b'{"choices": [null]}', "unexpected_shape", "the response has no choices[0].message"),
        (b'{"choices": [{"message": null}]}', "unexpected_shape", "the response has no choices[0].message"),
        (b'{"error": {"message": "overloaded"}}', "unexpected_shape", "overloaded"),
        (b'{"choices": [{"message": {"content": 4}}]}', "unexpected_shape", "the response has a content that is int"),
        (b'{"choices": [{"message": {"content": {}}}]}', "unexpected_shape", "the response has a content that is dict"),
    ],
)
def test_every_broken_reply_is_one_failure(body: bytes, kind: str, message: str) -> None:
    with pytest.raises(ProviderError) as raised:
        parse_turn(HttpResponse(200, {}, body))

    assert raised.value.failure.kind == kind
    assert message in raised.value.failure.message
    assert len(raised.value.failure.message) < 1_000


def test_a_filtered_reply_says_so() -> None:
    with pytest.raises(ProviderError) as raised:
        parse_turn(parsed(choice({"content": ""}, "content_filter")))

    assert raised.value.failure.kind == "content_filter"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "localhost:8080"}, "base_url must start with http:// or https://"),
        ({}, "api_key is needed for https://api.openai.com/v1; write it as \\${{ OPENAI_API_KEY }}"),
        ({"api_key": "k", "max_output_tokens": 0}, "max_output_tokens must be at least 1"),
        ({"api_key": "k", "max_steps": 0}, "max_steps must be at least 1"),
    ],
)
def test_settings_that_no_server_can_accept_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OpenAISettings(model="m", **settings)  # type: ignore[arg-type] # wrong on purpose


def _object(value: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(value, dict)
    return value
