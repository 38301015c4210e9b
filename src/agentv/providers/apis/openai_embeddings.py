"""The embeddings API of OpenAI, which Azure and many others speak. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentv.providers.apis.embedding_model import vector_of
from agentv.providers.apis.http import HttpRequest
from agentv.providers.apis.model_settings import ModelSettings
from agentv.providers.apis.replies import objects, text_or_none, usage_of, wrong_shape
from agentv.providers.apis.request_json import json_request, without_none
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.provider import EmbeddingResponse


class OpenAIEmbeddings(Struct, frozen=True):
    """Asks at `url` for vectors of `model`, of `dimensions` numbers where that can be chosen."""

    url: str
    model: str
    settings: ModelSettings
    dimensions: int | None = None
    texts_at_once: int = 128

    @property
    def space(self) -> str:
        """The address and everything in the body but the texts."""
        return f"{self.url} {compact_json(self._body(()))}"

    def build_request(self, texts: Sequence[str], auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the vectors of texts."""
        return json_request(self.url, self._body(texts), auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> EmbeddingResponse:
        """Return the vectors in a reply, in the order of the texts."""
        items = objects(value.get("data"))
        if not items:
            raise wrong_shape("no vectors in `data`", value)
        return EmbeddingResponse(
            tuple(vector_of(item.get("embedding")) for item in _in_order(items)),
            usage=usage_of(value.get("usage"), sent="prompt_tokens", made="completion_tokens"),
            model=text_or_none(value.get("model")),
        )

    def _body(self, texts: Sequence[str]) -> JsonObject:
        # base64 makes a reply a third as long; servers that do not know it answer with numbers, which are read as well.
        body: dict[str, JsonValue] = {
            "input": tuple(texts),
            "model": self.model,
            "dimensions": self.dimensions,
            "encoding_format": "base64",
        }
        return {**without_none(body), **self.settings.extra_body}


def _in_order(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items by their `index`, where every one has its own; else as they came."""
    by_index = {item.get("index"): item for item in items if isinstance(item.get("index"), int)}
    places = range(len(items))
    return [by_index[place] for place in places] if by_index.keys() == set(places) else list(items)
