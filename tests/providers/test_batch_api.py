"""The half-price batch endpoints, against the fake model server."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

import pytest
from tests.support.asking import make_request, make_target, with_provider
from tests.support.fake_server import serving_fake
from tests.support.loopback import reply, serving
from tests.support.model_apis import KEY, MODEL_APIS

from agentv.fake import FakeServer
from agentv.providers.apis.anthropic import AnthropicSettings
from agentv.providers.apis.anthropic import parse_line as parse_message_line
from agentv.providers.apis.batches import CANCELLED, EXPIRED, LOST, build_upload, parse_line, parse_lines, parse_state
from agentv.providers.apis.gemini import GeminiSettings
from agentv.providers.apis.http import HttpResponse
from agentv.providers.apis.openai import OpenAISettings
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.provider import (
    BatchApiProvider,
    BatchState,
    BatchTicket,
    Provider,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
)
from agentv.types.targets import ResolvedTarget

T = TypeVar("T")
BATCHED = {name: api for name, api in MODEL_APIS.items() if api.provider != "gemini"}

apis = pytest.mark.parametrize("api", BATCHED.values(), ids=list(BATCHED))


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(batch_polls=2) as server:
        yield server


def with_batches(target: ResolvedTarget, use: Callable[[BatchApiProvider], Awaitable[T]]) -> T:
    async def checked(provider: Provider) -> T:
        assert isinstance(provider, BatchApiProvider)
        return await use(provider)

    return with_provider(target, checked)


async def finish(provider: BatchApiProvider, ticket: BatchTicket) -> BatchState:
    state = await provider.poll_batch(ticket)
    while not state.is_over:
        state = await provider.poll_batch(ticket)
    return state


def answers(
    target: ResolvedTarget, requests: Mapping[str, ProviderRequest]
) -> Mapping[str, ProviderResponse | Failure]:
    async def use(provider: BatchApiProvider) -> Mapping[str, ProviderResponse | Failure]:
        ticket = await provider.submit_batch(requests)
        await finish(provider, ticket)
        return await provider.fetch_batch(ticket)

    return with_batches(target, use)


def kinds(found: Mapping[str, ProviderResponse | Failure]) -> dict[str, str]:
    return {key: answer.kind if isinstance(answer, Failure) else answer.text for key, answer in found.items()}


@apis
def test_a_batch_is_handed_in_watched_and_fetched(server: FakeServer, api: Any) -> None:
    async def use(provider: BatchApiProvider) -> list[BatchState]:
        assert provider.uses_batch_api
        ticket = await provider.submit_batch({f"case {n}/ü": make_request(f"question {n}") for n in range(3)})
        assert ticket.keys == ("case 0/ü", "case 1/ü", "case 2/ü")
        states = [await provider.poll_batch(ticket)]
        while not states[-1].is_over:
            states.append(await provider.poll_batch(ticket))
        found = await provider.fetch_batch(ticket)
        assert kinds(found) == {f"case {n}/ü": f"You said: question {n}" for n in range(3)}
        answer = found["case 0/ü"]
        assert isinstance(answer, ProviderResponse)
        assert answer.usage is not None
        assert answer.usage.output > 0
        assert answer.model == "m"
        return states

    states = with_batches(api.target(server.url, batch_api=True), use)

    assert [state.is_over for state in states] == [False, True]
    assert (states[0].done, states[0].total) == (0, 3)
    assert (states[-1].done, states[-1].total) == (3, 3)


@apis
def test_a_later_process_finds_its_batch_by_the_ticket(server: FakeServer, api: Any) -> None:
    target = api.target(server.url)
    ticket = with_batches(target, lambda provider: provider.submit_batch({"a": make_request("question")}))

    async def later(provider: BatchApiProvider) -> Mapping[str, ProviderResponse | Failure]:
        stored = BatchTicket(ticket.id, ticket.keys)
        await finish(provider, stored)
        return await provider.fetch_batch(stored)

    assert kinds(with_batches(target, later)) == {"a": "You said: question"}


@apis
def test_each_request_of_a_batch_meets_its_own_end(server: FakeServer, api: Any) -> None:
    faults = ("400", "401", "429", "529", "content-filter", "batch-lost", "batch-expired")

    found = answers(api.target(server.url), {name: make_request(model=f"m@{name}") for name in (*faults, "length")})

    assert kinds(found) == {
        "400": "bad_request",
        "401": "auth",
        "429": "rate_limited",
        "529": "server_error",
        "content-filter": "content_filter",
        "batch-lost": "server_error",
        "batch-expired": "deadline",
        "length": "You said: Where is my order?",
    }


@apis
def test_a_batch_that_fails_as_a_whole_says_so(server: FakeServer, api: Any) -> None:
    with pytest.raises(ProviderError) as raised:
        answers(api.target(server.url), {"good": make_request(), "bad": make_request(model="m@batch-failed")})

    assert raised.value.failure.kind == "bad_request"


@apis
def test_an_unknown_batch_is_an_error(server: FakeServer, api: Any) -> None:
    async def use(provider: BatchApiProvider) -> None:
        with pytest.raises(ProviderError, match="HTTP 404"):
            await provider.poll_batch(BatchTicket("batch_none", ("a",)))

    with_batches(api.target(server.url), use)


@apis
def test_tool_calls_in_a_batch_are_recorded_but_not_answered(server: FakeServer, api: Any) -> None:
    lookup = {"name": "lookup", "parameters": {"type": "object", "properties": {}}}
    target = api.target(server.url, tools=(lookup,), tool_responses={"lookup": "sent"})

    (answer,) = answers(target, {"a": make_request("@call lookup {}\n@say Done.")}).values()

    assert isinstance(answer, ProviderResponse)
    assert answer.output_messages is not None
    assert [(call.tool, call.output) for call in answer.output_messages[0].tool_calls] == [("lookup", None)]


def test_an_answer_larger_than_a_single_reply_may_be_is_read() -> None:
    text = "x" * 11 * 2**20
    line = {"custom_id": "r0", "response": {"status_code": 200, "body": {"choices": [{"message": {"content": text}}]}}}
    over = json.dumps({"id": "b", "status": "completed", "output_file_id": "f"})

    with serving(reply(over), reply(json.dumps(line))) as server:
        target = make_target("openai", OpenAISettings(model="m", base_url=server.url, api_key=KEY))
        (answer,) = with_batches(target, lambda provider: provider.fetch_batch(BatchTicket("b", ("a",)))).values()

    assert isinstance(answer, ProviderResponse)
    assert len(answer.text) == len(text)


def test_a_reply_of_another_shape_costs_its_own_case_only() -> None:
    good: JsonObject = {"choices": [{"message": {"content": "Good."}}]}
    bodies: list[JsonObject | None] = [{"choices": 4}, good, None]
    lines = [{"custom_id": f"r{n}", "response": {"status_code": 200, "body": body}} for n, body in enumerate(bodies)]
    over = json.dumps({"id": "b", "status": "completed", "output_file_id": "f"})
    with serving(reply(over), reply("\n".join(map(json.dumps, [*lines, {"custom_id": "r9"}])))) as server:
        target = make_target("openai", OpenAISettings(model="m", base_url=server.url, api_key=KEY))
        ticket = BatchTicket("b", ("a", "b", "c"))
        found = with_batches(target, lambda provider: provider.fetch_batch(ticket))

    assert kinds(found) == {"a": "unexpected_shape", "b": "Good.", "c": "unexpected_shape"}


def test_the_results_address_in_a_reply_is_not_followed() -> None:
    over = json.dumps({"id": "b", "processing_status": "ended", "results_url": "http://stranger.example/results"})
    with serving(reply(over), reply("")) as server:
        target = make_target("anthropic", AnthropicSettings(model="m", base_url=server.url, api_key=KEY))

        async def use(provider: BatchApiProvider) -> Mapping[str, ProviderResponse | Failure]:
            await provider.poll_batch(BatchTicket("b", ("a",)))
            return await provider.fetch_batch(BatchTicket("b", ("a",)))

        assert with_batches(target, use) == {"a": LOST}

    assert server.requests[-1].line == "GET /v1/messages/batches/b/results HTTP/1.1"


def test_a_temperature_takes_the_whole_batch_to_the_version_that_knows_it() -> None:
    with serving(reply('{"id": "b", "processing_status": "in_progress"}')) as server:
        target = make_target("anthropic", AnthropicSettings(model="m", base_url=server.url, api_key=KEY))
        requests = {"a": make_request(), "b": make_request(temperature=0.0)}
        with_batches(target, lambda provider: provider.submit_batch(requests))

    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ({"custom_id": "r0", "response": None, "error": {"code": "batch_expired", "message": "late"}}, EXPIRED),
        ({"custom_id": "r0", "response": None, "error": {"code": "batch_cancelled"}}, CANCELLED),
        ({"custom_id": "r0", "response": None, "error": None}, LOST),
        ({"custom_id": "r0", "response": 4, "error": {"code": 7}}, LOST),
        ({"custom_id": "r0", "error": {"message": "broke"}}, Failure("server_error", "broke", retryable=True)),
        (
            {"custom_id": "r0", "response": {"status_code": 200, "request_id": "q", "body": {}}},
            HttpResponse(200, {"x-request-id": "q"}, b"{}"),
        ),
    ],
)
def test_every_line_of_openais_results_is_read(line: JsonObject, outcome: object) -> None:
    assert parse_line(line) == ("r0", outcome)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"type": "succeeded", "message": {"id": "m"}}, HttpResponse(200, {}, b'{"id":"m"}')),
        ({"type": "expired"}, EXPIRED),
        ({"type": "canceled"}, CANCELLED),
        ({"type": "new"}, LOST),
        (None, LOST),
    ],
)
def test_every_line_of_anthropics_results_is_read(result: JsonObject | None, outcome: object) -> None:
    assert parse_message_line({"custom_id": "r0", "result": result}) == ("r0", outcome)


@pytest.mark.parametrize("line", [b"[]", b"{", b"4", b'{"a": "\xff"}'])
def test_a_line_that_is_no_object_is_named(line: bytes) -> None:
    with pytest.raises(ProviderError, match="line 3 of the batch results is not a JSON object"):
        list(parse_lines(b'{"a": 1}\n\n' + line))


def test_a_failed_batch_says_which_lines_were_wrong() -> None:
    problems: list[JsonObject] = [{"line": 2, "message": "no model"}, {"message": "too large"}]

    with pytest.raises(ProviderError, match="the batch failed: line 2: no model; too large"):
        parse_state({"status": "failed", "errors": {"data": problems}})


def test_an_upload_cannot_be_broken_by_what_it_holds() -> None:
    boundary = build_upload("u", {"r0": {"a": 1}}, "/e").headers["Content-Type"].partition("boundary=")[2]

    again = build_upload("u", {"r0": {"a": f"\r\n--{boundary}--\r\n"}}, "/e")

    assert boundary not in again.headers["Content-Type"]


def test_gemini_says_that_it_has_none() -> None:
    with pytest.raises(ValueError, match="batch_api is available for azure, openai and anthropic"):
        GeminiSettings(api_key=KEY, batch_api=True)


@pytest.mark.parametrize("api", ["azure", "openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize(("key", "value"), [("tool_responses", {"lookup": "sent"}), ("max_steps", 2)])
def test_a_batch_has_one_turn_and_what_needs_more_is_refused(api: str, key: str, value: object) -> None:
    settings: dict[str, Any] = {key: value}
    MODEL_APIS[api].target("http://127.0.0.1", **settings)

    with pytest.raises(ValueError, match=f"^{key} cannot be combined with batch_api: a batch has only one turn"):
        MODEL_APIS[api].target("http://127.0.0.1", batch_api=True, **settings)
