"""Embeddings of the model APIs: parsing of vectors, and the failure of every server fault."""

import asyncio
import base64
import random
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.test_model_faults import KINDS as KINDS_OF_ANSWERS
from tests.support.asking import Tools
from tests.support.fake_server import serving_fake
from tests.support.model_apis import KEY, MODEL_APIS

from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.running.clock import make_clock
from agentv.execution.sharing import SharedResources
from agentv.fake import FAULTS, FakeServer
from agentv.providers import PROVIDERS
from agentv.providers.apis.embeddings import EmbeddingApi, OpenAIEmbeddings
from agentv.providers.apis.gemini import GeminiEmbeddings, GeminiSettings
from agentv.providers.apis.openai import OpenAISettings
from agentv.scoring.text.vectors import cosine
from agentv.types.errors import TargetError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.provider import EmbeddingResponse, ProviderError
from agentv.types.targets import ResolvedTarget, RetryPolicy
from agentv.types.usage import Usage

TEXTS = ("Where is my order?", "Where is my parcel?", "Rust")
APIS = ("azure", "openai-chat", "gemini")
apis = pytest.mark.parametrize("api", APIS)

NOT_SPOKEN = {"content-filter", "length", "empty-text", "prose", "half-character", "not-utf8"}
"""Faults in the text of a response, which an embedding does not have."""

KINDS: Mapping[str, str] = {fault: kind for fault, kind in KINDS_OF_ANSWERS.items() if fault not in NOT_SPOKEN}
FINE = FAULTS.keys() - KINDS.keys() - {"nan"}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(retry_after_s=0.0) as server:
        yield server


def target_of(api: str, server: FakeServer, model: str = "m", **settings: Any) -> ResolvedTarget:
    return MODEL_APIS[api].target(server.url, model, **settings)


def embed(target: ResolvedTarget, *texts: str, tries: int = 1, timeout_s: float = 20.0) -> EmbeddingResponse:
    async def run() -> EmbeddingResponse:
        async with SharedResources() as shared:
            provider = PROVIDERS.get(target.provider).load_factory()(target, Tools(shared, "."))
            resilient = ResilientProvider(
                provider,
                patient(target, tries, timeout_s),
                counts_attempts=False,
                clock=make_clock(),
                rng=random.Random(0),
                prices={},
            )
            return await resilient.embed(texts or TEXTS, on_sent=lambda: None)

    return asyncio.run(run())


def patient(target: ResolvedTarget, tries: int, timeout_s: float) -> ResolvedTarget:
    return ResolvedTarget(
        target.name,
        target.provider,
        target.settings,
        retry=RetryPolicy(max_retries=tries - 1, initial_delay_s=0.0),
        timeout_s=timeout_s,
    )


def failure_of(target: ResolvedTarget, **how: Any) -> Failure:
    with pytest.raises(ProviderError) as raised:
        embed(target, **how)
    return raised.value.failure


@apis
def test_texts_become_vectors_in_their_order(server: FakeServer, api: str) -> None:
    order, parcel, rust = embed(target_of(api, server)).vectors
    assert len(order) == 256
    assert cosine(order, parcel) > 0.5 > abs(cosine(order, rust))


@apis
def test_the_length_of_vectors_can_be_chosen(server: FakeServer, api: str) -> None:
    assert {len(vector) for vector in embed(target_of(api, server, dimensions=64)).vectors} == {64}


@pytest.mark.parametrize("api", ["azure", "openai-chat"])
def test_what_a_request_used_is_read(server: FakeServer, api: str) -> None:
    response = embed(target_of(api, server))
    assert response.usage is not None
    assert response.usage.input > 0
    assert response.usage == Usage(input=response.usage.input, total=response.usage.input, requests=1)
    assert response.model == "m"


@apis
@pytest.mark.parametrize("fault", [fault for fault, kind in KINDS.items() if kind != "deadline"])
def test_every_fault_is_one_failure_of_its_kind(server: FakeServer, api: str, fault: str) -> None:
    failure = failure_of(target_of(api, server, f"m@{fault}"))
    assert failure.kind == KINDS[fault]
    assert failure.message
    assert KEY not in repr(failure)


@apis
@pytest.mark.parametrize("fault", [fault for fault, kind in KINDS.items() if kind == "deadline"])
def test_a_server_that_never_ends_meets_the_deadline(server: FakeServer, api: str, fault: str) -> None:
    assert failure_of(target_of(api, server, f"m@{fault}"), timeout_s=0.3).kind == "deadline"


