"""The embeddings API of OpenAI, which Azure and many others implement. Pure."""

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
    """The embeddings endpoint at `url` for `model`, optionally with a number of `dimensions`."""

    url: str
    model: str
    settings: ModelSettings
    dimensions: int | None = None
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
    """Return the items in order of `index` if all are distinct, else in the given order."""
    by_index = {item.get("index"): item for item in items if isinstance(item.get("index"), int)}
    indices = range(len(items))
    return [by_index[index] for index in indices] if by_index.keys() == set(indices) else list(items)
