"""Model APIs that make embeddings: the shared provider, and the protocol of each API's request format."""

import asyncio
import base64
import binascii
from array import array
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from agentv.providers.apis.http import HttpRequest
from agentv.providers.apis.model_provider import ModelProvider
from agentv.providers.apis.replies import parse_object, wrong_shape
from agentv.providers.apis.transport import send
from agentv.types.json_value import JsonObject, JsonValue
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
        raise wrong_shape("a vector with values other than numbers", value) from None
    return vector
