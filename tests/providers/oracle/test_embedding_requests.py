"""The vendors' clients and our adapters send the same embedding requests and parse the same numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import openai
import pytest
from tests.providers.oracle.google_client import genai, types
from tests.providers.oracle.side_by_side import comparable, theirs
from tests.support.asking import make_target, with_provider
from tests.support.fake_server import serving_fake

from agentv.fake import FakeServer
from agentv.providers.apis.azure import AzureSettings
from agentv.providers.apis.gemini import GeminiSettings
from agentv.providers.apis.openai import OpenAISettings
from agentv.types.provider import EmbeddingProvider, EmbeddingRequest, Provider, ProviderError
from agentv.types.targets import ResolvedTarget

KEY = "sk-0123456789"
TEXTS = ("Where is my ördér?", "It is on its way.")

OPTIONS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "nothing": ({}, {}),
    "dimensions": ({"dimensions": 64}, {"dimensions": 64}),
    "extra_headers": ({"extra_headers": {"X-Team": "orders"}}, {"extra_headers": {"X-Team": "orders"}}),
    "extra_body": ({"extra_body": {"user": "u-1"}}, {"extra_body": {"user": "u-1"}}),
    "another format": ({"extra_body": {"encoding_format": "float"}}, {"encoding_format": "float"}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


def embed(target: ResolvedTarget) -> list[list[float]]:
    async def use(provider: Provider) -> list[list[float]]:
        assert isinstance(provider, EmbeddingProvider)
        response = await provider.embed(EmbeddingRequest(TEXTS))
        return [list(vector) for vector in response.vectors]

    return with_provider(target, use)


def ours(server: FakeServer, target: ResolvedTarget) -> list[Mapping[str, object]]:
    server.requests.clear()
    with suppress(ProviderError):
        embed(target)
    assert server.requests
    return [comparable(received) for received in server.requests]


def create(client: openai.OpenAI, **given: Any) -> Callable[[], Any]:
    return lambda: client.embeddings.create(**{"model": "m", "input": list(TEXTS), **given})


@pytest.mark.parametrize("name", OPTIONS)
def test_openai_is_sent_the_same(server: FakeServer, name: str) -> None:
    own, given = OPTIONS[name]
    settings = OpenAISettings(model="m", base_url=f"{server.url}/v1/", api_key=KEY, **own)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        expected = theirs(server, create(client, **given))

    assert ours(server, make_target("openai", settings)) == expected


@pytest.mark.parametrize("name", OPTIONS)
def test_azure_is_sent_the_same(server: FakeServer, name: str) -> None:
    own, given = OPTIONS[name]
    settings = AzureSettings(deployment="m", endpoint=server.url, api_key=KEY, **own)
    with openai.AzureOpenAI(
        azure_endpoint=server.url, api_version="2024-10-01-preview", api_key=KEY, max_retries=0
    ) as client:
        expected = theirs(server, create(client, **given))

    assert ours(server, make_target("azure", settings)) == expected


OF_GEMINI: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "nothing": ({}, {}),
    "dimensions": ({"dimensions": 64}, {"output_dimensionality": 64}),
    "extra_headers": (
        {"extra_headers": {"X-Team": "orders"}},
        {"http_options": types.HttpOptions(headers={"X-Team": "orders"})},
    ),
    "a task type": ({"extra_body": {"taskType": "SEMANTIC_SIMILARITY"}}, {"task_type": "SEMANTIC_SIMILARITY"}),
}


def gemini_client(server: FakeServer) -> genai.Client:
    return genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=server.url))


def of_gemini(client: genai.Client, texts: Sequence[str] = TEXTS, **config: Any) -> Any:
    contents: Any = list(texts)  # its type depends on whether Pillow is installed
    return client.models.embed_content(model="m", contents=contents, config=types.EmbedContentConfig(**config))


@pytest.mark.parametrize("name", OF_GEMINI)
def test_gemini_is_sent_the_same(server: FakeServer, name: str) -> None:
    own, config = OF_GEMINI[name]
    settings = GeminiSettings(model="m", base_url=server.url, api_key=KEY, **own)
    with gemini_client(server) as client:
        expected = theirs(server, lambda: of_gemini(client, **config))

    assert ours(server, make_target("gemini", settings)) == with_roles(expected)


def with_roles(sent: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return requests without the role that Google's client adds to every text; the API does not require it."""
    for one in sent:
        for request in one["body"]["requests"]:
            request["content"].pop("role", None)
    return sent


def test_the_vectors_are_those_that_the_clients_read(server: FakeServer) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
        expected = [item.embedding for item in create(client)().data]
    found = embed(make_target("openai", OpenAISettings(model="m", base_url=f"{server.url}/v1", api_key=KEY)))
    assert found == expected

    with gemini_client(server) as google:
        values = [item.values for item in of_gemini(google).embeddings]
    found = embed(make_target("gemini", GeminiSettings(model="m", base_url=server.url, api_key=KEY)))
    assert found == [pytest.approx(each) for each in values]
