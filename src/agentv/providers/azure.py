"""`azure`: a deployment of a chat model on Azure OpenAI."""

from typing import cast

from agentv.providers.azure_settings import AzureSettings
from agentv.providers.batched_model import BatchedModelProvider
from agentv.providers.credentials import Credentials, FixedHeaders, entra_token
from agentv.providers.embedding_model import EmbeddingModelProvider
from agentv.providers.openai_batches import OpenAIBatches
from agentv.providers.openai_chat import ChatDialogue
from agentv.providers.openai_embeddings import OpenAIEmbeddings
from agentv.types.protocols import ProviderTools
from agentv.types.targets import ResolvedTarget


class AzureProvider(EmbeddingModelProvider, BatchedModelProvider):
    """Asks Azure OpenAI, with a key or an Entra ID token."""

    kind = "azure"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(AzureSettings, target.settings)
        super().__init__(
            target,
            tools,
            dialogue=make_dialogue(settings),
            credentials=make_credentials(settings),
            batches=OpenAIBatches(lambda path: settings.versioned(f"{settings.openai_url}{path}"), "/chat/completions"),
        )
        url = settings.deployment_url(settings.deployment, "embeddings")
        self.embeddings = OpenAIEmbeddings(url, settings.deployment, settings, settings.dimensions)


def make_dialogue(settings: AzureSettings) -> ChatDialogue:
    """Return how the deployment is spoken with."""
    return ChatDialogue(settings.chat_url, settings.deployment, settings, settings.limit_key)


def make_credentials(settings: AzureSettings) -> Credentials:
    """Return the key, else what fetches tokens, unless a header of the settings lets us in."""
    if settings.api_key:
        return FixedHeaders({"api-key": settings.api_key})
    has_own = settings.has_header("api-key") or settings.has_header("Authorization")
    return FixedHeaders({}) if has_own else entra_token()
