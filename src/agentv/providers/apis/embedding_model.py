"""A model API that makes embeddings: what all of them share. Each says only how it is asked and how it answers."""

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
    """How one API is asked for vectors and answers. Nothing here touches the world."""

    @property
    def space(self) -> str:
        """What makes vectors comparable: the address, the model and whatever else counts."""

    @property
    def texts_at_once(self) -> int:
        """How many texts one request may hold."""

    def build_request(self, texts: Sequence[str], auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the vectors of texts; `auth` are the headers with the key."""

    def parse(self, value: JsonObject) -> EmbeddingResponse:
        """Return the vectors in a reply. Raises ProviderError for what is no reply of this API."""


class EmbeddingModelProvider(ModelProvider):
    """Adds embeddings to a model provider, under its key, its deadline and its limits."""

    embeddings: EmbeddingApi

    @property
    def embedding_space(self) -> str:
        """What makes vectors comparable."""
        return self.embeddings.space

    @property
    def texts_at_once(self) -> int:
        """How many texts one request may hold."""
        return self.embeddings.texts_at_once

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return one vector per text; raises ProviderError."""
        now = asyncio.get_running_loop().time
        ends_at = now() + (request.timeout_s or self._target.try_timeout_s)
        auth = await self._credentials.headers(timeout_s=ends_at - now())
        reply = await send(self.embeddings.build_request(request.texts, auth), self._shared, timeout_s=ends_at - now())
        response = self.embeddings.parse(parse_object(reply.body))
        return replace(response, request_id=reply.request_id, quota=reply.quota)


def vector_of(value: JsonValue) -> Vector:
    """Return a vector written as numbers, or as their bytes in base64. Raises ProviderError for anything else."""
    vector = array("f")
    try:
        if isinstance(value, str):
            vector.frombytes(base64.b64decode(value, validate=True))
        elif isinstance(value, list | tuple):
            vector.extend(value)
        else:
            raise wrong_shape("a vector that is none", value)
    except (TypeError, ValueError, OverflowError, binascii.Error):
        raise wrong_shape("a vector that holds something else than numbers", value) from None
    return vector
