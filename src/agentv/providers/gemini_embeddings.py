"""The batchEmbedContents API of Gemini. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentv.providers.embedding_model import vector_of
from agentv.providers.gemini_content import ContentDialogue, GeminiSettings
from agentv.providers.http import HttpRequest
from agentv.providers.reply_json import count, objects, wrong_shape
from agentv.providers.request_json import json_request, without_none
from agentv.types.embeddings import EmbeddingResponse
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.usage import Usage


class GeminiEmbeddings(Struct, frozen=True):
    """Asks for the vectors of the settings' model. `extra_body` (a `taskType`) is added to every text of a request."""

    settings: GeminiSettings
    texts_at_once: int = 100

    @property
    def space(self) -> str:
        """The address and everything that is said of a text but the text."""
        return f"{self._url} {compact_json(self._request(''))}"

    def build_request(self, texts: Sequence[str], auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the vectors of texts."""
        body: JsonObject = {"requests": [self._request(text) for text in texts]}
        return json_request(self._url, body, auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> EmbeddingResponse:
        """Return the vectors in a reply."""
        items = objects(value.get("embeddings"))
        if not items:
            raise wrong_shape("no `embeddings`", value)
        tokens = count(value, "usageMetadata", "promptTokenCount")
        return EmbeddingResponse(
            tuple(vector_of(item.get("values")) for item in items),
            usage=Usage(input=tokens, total=tokens, requests=1) if tokens else None,
        )

    @property
    def _url(self) -> str:
        return ContentDialogue(self.settings).url(self.settings.model, "batchEmbedContents")

    def _request(self, text: str) -> JsonObject:
        model = self.settings.model
        request: dict[str, JsonValue] = {
            "model": model if "/" in model else f"models/{model}",
            "content": {"parts": [{"text": text}]},
            "outputDimensionality": self.settings.dimensions,
        }
        return {**without_none(request), **self.settings.extra_body}
