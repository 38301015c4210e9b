"""The settings of an `http` target (formats.md, section 2)."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from agentv.providers.cli_settings import CommandHealthcheck, HttpHealthcheck
from agentv.providers.http_template import JSON, BodyTemplate, parse_body, parse_url
from agentv.providers.json_paths import AnswerPath, parse_path
from agentv.types.json_value import JsonValue


class HttpSettings(Struct, frozen=True):
    """Which requests a web service is sent for a case, and where the answer stands in its reply."""

    url: Annotated[str, Meta(description="Where the service is; may have {{ variables }}, after the host.")]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE"], Meta(description="The method of the request.")
    ] = "POST"
    headers: Annotated[
        Mapping[str, str], Meta(description="Headers of the request; write keys as ${{ VARIABLE }}.")
    ] = field(default_factory=dict)
    body: Annotated[
        JsonValue,
        Meta(
            description=(
                "What is sent: an object, or JSON as text, with {{ question }} and other {{ variables }}. With "
                "another Content-Type among the headers: a form or plain text."
            )
        ),
    ] = None
    response: Annotated[
        str | None,
        Meta(description="JSONPath to the answer. Default: `text` or `output_messages` of the reply, else all of it."),
    ] = None
    output_messages: Annotated[
        str | None, Meta(description="JSONPath to the messages of the conversation, with their tool calls.")
    ] = None
    healthcheck: Annotated[
        HttpHealthcheck | CommandHealthcheck | None,
        Meta(
            description=(
                "Asked once before the first case: {type: http, url, timeout_seconds} or "
                "{type: command, command_template, cwd, timeout_seconds}."
            )
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what cannot be read; the message starts with the setting's name."""
        names = parse_url(self.url).names
        body = self.body_template()
        if body is not None and self.method == "GET":
            raise ValueError("body does not go with GET; write {{ question }} in the url, or use POST")
        if not names and (body is None or not body.names):
            raise ValueError("body must hold {{ question }} or another variable: now every case sends the same request")
        self.response_path()
        self.messages_path()

    @property
    def content_type(self) -> str:
        """How the body is sent."""
        named = {name.lower(): value for name, value in self.headers.items()}
        return named.get("content-type", JSON)

    def body_template(self) -> BodyTemplate | None:
        """Return the body as it was read."""
        return None if self.body is None else parse_body(self.body, self.content_type)

    def response_path(self) -> AnswerPath | None:
        """Return the path to the answer as it was read."""
        return None if self.response is None else parse_path(self.response, called="response")

    def messages_path(self) -> AnswerPath | None:
        """Return the path to the messages as it was read."""
        return None if self.output_messages is None else parse_path(self.output_messages, called="output_messages")
