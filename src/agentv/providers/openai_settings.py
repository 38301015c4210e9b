"""Settings of `openai`."""

from typing import Annotated, Literal

from msgspec import Meta

from agentv.providers.model_settings import DIMENSIONS_HELP, ModelSettings, check_dimensions, check_url

OPENAI_URL = "https://api.openai.com/v1"


class OpenAISettings(ModelSettings, frozen=True, kw_only=True):
    """Which model is asked, where, and how."""

    model: Annotated[str, Meta(description="The model's name.")]
    base_url: Annotated[str, Meta(description="Where the API is served, up to and with /v1.")] = OPENAI_URL
    api_key: Annotated[str | None, Meta(description="The key, as ${{ VARIABLE }}; local servers need none.")] = None
    api: Annotated[Literal["chat", "responses"], Meta(description="Which of the APIs is spoken.")] = "chat"
    dimensions: Annotated[int | None, Meta(description=DIMENSIONS_HELP)] = None

    def __post_init__(self) -> None:
        """Refuse what no server can accept."""
        ModelSettings.__post_init__(self)
        check_dimensions(self.dimensions)
        check_url("base_url", self.base_url)
        if not self.api_key and self.is_openai and not self.has_header("Authorization"):
            raise ValueError(f"api_key is needed for {OPENAI_URL}; write it as ${{{{ OPENAI_API_KEY }}}}")

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI itself, not a server that speaks its language."""
        return self.base_url.rstrip("/") == OPENAI_URL

    @property
    def knows_schemas(self) -> bool:
        """Whether judges send the schema of their reply: to OpenAI itself, or when told so."""
        return self.is_openai if self.structured_output is None else self.structured_output
