"""Any JSON response of a server is either a turn or one failure of a known kind."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.providers.apis.anthropic import AnthropicSettings, MessagesDialogue
from agentv.providers.apis.anthropic import parse_line as parse_message_line
from agentv.providers.apis.anthropic import parse_state as parse_message_state
from agentv.providers.apis.batches import parse_line, parse_state
from agentv.providers.apis.dialogue import Dialogue, Turn, continue_conversation, open_conversation, parse_turn
from agentv.providers.apis.gemini import ContentDialogue, GeminiSettings
from agentv.providers.apis.http import HttpResponse, json_bytes, status_failure
from agentv.providers.apis.model_provider import to_message, to_response
from agentv.providers.apis.openai import OpenAISettings, make_dialogue
from agentv.providers.apis.streamed_response import StreamedResponse
from agentv.providers.apis.transport import utc_now
from agentv.types.json_value import JsonValue
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse

CHAT = make_dialogue(OpenAISettings(model="m", api_key="k"))
RESPONSES = make_dialogue(OpenAISettings(model="m", api_key="k", api="responses"))
MESSAGES = MessagesDialogue(AnthropicSettings(model="m", api_key="k"))
CONTENT = ContentDialogue(GeminiSettings(api_key="k"))

KEYS = [
    *("choices", "message", "content", "tool_calls", "function", "name", "arguments", "refusal", "finish_reason"),
    *("output", "type", "status", "error", "code", "details", "incomplete_details", "reason", "call_id", "id", "text"),
    *("stop_reason", "stop_details", "input", "candidates", "parts", "functionCall", "args", "finishReason", "thought"),
    *("usage", "usageMetadata", "promptTokenCount", "prompt_tokens", "input_tokens", "prompt_tokens_details", "model"),
    *("custom_id", "result", "response", "status_code", "body", "request_counts", "errors", "data", "retryDelay"),
]
WORDS = ["text", "message", "tool_use", "function_call", "failed", "refusal", "succeeded", "errored", "SAFETY", "STOP"]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.sampled_from(WORDS)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6)


def block(kind: str, **values: Any) -> Any:
    """Return a strategy for almost valid blocks."""
    return st.fixed_dictionaries({"type": st.just(kind) | LEAVES, **dict.fromkeys(values, LEAVES | JSON)})


def nearly(inner: Any) -> Any:
    return st.lists(inner | JSON, max_size=3) | JSON


CALL = st.fixed_dictionaries({"id": LEAVES, "function": st.fixed_dictionaries({"name": LEAVES, "arguments": LEAVES})})
CHAT_REPLY = st.fixed_dictionaries(
    {
        "choices": nearly(
            st.fixed_dictionaries(
                {"message": st.fixed_dictionaries({"content": JSON, "tool_calls": nearly(CALL)}), "finish_reason": JSON}
            )
        )
    },
    optional={"usage": OBJECTS, "id": JSON, "model": JSON},
)
OUTPUT = block("message", content=1) | block("function_call", call_id=1, name=1, arguments=1)
RESPONSES_REPLY = st.fixed_dictionaries({"output": nearly(OUTPUT)}, optional={"status": JSON, "usage": OBJECTS})
MESSAGES_REPLY = st.fixed_dictionaries(
    {"content": nearly(block("text", text=1) | block("tool_use", id=1, name=1, input=1))},
    optional={"stop_reason": JSON, "usage": OBJECTS},
)
PART = st.fixed_dictionaries({}, optional={"text": LEAVES, "functionCall": OBJECTS, "thought": JSON})
CONTENT_REPLY = st.fixed_dictionaries(
    {"candidates": nearly(st.fixed_dictionaries({"content": st.fixed_dictionaries({"parts": nearly(PART)})}))},
    optional={"promptFeedback": OBJECTS, "usageMetadata": OBJECTS},
)


KINDS = {"unexpected_shape", "content_filter", "malformed_reply", "bad_request", "server_error", "rate_limited"}


def outcome(parse: Callable[[], Any]) -> Any:
    """Return the parsed turn, else the kind of the failure."""
    try:
        return parse()
    except ProviderError as error:
        return error.failure.kind


def check(dialogue: Dialogue, value: JsonValue) -> None:
    """Parse a response as a provider does, and continue the conversation."""
    turn = outcome(lambda: parse_turn(dialogue, HttpResponse(200, {}, json_bytes(value))))
    if not isinstance(turn, Turn):
        assert turn in KINDS
        return
    assert isinstance(turn.text, str)
    assert all(call.tool and isinstance(call.tool, str) for call in turn.tool_calls)
    assert all(isinstance(text, str | None) for text in (turn.finish_reason, turn.model, turn.request_id))
    conversation = open_conversation(dialogue, ProviderRequest("?"))
    json_bytes(dialogue.build_body(continue_conversation(dialogue, conversation, turn, turn.tool_calls)))
    assert isinstance(to_response(turn, [to_message(turn)], turn.usage), ProviderResponse)


@given(value=OBJECTS | CHAT_REPLY | JSON)
def test_any_reply_to_a_chat(value: JsonValue) -> None:
    check(CHAT, value)


@given(value=OBJECTS | RESPONSES_REPLY)
def test_any_reply_to_responses(value: JsonValue) -> None:
    check(RESPONSES, value)


@given(value=OBJECTS | MESSAGES_REPLY)
def test_any_reply_to_messages(value: JsonValue) -> None:
    check(MESSAGES, value)


@given(value=OBJECTS | CONTENT_REPLY)
def test_any_reply_of_gemini(value: JsonValue) -> None:
    check(CONTENT, value)


INDEX = st.sampled_from([0, 0, 1]) | JSON
DELTA = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("content", "refusal", "reasoning_content", "role"), LEAVES | JSON),
        "tool_calls": nearly(st.fixed_dictionaries({"index": INDEX, "id": LEAVES, "function": OBJECTS})),
        "function_call": OBJECTS,
    },
)
CHUNK = st.fixed_dictionaries(
    {"choices": nearly(st.fixed_dictionaries({"index": INDEX, "delta": DELTA | JSON, "finish_reason": JSON}))},
    optional={"usage": OBJECTS, "id": JSON, "model": JSON},
)
RESPONSE_KINDS = [
    *("response.created", "response.output_item.added", "response.output_item.done", "response.output_text.delta"),
    *("response.function_call_arguments.delta", "response.reasoning_summary_text.delta", "response.completed"),
]
RESPONSE_EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(RESPONSE_KINDS)},
    optional={
        **dict.fromkeys(("output_index", "content_index", "summary_index"), INDEX),
        "delta": LEAVES | JSON,
        "item": OUTPUT | JSON,
        "response": RESPONSES_REPLY | JSON,
    },
)
MESSAGE_KINDS = [
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "ping"),
    "message_stop",
]
DELTA_KINDS = ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta", "other"]
BLOCK_DELTA = st.fixed_dictionaries(
    {"type": st.sampled_from(DELTA_KINDS)},
    optional=dict.fromkeys(("text", "thinking", "signature", "partial_json", "citation", "stop_reason"), LEAVES),
)
MESSAGE_EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(MESSAGE_KINDS), "index": INDEX, "delta": BLOCK_DELTA | JSON},
    optional={
        "message": MESSAGES_REPLY | JSON,
        "content_block": block("text", text=1) | block("tool_use", id=1, name=1) | JSON,
        "usage": OBJECTS | JSON,
    },
)
EVENTS: dict[str, tuple[Dialogue, Any]] = {
    "chat": (CHAT, CHUNK),
    "responses": (RESPONSES, RESPONSE_EVENT),
    "messages": (MESSAGES, MESSAGE_EVENT),
    "content": (CONTENT, CONTENT_REPLY),
}


@pytest.mark.parametrize("api", EVENTS)
@given(data=st.data())
def test_any_stream_of_events(api: str, data: st.DataObject) -> None:
    dialogue, event = EVENTS[api]
    reply = StreamedResponse(dialogue.collector(), now=lambda: 0.0)

    def read() -> JsonValue:
        for value in data.draw(st.lists(event | OBJECTS, max_size=6)):
            reply.feed(b"data: " + json_bytes(value) + b"\n\n")
        return reply.finish()

    value = outcome(read)
    if isinstance(value, str):
        assert value in {*KINDS, "transport", "auth"}
        value = reply.so_far()
    if value is not None:
        check(dialogue, value)


@given(line=OBJECTS)
@pytest.mark.parametrize("parse", [parse_line, parse_message_line])
def test_any_line_of_a_batch(parse: Any, line: Any) -> None:
    name, outcome = parse(line)
    assert isinstance(name, str)
    if isinstance(outcome, HttpResponse):
        assert isinstance(outcome.status, int)


@given(batch=OBJECTS)
@pytest.mark.parametrize("parse", [parse_state, parse_message_state])
def test_any_state_of_a_batch(parse: Any, batch: Any) -> None:
    state = outcome(lambda: parse(batch))
    assert state in KINDS or state.done >= 0


@given(status=st.integers(300, 599), body=JSON)
def test_any_refusal(status: int, body: JsonValue) -> None:
    failure = status_failure(HttpResponse(status, {}, json_bytes(body)), now=utc_now())
    assert failure is not None
    assert failure.retry_after_s is None or failure.retry_after_s >= 0
