"""The settings of commands and healthchecks.

The code that starts processes is in other files, so that reading a targets file does not import it.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from agentv.templating.command import parse_command, parse_files_format


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


class CliSettings(Struct, frozen=True):
    """The command of a `cli` target and its input."""

    command_template: Annotated[
        str,
        Meta(
            description=(
                "The command, with {PROMPT} {PROMPT_FILE} {GUIDELINES} {EVAL_ID} {ATTEMPT} {FILES} {OUTPUT_FILE}, "
                "and {CASES_FILE} for a batch. A command with a shell operator runs in sh."
            )
        ),
    ]
    files_format: Annotated[
        str,
        Meta(
            description="Format of each file in {FILES}, with {path} and {basename}.",
            extra={"aliases": ("attachments_format",)},
        ),
    ] = "{path}"
    cwd: Annotated[
        str | None, Meta(description="Working folder, relative to the eval file; default: the folder of the eval file.")
    ] = None
    healthcheck: Healthcheck = None
    verbose: Annotated[bool, Meta(description="Add each command line to the notes of its result.")] = False
    keep_temp_files: Annotated[bool, Meta(description="Do not delete {PROMPT_FILE} and {OUTPUT_FILE}.")] = False
    env: Annotated[Mapping[str, str], Meta(description="Additional environment variables of the command.")] = field(
        default_factory=dict
    )
    env_allow: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only variables to inherit, besides PATH; default: the whole environment."),
    ] = None

    def __post_init__(self) -> None:
        """Reject invalid templates; the message starts with the setting's name."""
        parse_command(self.command_template, called="command_template")
        parse_files_format(self.files_format, called="files_format")
