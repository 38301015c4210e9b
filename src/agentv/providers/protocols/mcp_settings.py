"""The settings of an `mcp` target (docs/reference/providers/mcp.md)."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from agentv.providers.apis.model_settings import check_url
from agentv.providers.local.http_template import BodyTemplate, parse_body
from agentv.types.json_value import JsonValue

_JSON = "application/json"


class McpSettings(Struct, frozen=True, kw_only=True):
    """The MCP server of a target, and the tool that a case calls."""

    command: Annotated[
        str | None, Meta(description="Program that starts the server, which talks over standard input and output.")
    ] = None
    args: Annotated[tuple[str, ...], Meta(description="Arguments of `command`.")] = ()
    env: Annotated[Mapping[str, str], Meta(description="Additional environment variables of the server.")] = field(
        default_factory=dict
    )
    env_allow: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only variables to inherit, besides PATH; default: the whole environment."),
    ] = None
    cwd: Annotated[
        str | None,
        Meta(
            description="Working folder of the server, relative to the targets file; default: the folder of that file."
        ),
    ] = None
    url: Annotated[str | None, Meta(description="URL of a server over streamable HTTP, instead of `command`.")] = None
    headers: Annotated[
        Mapping[str, str], Meta(description="Headers of every request to `url`; write secrets as ${{ VARIABLE }}.")
    ] = field(default_factory=dict)
    tool: Annotated[
        str | None,
        Meta(
            description=(
                "Name of the tool to call. Default: the question is a JSON object "
                '`{"tool": …, "arguments": {…}}`. {{ variables }} are filled.'
            )
        ),
    ] = None
    arguments: Annotated[
        Mapping[str, JsonValue] | None,
        Meta(
            description=(
                "Arguments of `tool`, with {{ question }} and other {{ variables }}. "
                "Default: the question is a JSON object of the arguments."
            )
        ),
    ] = None
    list: Annotated[
        Literal["tools"] | None,
        Meta(description="Answer with the list of the server's tools, whose JSON Schemas are checked; call none."),
    ] = None
    answer: Annotated[
        Literal["text", "structured"],
        Meta(description="Part of a result that is the answer: its text, or its structured content as JSON."),
    ] = "text"
    judge_errors: Annotated[
        bool,
        Meta(
            description=(
                "Evaluate a result that the tool marks as an error, and a list with invalid schemas, as an answer. "
                "Default: that is a failure of the target."
            )
        ),
    ] = False
    session: Annotated[
        Literal["run", "case"],
        Meta(description="Lifetime of a server: the whole run, or a new server for each case."),
    ] = "run"

    def __post_init__(self) -> None:
        """Reject invalid settings; the message starts with the setting's name."""
        self._check_server()
        if self.list and (self.tool is not None or self.arguments is not None):
            raise ValueError("list: with it no tool is called; remove `tool` and `arguments`, or `list`")
        if self.arguments is not None and self.tool is None:
            raise ValueError("arguments: set `tool`, the name of the tool that gets them")
        if self.list and self.answer == "structured":
            raise ValueError("answer: `structured` is for the result of a tool; remove it, or `list`")
        self.tool_template()
        self.arguments_template()

    def _check_server(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("command: set either `command`, which starts the server, or `url`, where it runs")
        if self.command is not None and not self.command.strip():
            raise ValueError("command must not be empty")
        if self.url is not None:
            check_url("url", self.url)
            for name in ("args", "env", "env_allow", "cwd"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for a server that `command` starts; remove it, or `url`")
        elif self.headers:
            raise ValueError("headers are sent to a `url`; a server that `command` starts gets its secrets in `env`")

    def tool_template(self) -> BodyTemplate | None:
        """Return the parsed name of the tool."""
        return None if self.tool is None else parse_body([self.tool], _JSON, setting="tool")

    def arguments_template(self) -> BodyTemplate | None:
        """Return the parsed arguments."""
        return None if self.arguments is None else parse_body(dict(self.arguments), _JSON, setting="arguments")
