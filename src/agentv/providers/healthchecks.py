"""The setting `healthcheck`: what must pass before a target is called."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.templating.command import parse_command


class HttpHealthcheck(Struct, frozen=True):
    """Passes if the URL responds with a status of 2xx."""

    type: Literal["http"]
    url: str
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Reject an invalid URL or timeout."""
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("url must start with http:// or https://")
        _check_timeout(self.timeout_seconds)


class CommandHealthcheck(Struct, frozen=True):
    """Passes if the command, which has no placeholders, exits with 0. `cwd` is relative to the eval file's folder."""

    type: Literal["command"]
    command_template: str
    cwd: str | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Reject an invalid command or timeout."""
        parse_command(self.command_template, supported=(), called="command_template")
        _check_timeout(self.timeout_seconds)


Healthcheck: TypeAlias = Annotated[
    HttpHealthcheck | CommandHealthcheck | None,
    Meta(
        description=(
            "Check before the first case: {type: http, url, timeout_seconds} or "
            "{type: command, command_template, cwd, timeout_seconds}."
        )
    ),
]
"""The setting `healthcheck` of a command or a web service."""


def _check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and timeout_s <= 0:
        raise ValueError("timeout_seconds must be more than 0")
