"""A reply that comes as events is the same response as one that comes whole; one that is cut is a failure with it."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fake.client import ASK
from tests.support.asking import ask, make_request, with_provider
from tests.support.fake_server import serving_fake
from tests.support.loopback import Answer, reply, serving
from tests.support.model_apis import MODEL_APIS

from agentv.execution.cancelled_calls import attached_partial
from agentv.fake import FakeServer, Question, Reply, ToolUse
from agentv.providers.apis.anthropic import MessagesCollector
from agentv.providers.apis.gemini import ContentCollector
from agentv.providers.apis.openai import ResponsesCollector
from agentv.providers.apis.openai_chat import ChatCollector
from agentv.providers.apis.streamed_response import Collector, StreamedResponse
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import Provider, ProviderError, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

SCRIPT = 'Look it up.\n@call lookup {"order": 7}\n@say It is on its way.'
SAID = "You said: Where is my order?"
EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}

apis = pytest.mark.parametrize("api", MODEL_APIS.values(), ids=list(MODEL_APIS))


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


def raised_by(target: ResolvedTarget, **fields: object) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        ask(target, make_request(**fields))  # type: ignore[arg-type] # a test's own
    return raised.value


def without_its_own(response: ProviderResponse) -> ProviderResponse:
    """Leave out what differs from request to request."""
    return replace(response, request_id=None, first_token_ms=None)


# --- the same answer both ways --------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
arguments = st.dictionaries(texts.filter(bool), texts | st.integers(-9, 9) | st.none() | st.lists(texts, max_size=2))
uses = st.lists(arguments, max_size=3).map(
    lambda given: tuple(ToolUse(f"tool_{at}", each, f"call_{at}") for at, each in enumerate(given))
)
replies = st.builds(
    Reply, texts, uses, finish=st.sampled_from(["stop", "length"]), thinking=st.sampled_from(["", "Hm, a  thought."])
)


@pytest.fixture(scope="module")
def given_replies() -> Iterator[tuple[FakeServer, list[Reply]]]:
    """A server that always gives the last reply of the list."""
    given_so_far = [Reply()]

    def last(_: Question) -> Reply:
        return given_so_far[-1]

    with serving_fake(answer=last) as server:
        yield server, given_so_far


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(reply=replies)
@apis
def test_a_streamed_response_is_the_same_response(
    given_replies: tuple[FakeServer, list[Reply]], api: Any, reply: Reply
) -> None:
    server, given_so_far = given_replies
    given_so_far.append(reply)

    plain, streamed = (ask(api.target(server.url, stream=stream)) for stream in (False, True))

    assert without_its_own(streamed) == without_its_own(plain)
    wrote = reply.text or reply.tool_uses or (reply.thinking and plain.reasoning)
    assert (streamed.first_token_ms is not None) == bool(wrote)
    assert plain.first_token_ms is None


@apis
def test_a_streamed_dialogue_with_tools_is_the_same(server: FakeServer, api: Any) -> None:
    options = {"tools": ({"name": "lookup", "parameters": {}},), "tool_responses": {"lookup": {"status": "sent"}}}

    plain, streamed = (
        ask(api.target(server.url, stream=stream, **options), make_request(SCRIPT)) for stream in (False, True)
    )

    assert streamed.text == "It is on its way."
    assert without_its_own(streamed) == without_its_own(plain)


CHUNK = {"id": "chat-1", "model": "m-1", "object": "chat.completion.chunk"}


def chunks(*deltas: JsonObject, finish_reason: str | None = "stop", **more: JsonValue) -> list[JsonObject]:
    events: list[JsonObject] = [{**CHUNK, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return [*events, {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}], **more}]


def completion(finish_reason: str = "stop", **message: JsonValue) -> JsonObject:
    return {"id": "chat-1", "model": "m-1", "choices": [{"message": message, "finish_reason": finish_reason}]}


def call(id_: str, order: int) -> JsonObject:
    return {"id": id_, "type": "function", "function": {"name": "lookup", "arguments": json.dumps({"order": order})}}


MESSAGE: JsonObject = {"id": "msg-1", "model": "m-1", "role": "assistant", "stop_reason": None}

PAIRS: Mapping[str, tuple[str, list[JsonObject], JsonObject]] = {
    "a prompt filter of Azure before the first choice": (
        "azure",
        [{"choices": [], "prompt_filter_results": []}, *chunks({"content": "4"})],
        completion(content="4"),
    ),
    "reasoning in pieces": (
        "openai-chat",
        chunks({"role": "assistant", "content": None, "reasoning_content": "Hm"}, {"reasoning_content": ", 4."}),
        completion(content=None, reasoning_content="Hm, 4."),
    ),
    "thinking in the text": (
        "openai-chat",
        chunks({"content": "<thi"}, {"content": "nk>Hm</think>\n"}, {"content": "4"}),
        completion(content="<think>Hm</think>\n4"),
    ),
    "a refusal": (
        "openai-chat",
        chunks({"role": "assistant", "content": "", "refusal": None}, {"refusal": "I "}, {"refusal": "cannot."}),
        completion(content=None, refusal="I cannot."),
    ),
    "parts instead of a text": (
        "openai-chat",
        chunks({"content": [{"type": "text", "text": "The cap"}]}, {"content": [{"type": "text", "text": "ital"}]}),
        completion(content=[{"type": "text", "text": "The cap"}, {"type": "text", "text": "ital"}]),
    ),
    "two calls, piece by piece, and usage after the end": (
        "openai-chat",
        [
            *chunks(
                {"tool_calls": [{**call("c1", 7), "index": 0, "function": {"name": "lookup", "arguments": ""}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": '{"order"'}}]},
                {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "lookup", "arguments": '{"order": 8}'}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": ": 7}"}}]},
                finish_reason="tool_calls",
            ),
            {**CHUNK, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}},
        ],
        {
            **completion("tool_calls", content=None, tool_calls=[call("c1", 7), call("c2", 8)]),
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        },
    ),
    "whole calls that all say index 0": (
        "openai-chat",
        chunks(*({"tool_calls": [{"index": 0, **call(id_, 7)}]} for id_ in ("c1", "c2"))),
        completion(tool_calls=[call("c1", 7), call("c2", 7)]),
    ),
    "whole calls without an index": (
        "openai-chat",
        chunks(*({"tool_calls": [call(id_, 7)]} for id_ in ("c1", "c2"))),
        completion(tool_calls=[call("c1", 7), call("c2", 7)]),
    ),
    "the older function_call": (
        "openai-chat",
        chunks(
            {"function_call": {"name": "lookup", "arguments": '{"or'}}, {"function_call": {"arguments": 'der": 7}'}}
        ),
        completion(function_call={"name": "lookup", "arguments": '{"order": 7}'}),
    ),
    "a second choice, which does not count": (
        "openai-chat",
        [
            *chunks({"content": "4"}, finish_reason=None),
            {"choices": [{"index": 1, "delta": {"content": "5"}}]},
            *chunks(),
        ],
        completion(content="4"),
    ),
    "a whole message in one event": (
        "openai-chat",
        [completion(content="4")],
        completion(content="4"),
    ),
    "blocks of every type": (
        "anthropic",
        [
            {"type": "message_start", "message": {**MESSAGE, "content": [], "usage": {"input_tokens": 10}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "ping"},
            {"type": "an_event_of_tomorrow"},
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "t1", "name": "now"},
            },
            {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "4"}},
            {"type": "content_block_delta", "index": 2, "delta": {"type": "citations_delta", "citation": {}}},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"input_tokens": None, "output_tokens": 2},
            },
            {"type": "message_stop"},
        ],
        {
            **MESSAGE,
            "content": [
                {"type": "thinking", "thinking": "Hm"},
                {"type": "tool_use", "id": "t1", "name": "now"},
                {"type": "text", "text": "4"},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 10, "output_tokens": 2},
        },
    ),
    "thoughts and a signature": (
        "gemini",
        [
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hm", "thought": True}]}}]},
            {"candidates": [{"content": {"parts": [{"text": "4", "thoughtSignature": "s"}]}}]},
            {"candidates": [{"content": {"parts": [{"functionCall": {"name": "now", "args": {}}}]}}]},
            {
                "candidates": [{"finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2},
            },
        ],
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "Hm", "thought": True},
                            {"text": "4", "thoughtSignature": "s"},
                            {"functionCall": {"name": "now", "args": {}}},
                        ],
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2},
        },
    ),
    "a last event without the items that came before": (
        "openai-responses",
        [
            {"type": "response.created", "response": {"id": "r", "model": "m-1", "output": []}},
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {"type": "message", "content": [{"type": "output_text", "text": "4"}]},
            },
            {
                "type": "response.completed",
                "response": {"id": "r", "model": "m-1", "status": "completed", "output": []},
            },
        ],
        {
            "id": "r",
            "model": "m-1",
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "4"}]}],
        },
    ),
}


def stream_of(events: list[JsonObject], *, end: str = "") -> bytes:
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


def streaming(events: list[JsonObject], *, end: str = "") -> Answer:
    return reply(stream_of(events, end=end), headers=EVENTS)


@pytest.mark.parametrize("name", PAIRS)
def test_what_real_servers_stream_is_read_like_their_plain_responses(name: str) -> None:
    api, events, plain = PAIRS[name]
    with serving(streaming(events, end="data: [DONE]\n\n"), reply(json.dumps(plain))) as service:
        target = MODEL_APIS[api].target(service.url, stream=True)
        streamed, whole = ask(target), ask(target)
    assert without_its_own(streamed) == without_its_own(whole)


# --- unasked, ignored, cut ------------------------------------------------------------------------------------------

FORMS = {
    "azure": "azure",
    "openai-chat": "chat",
    "openai-responses": "responses",
    "anthropic": "messages",
    "gemini": "gemini",
    "vertex": "gemini",
}
COLLECTORS: Mapping[str, type[Collector]] = {
    "chat": ChatCollector,
    "azure": ChatCollector,
    "responses": ResponsesCollector,
    "messages": MessagesCollector,
    "gemini": ContentCollector,
}


@pytest.mark.parametrize("name", MODEL_APIS)
def test_an_event_stream_that_comes_unasked_is_read(server: FakeServer, name: str) -> None:
    events = ASK[FORMS[name]](server, stream=True).body
    with serving(reply(events, headers=EVENTS)) as service:
        response = ask(MODEL_APIS[name].target(service.url))
    assert response.text == SAID
    assert response.first_token_ms is not None


@pytest.mark.parametrize("name", MODEL_APIS)
def test_a_server_that_does_not_stream_is_read_too(server: FakeServer, name: str) -> None:
    plain = ASK[FORMS[name]](server).body
    with serving(reply(plain)) as service:
        response = ask(MODEL_APIS[name].target(service.url, stream=True))
    assert (response.text, response.first_token_ms) == (SAID, None)


@apis
@pytest.mark.parametrize("fault", ["cut", "stall", "truncated", "error-event"])
def test_a_stream_that_is_cut_is_a_failure_that_may_be_tried_again_with_its_text(
    server: FakeServer, api: Any, fault: str
) -> None:
    said = "The quick brown fox jumps over the lazy dog. " * 5
    target = api.target(server.url, f"m@{fault}", stream=True)

    error = raised_by(target, question=f"@say {said}", timeout_s=0.5 if fault == "stall" else None)

    assert error.failure.retryable
    assert error.partial is not None
    assert said.startswith(error.partial.text)
    assert "quick" in error.partial.text
    assert (error.partial.output_messages, error.partial.cost_usd) == (None, None)


@apis
def test_a_cut_call_of_a_tool_keeps_what_came_of_it(server: FakeServer, api: Any) -> None:
    order = "one two three four five six seven eight nine ten " * 20
    script = f'Look it up.\n@call lookup {{"order": "{order}"}}'

    error = raised_by(api.target(server.url, "m@cut", tools=({"name": "lookup"},), stream=True), question=script)

    if api.provider == "gemini":  # it sends a call in one event
        assert error.partial is None
        return
    assert error.partial is not None
    assert error.partial.output_messages is not None
    (message,) = error.partial.output_messages
    (cut,) = message.tool_calls
    assert cut.tool == "lookup"
    assert isinstance(cut.input, str)
    assert cut.input.startswith('{"order":')
    assert len(cut.input) < len(order)


@apis
def test_a_turn_that_is_cut_comes_after_the_turns_before_it(server: FakeServer, api: Any) -> None:
    def broken(events: bytes) -> Answer:
        return reply(events[: len(events) // 2], headers=EVENTS, length=len(events))

    form = next(FORMS[name] for name, other in MODEL_APIS.items() if other is api)
    first = ASK[form](server, "calls-tool", stream=True, **TOOLS[form]).body
    with serving(reply(first, headers=EVENTS), broken(ASK[form](server, stream=True).body)) as service:
        target = api.target(service.url, stream=True, tool_responses={"lookup": "sent"})
        error = raised_by(target)

    assert error.failure.kind == "transport"
    assert error.partial is not None
    assert error.partial.output_messages is not None
    asked, cut = error.partial.output_messages
    assert [(call.tool, call.output) for call in asked.tool_calls] == [("lookup", "sent")]
    assert SAID.startswith(str(cut.content))
    assert (error.partial.text, error.partial.usage is not None) == (cut.content, form not in ("chat", "azure"))


PARAMETERS = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
FUNCTION = {"name": "lookup", "parameters": PARAMETERS}
TOOLS: Mapping[str, Mapping[str, Any]] = {
    "azure": {"tools": [{"type": "function", "function": FUNCTION}]},
    "chat": {"tools": [{"type": "function", "function": FUNCTION}]},
    "responses": {"tools": [{"type": "function", **FUNCTION}]},
    "messages": {"tools": [{"name": "lookup", "input_schema": PARAMETERS}]},
    "gemini": {"tools": [{"functionDeclarations": [FUNCTION]}]},
}


@pytest.mark.parametrize("form", COLLECTORS)
def test_a_stream_cut_at_any_byte_is_never_taken_for_whole(server: FakeServer, form: str) -> None:
    """Feed each beginning of a stream: before its end it is a failure, and what it brought only grows."""
    options = {} if form == "gemini" else TOOLS[form]  # a call of a tool comes in its last event
    whole = ASK[form](server, "calls-tool" if options else "fake", stream=True, **options).body
    outcomes = [cut_after(form, whole[:size]) for size in range(len(whole) + 1)]

    ended = outcomes.index("whole")
    assert outcomes[0] == "malformed_reply"
    assert set(outcomes[1:ended]) == {"transport"}
    assert set(outcomes[ended:]) == {"whole"}
    assert whole[ended:].count(b"data:") <= 2
    grown = [len(repr(so_far(form, whole[:size]))) for size in range(0, len(whole), 40)]
    assert grown[0] < grown[-1]


def cut_after(form: str, beginning: bytes) -> str:
    reader = StreamedResponse(COLLECTORS[form](), now=count().__next__)
    reader.feed(beginning)
    try:
        reader.finish()
    except ProviderError as error:
        return error.failure.kind
    return "whole"


def so_far(form: str, beginning: bytes) -> JsonValue:
    reader = StreamedResponse(COLLECTORS[form](), now=count().__next__)
    reader.feed(beginning)
    return reader.so_far()


def test_usage_that_came_before_the_cut_is_kept_and_what_was_written_is_estimated(server: FakeServer) -> None:
    error = raised_by(MODEL_APIS["anthropic"].target(server.url, "m@cut", stream=True))
    assert error.partial is not None
    written = round(len(error.partial.text) / 4)
    assert written > 0
    assert error.partial.usage == Usage(input=5, output=written, total=5 + written, requests=1)
    assert error.partial.estimated
    assert error.partial.first_token_ms is not None


# --- errors and oddities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind", "retryable"),
    [
        ('data: {"error": {"message": "Slow down.", "code": 429}}', "rate_limited", True),
        ('data: {"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}', "rate_limited", True),
        ('data: {"error": {"message": "It broke.", "type": "server_error"}}', "server_error", True),
        ('event: error\ndata: {"message": "It broke."}', "server_error", True),
        ('data: {"error": "It broke."}', "server_error", True),
        ('data: {"error": {"message": "Too long.", "type": "invalid_request_error"}}', "bad_request", False),
        ('data: {"error": {"message": "No.", "code": "content_filter"}}', "content_filter", False),
        ('data: {"choices": [{"delta": 7}]}', "unexpected_shape", False),
        ('data: {"answer": "4"}', "unexpected_shape", False),
        ('data: [{"delta": "4"}]', "unexpected_shape", False),
        ("data: four", "malformed_reply", False),
        (": only comments", "malformed_reply", False),
        ("<html>", "malformed_reply", False),
    ],
)
def test_an_event_that_is_no_answer_is_a_failure_that_says_so(event: str, kind: str, *, retryable: bool) -> None:
    with serving(reply(f"{event}\n\n", headers=EVENTS)) as service:
        failure = raised_by(MODEL_APIS["openai-chat"].target(service.url, stream=True)).failure
    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert kind == "malformed_reply" or any(
        word in failure.message for word in ("Slow down.", "It broke.", "Too long.", "No.", "4", "7")
    )


def test_a_server_that_stays_on_the_line_after_the_end_is_not_waited_for() -> None:
    async def answer(writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(stream_of(chunks({"content": "4"}), end="data: [DONE]\n\n"))
        await writer.drain()
        await writer.wait_closed()

    with serving(answer) as service:
        assert ask(MODEL_APIS["openai-chat"].target(service.url, stream=True)).text == "4"


def test_an_answer_above_the_limit_is_refused() -> None:
    with serving(streaming(chunks(*({"content": "x" * 2**20} for _ in range(11))))) as service:
        failure = raised_by(MODEL_APIS["openai-chat"].target(service.url, stream=True)).failure
    assert (failure.kind, "larger than 10 MiB" in failure.message) == ("too_large", True)


def test_the_first_token_is_the_first_text_reasoning_or_argument() -> None:
    clock = count()
    reader = StreamedResponse(ChatCollector(), now=lambda: float(next(clock)))
    reader.feed(stream_of(chunks({"role": "assistant", "content": ""}, finish_reason=None)))
    assert reader.first_token_at is None
    reader.feed(stream_of(chunks({"reasoning_content": "Hm"})))
    assert reader.first_token_at == 0.0


@pytest.mark.parametrize("name", MODEL_APIS)
def test_what_is_asked_for_is_a_stream(server: FakeServer, name: str) -> None:
    ask(MODEL_APIS[name].target(server.url, stream=True))
    asked = server.requests[-1]
    body = json.loads(asked.body)
    if FORMS[name] == "gemini":
        assert asked.path.endswith(":streamGenerateContent?alt=sse")
        assert "stream" not in body
    else:
        assert body["stream"] is True
    wants_usage = {"include_usage": True} if FORMS[name] in ("chat", "azure") else None
    assert body.get("stream_options") == wants_usage


def test_an_older_api_of_azure_is_not_asked_for_usage(server: FakeServer) -> None:
    ask(MODEL_APIS["azure"].target(server.url, stream=True, api_version="2024-06-01"))
    assert "stream_options" not in json.loads(server.requests[-1].body)


def test_a_batch_cannot_be_streamed() -> None:
    with pytest.raises(ValueError, match="stream cannot be combined with batch_api"):
        MODEL_APIS["openai-chat"].target("http://127.0.0.1:1", stream=True, batch_api=True)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_stream_is_unpacked(encoding: str) -> None:
    body = stream_of(chunks({"content": "x" * 3 * 2**20}), end="data: [DONE]\n\n")
    packed = gzip.compress(body, mtime=0) if encoding == "gzip" else zlib.compress(body)
    with serving(reply(packed, headers={**EVENTS, "Content-Encoding": encoding})) as service:
        response = ask(MODEL_APIS["openai-chat"].target(service.url, stream=True))
    assert len(response.text) == 3 * 2**20


def test_a_packed_stream_that_is_cut_is_a_failure() -> None:
    body = gzip.compress(stream_of(chunks({"content": "4" * 99}, {"content": "5"})), mtime=0)[:-12]
    with serving(reply(body, headers={**EVENTS, "Content-Encoding": "gzip"})) as service:
        error = raised_by(MODEL_APIS["openai-chat"].target(service.url, stream=True))
    assert (error.failure.kind, error.failure.retryable) == ("transport", True)


def test_a_redirect_or_a_refusal_with_events_is_not_read_as_an_answer() -> None:
    events = stream_of(chunks({"content": "4"}), end="data: [DONE]\n\n")
    for status, kind in (("429 Slow", "rate_limited"), ("302 Found", "transport")):
        with serving(reply(events, status=status, headers=EVENTS)) as service:
            assert raised_by(MODEL_APIS["openai-chat"].target(service.url, stream=True)).failure.kind == kind


@apis
def test_a_stream_that_is_cancelled_keeps_what_it_brought(server: FakeServer, api: Any) -> None:
    said = "The quick brown fox jumps over the lazy dog. " * 5
    target = api.target(server.url, "m@stall", stream=True)

    async def cancelled(provider: Provider) -> ProviderResponse | None:
        try:
            async with asyncio.timeout(0.5):
                await provider.invoke(make_request(question=f"@say {said}"))
        except TimeoutError as error:
            return attached_partial(error)
        return None

    partial = with_provider(target, cancelled)
    assert partial is not None
    assert "quick" in partial.text
    assert said.startswith(partial.text)
