"""Streams: their pieces join to the plain reply, and their events are those of the API."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fake.client import ASK, TEXT_OF, chat, gemini_text, messages, responses

from agentv.fake import FakeServer


def chat_streamed(events: list[Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def responses_streamed(events: list[Any]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def messages_streamed(events: list[Any]) -> str:
    deltas = (event["delta"] for event in events if event["type"] == "content_block_delta")
    return "".join(delta["text"] for delta in deltas if delta["type"] == "text_delta")


def gemini_streamed(events: list[Any]) -> str:
    return "".join(gemini_text(event) for event in events)


JOINED: Mapping[str, Callable[[list[Any]], str]] = {
    "chat": chat_streamed,
    "azure": chat_streamed,
    "responses": responses_streamed,
    "messages": messages_streamed,
    "gemini": gemini_streamed,
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(ASK)), st.text(min_size=1, max_size=60))
def test_the_pieces_of_a_stream_are_the_plain_answer(shared_server: FakeServer, api: str, said: str) -> None:
    turns = [{"role": "user", "content": said}]
    body: dict[str, Any] = {"messages": turns, "input": turns, "contents": [{"parts": [{"text": said}]}]}
    streamed = ASK[api](shared_server, stream=True, **body).events
    assert JOINED[api](streamed) == TEXT_OF[api](ASK[api](shared_server, **body).json)


def test_a_chat_stream_ends_as_it_should(fake_server: FakeServer) -> None:
    answered = chat(fake_server, stream=True, stream_options={"include_usage": True})
    *_, finish, used = answered.events
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert (used["choices"], used["usage"]["total_tokens"]) == ([], 12)
    assert answered.body.endswith(b"data: [DONE]\n\n")


def test_a_responses_stream_numbers_its_events_and_ends_with_the_response(fake_server: FakeServer) -> None:
    events = responses(fake_server, stream=True).events
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1] == {
        "type": "response.completed",
        "sequence_number": len(events) - 1,
        "response": responses(fake_server).json,
    }


def test_a_messages_stream_opens_and_closes_each_block(fake_server: FakeServer) -> None:
    answered = messages(fake_server, stream=True, thinking={"type": "enabled", "budget_tokens": 500})
    kinds = [event["type"] for event in answered.events if not event["type"].endswith("delta")]
    block = ["content_block_start", "content_block_stop"]
    assert kinds == ["message_start", "ping", *block, *block, "message_stop"]
    assert answered.body.startswith(b"event: message_start\ndata: ")