@apis
@pytest.mark.parametrize("fault", sorted(FINE))
def test_faults_of_speech_do_not_touch_vectors(server: FakeServer, api: str, fault: str) -> None:
    assert len(embed(target_of(api, server, f"m@{fault}")).vectors) == 3


def test_numbers_that_are_none_never_become_a_vector(server: FakeServer) -> None:
    assert failure_of(target_of("gemini", server, "m@nan")).kind == "unexpected_shape"


@apis
@pytest.mark.parametrize("fault", ["429", "500", "reset"])
def test_what_may_pass_is_tried_again(server: FakeServer, api: str, fault: str) -> None:
    response = embed(target_of(api, server, f"m@{fault}-x2"), f"{api} {fault}", tries=3)
    assert [call.kind for call in response.calls] == [KINDS[fault], KINDS[fault], "ok"]


@apis
def test_a_space_is_the_address_the_model_and_the_dimensions(server: FakeServer, api: str) -> None:
    spaces = {
        PROVIDERS.get(target.provider).load_factory()(target, Tools(SharedResources(), ".")).embedding_space
        for target in (
            target_of(api, server),
            target_of(api, server),
            target_of(api, server, "other"),
            target_of(api, server, dimensions=64),
            target_of(api, server, extra_body={"user": "u-1"}),
        )
    }
    assert len(spaces) == 4
    assert not any(KEY in space for space in spaces)


def test_vertex_is_rejected_before_the_first_request() -> None:
    with pytest.raises(TargetError, match="Vertex"):
        GeminiSettings(model="m", project="p-1").check_embeddings()


OPENAI = OpenAIEmbeddings("http://x/embeddings", "m", OpenAISettings(model="m", base_url="http://x"))
GEMINI = GeminiEmbeddings(GeminiSettings(model="m", api_key="k"))


def test_vectors_come_as_numbers_or_as_bytes() -> None:
    packed = base64.b64encode(struct.pack("<2f", 0.5, -2.0)).decode()
    for written in ([0.5, -2], packed):
        assert list(OPENAI.parse({"data": [{"embedding": written}]}).vectors[0]) == [0.5, -2.0]


def test_vectors_are_put_in_order_by_their_index() -> None:
    items: JsonValue = [{"index": 1, "embedding": [1.0]}, {"index": 0, "embedding": [0.0]}]
    assert [vector[0] for vector in OPENAI.parse({"data": items}).vectors] == [0.0, 1.0]


def test_without_an_index_for_each_they_stay_as_they_came() -> None:
    items: JsonValue = [{"index": 1, "embedding": [1.0]}, {"index": 1, "embedding": [0.0]}]
    assert [vector[0] for vector in OPENAI.parse({"data": items}).vectors] == [1.0, 0.0]


@pytest.mark.parametrize("written", [None, 7, {}, ["a"], [None], [10**400], "?", "AAA=", "AAAAAAA="])
def test_what_is_no_vector_has_an_unexpected_shape(written: JsonValue) -> None:
    for api, reply in ((OPENAI, {"data": [{"embedding": written}]}), (GEMINI, {"embeddings": [{"values": written}]})):
        with pytest.raises(ProviderError) as raised:
            api.parse(reply)
        assert raised.value.failure.kind == "unexpected_shape"


def test_the_token_count_of_gemini_is_parsed() -> None:
    reply: dict[str, JsonValue] = {"embeddings": [{"values": [1.0]}], "usageMetadata": {"promptTokenCount": 7}}
    assert GEMINI.parse(reply).usage == Usage(input=7, total=7, requests=1)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
KEYS = ["data", "embedding", "embeddings", "values", "index", "usage", "usageMetadata", "prompt_tokens", "model"]
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
)


@given(value=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5))
@pytest.mark.parametrize("api", [OPENAI, GEMINI], ids=["openai", "gemini"])
def test_any_reply_is_vectors_or_one_failure(api: EmbeddingApi, value: dict[str, JsonValue]) -> None:
    read: EmbeddingResponse | str
    try:
        read = api.parse(value)
    except ProviderError as error:
        read = error.failure.kind
    assert read == "unexpected_shape" or isinstance(read, EmbeddingResponse)
