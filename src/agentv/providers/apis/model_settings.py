"""What the settings of all model APIs have in common."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from agentv.types.json_value import JsonObject
from agentv.types.provider import ProviderRequest

DIMENSIONS_HELP = "How many numbers a vector has, for models of embeddings that let one choose."


class TurnSettings(Struct, frozen=True):
    """How a turn is to be made: what the request says goes before what the target says. None leaves it to the API."""

    temperature: float | None
    max_output_tokens: int | None
    schema: JsonObject | None


class ModelSettings(Struct, frozen=True, kw_only=True):
    """The keys that every model API has."""

    temperature: Annotated[float | None, Meta(description="0 to 2; not sent when absent.")] = None
    max_output_tokens: Annotated[int | None, Meta(description="At most this many tokens in a reply.")] = None
    structured_output: Annotated[
        bool | None,
        Meta(description="Whether judges send the JSON Schema of their reply. Default: where the API is known to."),
    ] = None
    tools: Annotated[
        Sequence[JsonObject],
        Meta(description="Tool definitions with JSON Schema; calls are recorded as output messages."),
    ] = ()
    tool_responses: Annotated[
        JsonObject, Meta(description="What each tool answers, by name: any JSON, or python:path.py:function.")
    ] = field(default_factory=dict)
    max_steps: Annotated[int, Meta(description="How often the model goes on after answers of tools.")] = 1
    batch_api: Annotated[
        bool, Meta(description="Ask through the batch endpoint: half the price, up to a day of waiting.")
    ] = False
    extra_body: Annotated[JsonObject, Meta(description="More keys for the request's body.")] = field(
        default_factory=dict
    )
    extra_headers: Annotated[Mapping[str, str], Meta(description="More headers for the request.")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Refuse what no API can accept."""
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise ValueError("max_output_tokens must be at least 1")
        if self.max_steps < 1:
            raise ValueError("max_steps must be at least 1")
        if self.batch_api and (self.tool_responses or self.max_steps > 1):
            key = "tool_responses" if self.tool_responses else "max_steps"
            raise ValueError(
                f"{key} does not go with batch_api: in a batch the model has one turn; leave one of the two out"
            )

    @property
    def knows_schemas(self) -> bool:
        """Whether the API can hold a model to a JSON Schema, as far as the settings tell."""
        return self.structured_output is not False

    def turn_settings(self, request: ProviderRequest) -> TurnSettings:
        """Return how the answer to `request` is to be made."""
        return TurnSettings(
            temperature=self.temperature if request.temperature is None else request.temperature,
            max_output_tokens=request.max_output_tokens or self.max_output_tokens,
            schema=request.response_schema if self.knows_schemas else None,
        )

    def has_header(self, name: str) -> bool:
        """Whether `extra_headers` holds a header of that name."""
        return name.lower() in map(str.lower, self.extra_headers)


def check_dimensions(dimensions: int | None) -> None:
    """Raise ValueError for vectors that cannot be."""
    if dimensions is not None and dimensions < 1:
        raise ValueError("dimensions must be at least 1")


def check_url(name: str, url: str) -> None:
    """Raise ValueError unless `url`, the setting `name`, is one that can be asked."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{name} must start with http:// or https://")
