"""The settings of commands.

The code that starts processes is in other files, so that reading a targets file does not import it.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from agentv.providers.healthchecks import Healthcheck
from agentv.providers.local.otel_settings import (
    DEFAULT_WAIT_S,
    OtelForward,
    OtelWait,
    check_forward,
    check_variables,
    check_wait,
)
from agentv.templating.command import parse_command, parse_files_format


class CliSettings(Struct, frozen=True):
    """The command of a `cli` target and its input."""

    command_template: Annotated[
        str,
        Meta(
            description=(
                "The command, with {PROMPT} {PROMPT_FILE} {SYSTEM_PROMPT} {GUIDELINES} {EVAL_ID} {ATTEMPT} {FILES} "
                "{OUTPUT_FILE}, and {CASES_FILE} for a batch. A command with a shell operator runs in sh."
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

    otel: Annotated[
        bool,
        Meta(
            description=(
                "Receive the spans that the command sends by OpenTelemetry, and read its tool calls, tokens and cost "
                "from them."
            )
        ),
    ] = False
    otel_wait_s: OtelWait = DEFAULT_WAIT_S
    otel_forward: OtelForward = False

    def __post_init__(self) -> None:
        """Reject invalid settings; the message starts with the setting's name."""
        check_variables(self.env, otel=self.otel)
        check_wait(self.otel_wait_s)
        check_forward(self.otel_forward, otel=self.otel)
        parse_command(self.command_template, called="command_template")
        parse_files_format(self.files_format, called="files_format")

    @property
    def takes_system_prompt(self) -> bool:
        """True if the command takes the system prompt apart from the question."""
        return "SYSTEM_PROMPT" in parse_command(self.command_template).placeholders

    @property
    def system_prompt_advice(self) -> str | None:
        """How a target with a `system_prompt` can use it; None if it does."""
        return None if self.takes_system_prompt else "add {SYSTEM_PROMPT} to `command_template`"
