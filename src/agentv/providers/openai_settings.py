"""Settings of `openai`."""

from dataclasses import field
from typing import Literal

from agentv.providers.model_settings import DIMENSIONS_HELP, ModelSettings, check_dimensions, check_url
from agentv.types.dataclass import dataclass

OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings(ModelSettings):
    """Which model is asked, where, and how."""

    model: str = field(metadata={"help": "The model's name."})
    base_url: str = field(default=OPENAI_URL, metadata={"help": "Where the API is served, up to and with /v1."})
    api_key: str | None = field(
        default=None, metadata={"help": "The key, as ${{ VARIABLE }}; local servers need none."}
    )
    api: Literal["chat", "responses"] = field(default="chat", metadata={"help": "Which of the APIs is spoken."})
    dimensions: int | None = field(default=None, metadata={"help": DIMENSIONS_HELP})

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
