"""`http` targets read event streams: OpenAI's chunks as they are, other events by the path of their text."""

import json
from typing import Any

import pytest
from tests.support.asking import ask, make_request, make_target
from tests.support.loopback import Answer, Server, reply, serving

from agentv.loading.models.settings import read_settings
from agentv.providers import PROVIDERS
from agentv.providers.local.http_provider import HttpSettings
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonValue
from agentv.types.messages import ToolCall
from agentv.types.provider import ProviderError, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

EVENTS = {"Content-Type": "text/event-stream"}
CALL: JsonValue = {"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": '{"order": 7}'}}
CHUNKS: tuple[JsonValue, ...] = (
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"content": "On its "}}]},
    {"choices": [{"delta": {"content": "way."}}]},
    {"choices": [{"delta": {"tool_calls": [CALL]}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.5}},
)
TOKENS: tuple[JsonValue, ...] = (
    {"type": "start", "id": 7},
    {"type": "token", "data": {"text": "On its "}},
    {"type": "token", "data": {"text": "way."}},
    {"type": "token", "data": {"text": None}},
    {"type": "end", "steps": [{"role": "assistant", "tool_calls": [{"tool": "lookup"}]}]},
    {"type": "bill", "usage": {"input": 10, "output": 2, "dollars": 0.5}},
)


def events(*values: JsonValue, end: str = "") -> Answer:
    body = "".join(f"data: {json.dumps(value)}\n\n" for value in values) + end
    return reply(body, headers=EVENTS)


def target_at(server: Server, **settings: Any) -> ResolvedTarget:
    return make_target("http", HttpSettings(server.url, body={"question": "{{ question }}"}, **settings))


def answered(answer: Answer, **settings: Any) -> ProviderResponse:
    with serving(answer) as server:
        return ask(target_at(server, **settings))


def failed(answer: Answer, **settings: Any) -> ProviderError:
    with serving(answer) as server, pytest.raises(ProviderError) as raised:
        ask(target_at(server, **settings), make_request(timeout_s=5.0))
    return raised.value


@pytest.mark.parametrize("settings", [{}, {"usage": "$.usage"}])
def test_chunks_of_the_chat_api_need_no_path(settings: dict[str, str]) -> None:
    response = answered(events(*CHUNKS, end="data: [DONE]\n\n"), **settings)

    assert (response.text, response.finish_reason) == ("On its way.", "stop")
    assert response.output_messages is not None
    assert response.output_messages[0].tool_calls == (ToolCall("lookup", {"order": 7}, id="c1"),)
    assert response.usage is not None
    assert (response.usage.input, response.usage.output, response.notes) == (10, 2, ())
    assert response.first_token_ms is not None


def test_paths_for_a_plain_chat_response_hold_for_its_stream() -> None:
    paths = {"response": "$.choices[0].message.content", "usage": "$.usage", "cost": "$.usage.cost"}
    response = answered(events(*CHUNKS), **paths)

    assert (response.text, response.cost_usd) == ("On its way.", 0.5)
    assert response.usage == Usage(input=10, output=2, total=12)


def test_the_text_of_each_event_is_joined_and_the_rest_comes_once() -> None:
    paths = {"output_messages": "$.steps", "usage": "$.usage", "cost": "$.usage.dollars"}
    response = answered(events(*TOKENS), event_text="$.data.text", **paths)

    assert (response.text, response.cost_usd, response.usage) == (
        "On its way.",
        0.5,
        Usage(input=10, output=2, total=12),
    )
    assert response.output_messages is not None
    assert [call.tool for call in response.output_messages[0].tool_calls] == ["lookup"]
    assert response.notes == ()
    assert response.first_token_ms is not None


def test_an_answer_that_stands_in_one_event_has_the_path_of_a_plain_response() -> None:
    steps: JsonValue = [{"role": "assistant", "content": "On its way."}]
    service = events({"step": 1}, {"answer": "On its"}, {"answer": "On its way.", "steps": steps}, {"took_ms": 7})

    assert answered(service, response="$.answer").text == "On its way."
    assert answered(service, output_messages="$.steps").text == "On its way."


def test_a_reply_that_does_not_stream_is_read_as_before() -> None:
    whole = reply('{"answer": "On its way."}', headers={"Content-Type": "application/json"})
    response = answered(whole, stream=True, event_text="$.delta", response="$.answer")

    assert (response.text, response.first_token_ms) == ("On its way.", None)


@pytest.mark.parametrize(
    ("headers", "accepted"), [({}, "text/event-stream"), ({"accept": "application/x-lines"}, "application/x-lines")]
)
def test_a_stream_is_asked_for(headers: dict[str, str], accepted: str) -> None:
    with serving(events(*CHUNKS)) as server:
        ask(target_at(server, stream=True, headers=headers))
    assert server.requests[0].headers["accept"] == accepted


@pytest.mark.parametrize(
    ("sent", "settings", "said"),
    [
        (TOKENS, {}, "set event_text, the JSONPath to the text in an event"),
        (TOKENS, {"usage": "$.usage"}, "set event_text"),
        (TOKENS, {"event_text": "$.delta"}, 'event_text: $.delta matches nothing in the response: {"type":"start"'),
        (TOKENS, {"response": "$.answer"}, "response: $.answer matches nothing"),
        ((["a list"],), {"event_text": "$.delta"}, "JSON list instead of an object as event 1"),
    ],
)
def test_events_that_are_not_understood_are_refused(sent: tuple[Any, ...], settings: dict[str, str], said: str) -> None:
    error = failed(events(*sent), **settings)

    assert (error.failure.kind, error.failure.retryable) == ("unexpected_shape", False)
    assert said in error.failure.message
    assert error.partial is None


@pytest.mark.parametrize("event", ['event: error\ndata: {"detail": "It broke."}', 'data: {"error": "It broke."}'])
def test_an_error_event_is_a_failure_with_the_text_before_it(event: str) -> None:
    error = failed(events(*TOKENS[:2], end=f"{event}\n\n"), event_text="$.data.text")

    assert (error.failure.kind, error.failure.retryable) == ("server_error", True)
    assert "It broke." in error.failure.message
    assert error.partial is not None
    assert error.partial.text == "On its "


def test_a_connection_that_breaks_is_a_failure_with_the_text_before_it() -> None:
    body = "".join(f"data: {json.dumps(value)}\n\n" for value in TOKENS[:3])
    error = failed(reply(body, headers=EVENTS, length=len(body) + 9), event_text="$.data.text")

    assert (error.failure.kind, error.failure.retryable) == ("transport", True)
    assert error.partial is not None
    assert error.partial.text == "On its way."


def test_chunks_without_an_end_are_a_cut_stream() -> None:
    error = failed(events(*CHUNKS[:3]))

    assert (error.failure.kind, error.failure.retryable) == ("transport", True)
    assert error.partial is not None
    assert error.partial.text == "On its way."


def test_a_path_with_an_error_is_refused_in_the_file() -> None:
    with pytest.raises(EvalFileError, match="event_text is not a valid JSONPath"):
        read_settings(
            PROVIDERS.get("http"),
            {"url": "http://h/", "body": {"q": "{{ question }}"}, "event_text": "delta"},
            where="here",
        )
