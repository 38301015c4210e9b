"""Model APIs that make embeddings: the shared provider, and the API of OpenAI, which many others implement."""

import asyncio
import base64
import binascii
from array import array
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentv.providers.apis.http import HttpRequest, json_request, without_none
from agentv.providers.apis.model_provider import ModelProvider
from agentv.providers.apis.model_settings import ModelSettings
from agentv.providers.apis.responses import objects, parse_object, text_or_none, usage_of, wrong_shape
from agentv.providers.apis.transport import send
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.provider import EmbeddingRequest, EmbeddingResponse, Vector


class EmbeddingApi(Protocol):
    """The request and response format of one embeddings API. Performs no I/O."""

    @property
    def space(self) -> str:
        """An identifier shared by vectors that can be compared: the address, the model and all other parameters."""

    @property
    def texts_at_once(self) -> int:
        """The maximum number of texts per request."""

    def build_request(self, texts: Sequence[str], auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the vectors of texts; `auth` holds the authorization headers."""

    def parse(self, value: JsonObject) -> EmbeddingResponse:
        """Return the vectors in a response. Raises ProviderError for an invalid response."""


class EmbeddingModelProvider(ModelProvider):
    """Adds embeddings to a model provider, with its key, deadline and limits."""

    embeddings: EmbeddingApi

    @property
    def embedding_space(self) -> str:
        """An identifier shared by vectors that can be compared."""
        return self.embeddings.space

    @property
    def texts_at_once(self) -> int:
        """The maximum number of texts per request."""
        return self.embeddings.texts_at_once

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return one vector per text; raises ProviderError."""
        now = asyncio.get_running_loop().time
        ends_at = now() + (request.timeout_s or self._target.try_timeout_s)
        auth = await self._credentials.headers(timeout_s=ends_at - now())
        response = await send(
            self.embeddings.build_request(request.texts, auth), self._shared, timeout_s=ends_at - now()
        )
        vectors = self.embeddings.parse(parse_object(response.body))
        return replace(vectors, request_id=response.request_id, quota=response.quota)


def vector_of(value: JsonValue) -> Vector:
    """Return a vector given as numbers or as base64 bytes. Raises ProviderError for anything else."""
    vector = array("f")
    try:
        if isinstance(value, str):
            vector.frombytes(base64.b64decode(value, validate=True))
        elif isinstance(value, list | tuple):
            vector.extend(value)
        else:
            raise wrong_shape("an invalid vector", value)
    except (TypeError, ValueError, OverflowError, binascii.Error):
        raise wrong_shape("a vector that cannot be read as float32 values", value) from None
    return vector


class OpenAIEmbeddings(Struct, frozen=True):
    """The embeddings endpoint for one model."""

    url: str
    model: str
    settings: ModelSettings
    dimensions: int | None = None
    """The length of the vectors; None for the model's default."""
    texts_at_once: int = 128

    @property
    def space(self) -> str:
        """The address and the body without the texts."""
        return f"{self.url} {compact_json(self._body(()))}"

    def build_request(self, texts: Sequence[str], auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the vectors of texts."""
        return json_request(self.url, self._body(texts), auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> EmbeddingResponse:
        """Return the vectors in a response, in the order of the texts."""
        items = objects(value.get("data"))
        if not items:
            raise wrong_shape("no vectors in `data`", value)
        return EmbeddingResponse(
            tuple(vector_of(item.get("embedding")) for item in _in_order(items)),
            usage=usage_of(value.get("usage"), input_key="prompt_tokens", output_key="completion_tokens"),
            model=text_or_none(value.get("model")),
        )

    def _body(self, texts: Sequence[str]) -> JsonObject:
        # base64 makes a response much shorter; servers without support respond with numbers, which are parsed as well.
        body: dict[str, JsonValue] = {
            "input": tuple(texts),
            "model": self.model,
            "dimensions": self.dimensions,
            "encoding_format": "base64",
        }
        return {**without_none(body), **self.settings.extra_body}


def _in_order(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items in order of `index` if the indices are 0 to n - 1, else in the given order."""
    by_index = {item.get("index"): item for item in items if isinstance(item.get("index"), int)}
    indices = range(len(items))
    return [by_index[index] for index in indices] if by_index.keys() == set(indices) else list(items)
