"""`gemini`: a model of Google, behind the Gemini API or on Vertex."""

from typing import cast

from agentv.providers.credentials import Credentials, FixedHeaders, google_token
from agentv.providers.embedding_model import EmbeddingModelProvider
from agentv.providers.gemini_content import ContentDialogue, GeminiSettings
from agentv.providers.gemini_embeddings import GeminiEmbeddings
from agentv.types.protocols import ProviderTools
from agentv.types.targets import ResolvedTarget


class GeminiProvider(EmbeddingModelProvider):
    """Asks Gemini with a key, or Vertex with Google's default credentials."""

    kind = "gemini"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(GeminiSettings, target.settings)
        super().__init__(target, tools, dialogue=ContentDialogue(settings), credentials=make_credentials(settings))
        self.embeddings = GeminiEmbeddings(settings)


def make_credentials(settings: GeminiSettings) -> Credentials:
    """Return the key, else for Vertex what fetches tokens, unless a header of the settings lets us in."""
    if settings.api_key:
        return FixedHeaders({"x-goog-api-key": settings.api_key})
    return google_token() if settings.project and not settings.has_header("Authorization") else FixedHeaders({})
