"""Settings shared by all model APIs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, cast
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import ProviderRequest

DIMENSIONS_HELP = "Dimensions of the vectors, for embedding models that support several."


class TurnSettings(Struct, frozen=True):
    """The parameters of a turn: those of the request override those of the target. None is the API's default."""

    temperature: float | None
    max_output_tokens: int | None
    schema: JsonObject | None


class ModelSettings(Struct, frozen=True, kw_only=True):
    """The settings that every model API has."""

    temperature: Annotated[float | None, Meta(description="Sampling temperature, 0 to 2; not sent by default.")] = None
    max_output_tokens: Annotated[
        int | None,
        Meta(description="Maximum number of tokens in a response.", extra={"aliases": ("max_tokens", "maxTokens")}),
    ] = None
    structured_output: Annotated[
        bool,
        Meta(description="Let judges send a JSON Schema for the response, until the server refuses it; false: never."),
    ] = True
    system_role: Annotated[
        bool,
        Meta(description="False for a model without system messages: the system prompt opens the user prompt."),
    ] = True
    tools: Annotated[
        Sequence[JsonObject],
        Meta(description="Tool definitions with JSON Schema; calls are recorded as output messages."),
    ] = ()
    tool_responses: Annotated[
        JsonObject, Meta(description="Outputs of tools by name: any JSON, or python:path.py:function.")
    ] = field(default_factory=dict)
    max_steps: Annotated[int, Meta(description="Maximum number of turns after tool outputs.")] = 1
    stream: Annotated[
        bool, Meta(description="Receive the response as server-sent events; the time to the first token is stored.")
    ] = False
    batch_api: Annotated[bool, Meta(description="Use the batch endpoint: half the price, results within a day.")] = (
        False
    )
    extra_body: Annotated[JsonObject, Meta(description="Additional keys of the request body.")] = field(
        default_factory=dict
    )
    extra_headers: Annotated[Mapping[str, str], Meta(description="Additional headers of the request.")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Reject settings that no API accepts."""
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise ValueError("max_output_tokens must be at least 1")
        if self.max_steps < 1:
            raise ValueError("max_steps must be at least 1")
        if self.batch_api and self.stream:
            raise ValueError("stream cannot be combined with batch_api: a batch is not streamed; remove one of the two")
        if self.batch_api and (self.tool_responses or self.max_steps > 1):
            key = "tool_responses" if self.tool_responses else "max_steps"
            raise ValueError(
                f"{key} cannot be combined with batch_api: a batch has only one turn; remove one of the two"
            )

    @property
    def knows_list_bounds(self) -> bool:
        """True if the API accepts `maxItems` in a JSON Schema."""
        return True

    def turn_settings(self, request: ProviderRequest) -> TurnSettings:
        """Return the parameters for the answer to `request`."""
        return TurnSettings(
            temperature=self.temperature if request.temperature is None else request.temperature,
            max_output_tokens=request.max_output_tokens or self.max_output_tokens,
            schema=self._schema(request.response_schema),
        )

    def _schema(self, schema: JsonObject | None) -> JsonObject | None:
        if schema is None or not self.structured_output:
            return None
        return schema if self.knows_list_bounds else cast(JsonObject, without_list_bounds(schema))

    def has_header(self, name: str) -> bool:
        """Return True if `extra_headers` has a header of that name, in any case."""
        return name.lower() in map(str.lower, self.extra_headers)


def without_list_bounds(value: JsonValue) -> JsonValue:
    """Return a JSON Schema without `maxItems`."""
    if isinstance(value, Mapping):
        return {key: without_list_bounds(each) for key, each in value.items() if key != "maxItems"}
    return [without_list_bounds(each) for each in value] if isinstance(value, list) else value


def check_dimensions(dimensions: int | None) -> None:
    """Raise ValueError for an invalid number of dimensions."""
    if dimensions is not None and dimensions < 1:
        raise ValueError("dimensions must be at least 1")


def check_url(name: str, url: str) -> None:
    """Raise ValueError unless `url`, the value of the setting `name`, is an HTTP URL with a host and a valid port."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{name} must start with http:// or https://")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError as well
    except ValueError as error:
        raise ValueError(f"{name} is not a valid URL: {error}") from None
    if not parts.hostname:
        raise ValueError(f"{name} is not a valid URL: it has no host")
