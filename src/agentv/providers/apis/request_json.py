"""Parts shared by the requests to model APIs: images, tools, headers. Pure."""

import base64
from collections.abc import Mapping

from msgspec import Struct

from agentv.providers.apis.http import HttpRequest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.messages_json import compact_json


class Image(Struct, frozen=True):
    """An image for the model."""

    media_type: str
    content: bytes

    @property
    def base64(self) -> str:
        """The content in base64."""
        return base64.b64encode(self.content).decode()

    @property
    def data_url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.base64}"


def output_text(call: ToolCall) -> str:
    """Return the output of a tool as text."""
    return call.output if isinstance(call.output, str) else compact_json(call.output)


def without_none(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a body without the keys whose value is None."""
    return {key: value for key, value in body.items() if value is not None}


def json_request(url: str, body: JsonObject, *headers: Mapping[str, str]) -> HttpRequest:
    """Return a POST request with JSON. Of headers with the same name, ignoring case, the last one is sent."""
    return HttpRequest(url, joined_headers({"Content-Type": "application/json"}, *headers), json_bytes(body))


def json_bytes(value: JsonValue) -> bytes:
    """Return JSON as bytes. Lone surrogates, which UTF-8 cannot encode, become question marks."""
    return compact_json(value).encode(errors="replace")


def joined_headers(*several: Mapping[str, str]) -> dict[str, str]:
    """Merge headers; of those with the same name, ignoring case, the last one remains."""
    named = {name.lower(): (name, value) for headers in several for name, value in headers.items()}
    return dict(named.values())


def function_of(tool: JsonObject) -> JsonObject | None:
    """Return the function in a tool definition, with the keys `name`, `description` and `parameters`.

    Definitions may be plain functions, or in the format of the chat API or Anthropic's API. None for an API's own
    tools.
    """
    function = tool.get("function", tool)
    is_function = (
        isinstance(function, Mapping) and "name" in function and tool.get("type") in (None, "function", "custom")
    )
    if not is_function or not isinstance(function, Mapping):
        return None
    names = {"input_schema": "parameters"}
    return {names.get(key, key): value for key, value in function.items() if key != "type"}
