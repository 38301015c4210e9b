"""`azure`: a deployment of a chat model on Azure OpenAI."""

from typing import Annotated, cast
from urllib.parse import quote

from msgspec import Meta

from agentv.providers.apis.batches import BatchedModelProvider, OpenAIBatches
from agentv.providers.apis.credentials import Credentials, FixedHeaders, entra_token
from agentv.providers.apis.embeddings import EmbeddingModelProvider, OpenAIEmbeddings
from agentv.providers.apis.model_settings import DIMENSIONS_HELP, ModelSettings, check_dimensions, check_url
from agentv.providers.apis.openai_chat import ChatDialogue
from agentv.types.protocols import ProviderTools
from agentv.types.targets import ResolvedTarget

NEW_LIMIT_SINCE = "2024-09-01"
"""The first API version with max_completion_tokens, which newer models require, and with token usage in streams."""


class AzureSettings(ModelSettings, frozen=True, kw_only=True):
    """The deployment, its address and the parameters of requests."""

    deployment: Annotated[
        str, Meta(description="Name of the deployment.", extra={"aliases": ("deploymentName", "model")})
    ]
    endpoint: Annotated[
        str | None,
        Meta(description="Name or URL of the resource.", extra={"aliases": ("resource", "resourceName")}),
    ] = None
    base_url: Annotated[
        str | None, Meta(description="For gateways, instead of endpoint: the URL up to /deployments.")
    ] = None
    api_key: Annotated[str | None, Meta(description="API key, as ${{ VARIABLE }}; default: an Entra ID token.")] = None
    api_version: Annotated[str, Meta(description="API version.")] = "2024-10-01-preview"
    dimensions: Annotated[int | None, Meta(description=DIMENSIONS_HELP)] = None

    @property
    def knows_list_bounds(self) -> bool:
        """False: the API refuses a schema with `maxItems`."""
        return False

    def __post_init__(self) -> None:
        """Reject invalid addresses."""
        ModelSettings.__post_init__(self)
        check_dimensions(self.dimensions)
        if (self.endpoint is None) == (self.base_url is None):
            raise ValueError("endpoint (the resource's name or URL) or base_url (for a gateway) is needed, not both")
        if self.base_url is not None:
            check_url("base_url", self.base_url)
        if self.endpoint is not None and ("/openai" in self.endpoint or "?" in self.endpoint):
            raise ValueError("endpoint must be the URL of the resource only, such as https://NAME.openai.azure.com")

    @property
    def openai_url(self) -> str:
        """The base URL of the resource's API, without a deployment."""
        if self.base_url is not None:
            return self.base_url.rstrip("/").partition("/deployments")[0]
        return f"{_resource_url(self.endpoint or '')}/openai"

    def chat_url(self, deployment: str) -> str:
        """Return the chat URL of a deployment."""
        return self.deployment_url(deployment, "chat/completions")

    def deployment_url(self, deployment: str, path: str) -> str:
        """Return the URL of `path` below a deployment."""
        base = (self.base_url or "").rstrip("/")
        place = base if "/deployments/" in base else f"{self.openai_url}/deployments/{quote(deployment, safe='')}"
        return self.versioned(f"{place}/{path}")

    @property
    def limit_key(self) -> str:
        """The key of the output token limit in this API version."""
        return "max_completion_tokens" if self.api_version >= NEW_LIMIT_SINCE else "max_tokens"

    @property
    def streams_usage(self) -> bool:
        """True if this API version knows `stream_options`."""
        return self.api_version >= NEW_LIMIT_SINCE

    def versioned(self, url: str) -> str:
        """Return a URL with the API version."""
        return f"{url}?api-version={quote(self.api_version)}"


def _resource_url(endpoint: str) -> str:
    if endpoint.startswith(("http://", "https://")):
        return endpoint.rstrip("/")
    return f"https://{endpoint.rstrip('/')}" if "." in endpoint else f"https://{endpoint}.openai.azure.com"


class AzureProvider(EmbeddingModelProvider, BatchedModelProvider):
    """Calls Azure OpenAI with an API key or an Entra ID token."""

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
    """Return the dialogue for the deployment."""
    return ChatDialogue(
        settings.chat_url,
        settings.deployment,
        settings=settings,
        limit_key=settings.limit_key,
        streams_usage=settings.streams_usage,
    )


def make_credentials(settings: AzureSettings) -> Credentials:
    """Return the credentials: the key, else Entra ID tokens unless the settings have an authorization header."""
    if settings.api_key:
        return FixedHeaders({"api-key": settings.api_key})
    has_own_header = settings.has_header("api-key") or settings.has_header("Authorization")
    return FixedHeaders({}) if has_own_header else entra_token()
