"""The settings of a `cli` target (formats.md, section 2)."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from agentv.templating.command import parse_command, parse_files_format
from agentv.types.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class HttpHealthcheck:
    """Passes when the URL answers with a status of 2xx."""

    type: Literal["http"]
    url: str
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no URL for us."""
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("url must start with http:// or https://")
        _check_timeout(self.timeout_seconds)


@dataclass(frozen=True, slots=True)
class CommandHealthcheck:
    """Passes when the command exits with 0. A relative `cwd` starts from the targets file; no placeholders."""

    type: Literal["command"]
    command_template: str
    cwd: str | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse a command that cannot be read."""
        parse_command(self.command_template, supported=(), called="command_template")
        _check_timeout(self.timeout_seconds)


@dataclass(frozen=True, slots=True)
class CliSettings:
    """Which command answers a case, and how it is given the case."""

    command_template: str = field(
        metadata={
            "help": "The command, with {PROMPT} {PROMPT_FILE} {GUIDELINES} {EVAL_ID} {ATTEMPT} {FILES} {OUTPUT_FILE}, "
            "and {CASES_FILE} for a batch. With a shell operator in it, it runs in sh."
        }
    )
    files_format: str = field(
        default="{path}",
        metadata={"help": "How each file stands in {FILES}: {path}, {basename}.", "aliases": ("attachments_format",)},
    )
    cwd: str | None = field(
        default=None, metadata={"help": "Where the command runs, relative to the eval file; default: its folder."}
    )
    healthcheck: HttpHealthcheck | CommandHealthcheck | None = field(
        default=None,
        metadata={
            "help": "Asked once before the first case: {type: http, url, timeout_seconds} or "
            "{type: command, command_template, cwd, timeout_seconds}."
        },
    )
    verbose: bool = field(default=False, metadata={"help": "Note each command line with its row."})
    keep_temp_files: bool = field(default=False, metadata={"help": "Keep {PROMPT_FILE} and {OUTPUT_FILE}."})
    env: Mapping[str, str] = field(
        default_factory=dict, metadata={"help": "Variables to add to the command's environment."}
    )

    def __post_init__(self) -> None:
        """Refuse templates that cannot be read; the message starts with the setting's name."""
        parse_command(self.command_template, called="command_template")
        parse_files_format(self.files_format, called="files_format")


def _check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and timeout_s <= 0:
        raise ValueError("timeout_seconds must be more than 0")
