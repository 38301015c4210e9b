"""`openai`: a chat model behind the OpenAI API or any server that speaks it."""

from typing import cast

from agentv.providers.batched_model import BatchedModelProvider
from agentv.providers.credentials import bearer
from agentv.providers.dialogue import Dialogue
from agentv.providers.embedding_model import EmbeddingModelProvider
from agentv.providers.openai_batches import OpenAIBatches
from agentv.providers.openai_chat import ChatDialogue
from agentv.providers.openai_embeddings import OpenAIEmbeddings
from agentv.providers.openai_responses import ResponsesDialogue
from agentv.providers.openai_settings import OpenAISettings
from agentv.types.protocols import ProviderTools
from agentv.types.targets import ResolvedTarget

PATHS = {"chat": "/chat/completions", "responses": "/responses"}


class OpenAIProvider(EmbeddingModelProvider, BatchedModelProvider):
    """Asks OpenAI."""

    kind = "openai"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(OpenAISettings, target.settings)
        base_url = settings.base_url.rstrip("/")
        super().__init__(
            target,
            tools,
            dialogue=make_dialogue(settings),
            credentials=bearer(settings.api_key),
            batches=OpenAIBatches(lambda path: f"{base_url}{path}", f"/v1{PATHS[settings.api]}"),
        )
        self.embeddings = OpenAIEmbeddings(f"{base_url}/embeddings", settings.model, settings, settings.dimensions)


def make_dialogue(settings: OpenAISettings) -> Dialogue:
    """Return how the API is spoken that the settings name."""
    url = f"{settings.base_url.rstrip('/')}{PATHS[settings.api]}"
    if settings.api == "responses":
        return ResponsesDialogue(url, settings.model, settings)
    # OpenAI's newer models refuse max_tokens; servers that only follow its older API know nothing else.
    limit_key = "max_completion_tokens" if settings.is_openai else "max_tokens"
    return ChatDialogue(lambda _model: url, settings.model, settings, limit_key)
