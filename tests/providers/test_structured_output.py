"""A server that refuses the JSON Schema of a judge's reply is asked without it from then on."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.asking import ask, failure_of, make_request, with_provider
from tests.support.fake_server import serving_fake
from tests.support.model_apis import MODEL_APIS

from agentv.fake import FakeServer, Question, Reply
from agentv.fake.api import refused
from agentv.providers.apis.structured_output import refuses_schema
from agentv.types.failures import Failure
from agentv.types.provider import STRUCTURED_OUTPUT_NOTE, Provider, ProviderError, ProviderResponse

SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}
ASKED = make_request("Judge this.", response_schema=SCHEMA)
UNKNOWN = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."

apis = pytest.mark.parametrize("api", MODEL_APIS.values(), ids=list(MODEL_APIS))


def refusing(message: str, *, status: int = 400) -> Callable[[Question], Reply]:
    """Return the answers of a model that refuses every schema."""

    def reply(question: Question) -> Reply:
        if question.schema is not None:
            raise refused(message, status=status)
        return Reply("no schema")

    return reply


def schemas_sent(server: FakeServer) -> list[bool]:
    return [b'"score"' in request.body for request in server.requests]


async def three(provider: Provider) -> list[ProviderResponse]:
    return [await provider.invoke(ASKED) for _ in range(3)]


@apis
@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_turns_it_off_for_the_target_with_one_note(api: Any, status: int) -> None:
    with serving_fake(answer=refusing(UNKNOWN, status=status), keep_requests=True) as server:
        responses = with_provider(api.target(server.url), three)

    assert [response.text for response in responses] == ["no schema"] * 3
    assert [response.notes for response in responses] == [(STRUCTURED_OUTPUT_NOTE,), (), ()]
    assert schemas_sent(server) == [True, False, False, False]


def test_a_server_that_accepts_it_is_always_sent_the_schema() -> None:
    with serving_fake(keep_requests=True) as server:
        responses = with_provider(MODEL_APIS["openai-chat"].target(server.url), three)

    assert [json.loads(response.text) for response in responses] == [{"score": 1}] * 3
    assert [response.notes for response in responses] == [()] * 3
    assert schemas_sent(server) == [True] * 3


def test_turned_off_by_hand_it_is_never_sent() -> None:
    with serving_fake(answer=refusing(UNKNOWN), keep_requests=True) as server:
        response = ask(MODEL_APIS["openai-chat"].target(server.url, structured_output=False), ASKED)

    assert (response.text, response.notes) == ("no schema", ())
    assert schemas_sent(server) == [False]


@pytest.mark.parametrize(("message", "status"), [("max_tokens is too large", 400), (UNKNOWN, 500), (UNKNOWN, 401)])
def test_another_refusal_stays_an_error(message: str, status: int) -> None:
    with serving_fake(answer=refusing(message, status=status), keep_requests=True) as server:
        failure = failure_of(MODEL_APIS["openai-chat"].target(server.url), ASKED)

    assert failure.http_status == status
    assert schemas_sent(server) == [True]


def test_a_request_that_is_refused_with_and_without_a_schema_turns_nothing_off() -> None:
    def reply(question: Question) -> Reply:
        if "Judge" in question.user_text:
            raise refused(f"unknown model, got {{'response_format': {question.schema}}}")
        return Reply("fine")

    async def both(provider: Provider) -> ProviderResponse:
        with pytest.raises(ProviderError, match=r"unknown model, got .* None"):
            await provider.invoke(ASKED)
        return await provider.invoke(make_request("Score this.", response_schema=SCHEMA))

    with serving_fake(answer=reply, keep_requests=True) as server:
        response = with_provider(MODEL_APIS["openai-chat"].target(server.url), both)

    assert (response.text, response.notes) == ("fine", ())
    assert schemas_sent(server) == [True, False, True]


def test_calls_at_the_same_time_are_all_answered() -> None:
    async def at_once(provider: Provider) -> list[ProviderResponse]:
        return await asyncio.gather(*(provider.invoke(ASKED) for _ in range(4)))

    with serving_fake(answer=refusing(UNKNOWN)) as server:
        responses = with_provider(MODEL_APIS["openai-chat"].target(server.url), at_once)

    assert [response.text for response in responses] == ["no schema"] * 4


@pytest.mark.parametrize(
    "message",
    [
        UNKNOWN,
        "This response_format type is unavailable now",
        "This model does not support response format `json_schema`. See supported models",
        "'response_format.type' must be 'json_object' or 'text'",
        "litellm.UnsupportedParamsError: together_ai does not support parameters: ['response_format']",
        "Structured outputs are not supported for this model",
        "output_config: Extra inputs are not permitted",
        "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field.",
        "Function calling with a response mime type: 'application/json' is unsupported",
        "Unsupported parameter: 'text.format'",
        "JSON mode is not enabled for this model",
        "Grammar error: unsupported regex",
    ],
)
def test_the_words_of_servers_that_refuse_it(message: str) -> None:
    assert refuses_schema(Failure("bad_request", f"HTTP 400: {message}", http_status=400))


def test_a_body_that_names_it_counts_as_well() -> None:
    body = '{"detail": [{"loc": ["body", "response_format", "json_schema"], "msg": "Extra inputs"}]}'
    assert refuses_schema(Failure("bad_request", "HTTP 422", http_status=422, details={"body": body}))
    assert not refuses_schema(Failure("content_filter", f"HTTP 400: {UNKNOWN}", http_status=400))
    assert not refuses_schema(Failure("bad_request", "HTTP 422", http_status=422))
