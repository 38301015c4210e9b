"""The settings of `vscode` and `vscode-insiders` targets (formats.md, section 2)."""

import shlex
from typing import Annotated

from msgspec import Meta, Struct

SUBAGENT_ROOT = "~/.agentv/vscode-agents"


class VscodeSettings(Struct, frozen=True):
    """How the editor is started, and where its agents find their requests."""

    command: Annotated[
        str | None, Meta(description="The editor's command, with arguments if need be. Default: code, code-insiders.")
    ] = None
    workspace_template: Annotated[
        str | None,
        Meta(description="A folder or a .code-workspace file, relative to the targets file, that the agents see."),
    ] = None
    wait: Annotated[bool, Meta(description="Wait for the answer; false hands the request over, no more.")] = True
    dry_run: Annotated[bool, Meta(description="Start nothing; return what would be asked, without text.")] = False
    subagent_root: Annotated[
        str, Meta(description="The folder of subagent-1, subagent-2, …; as many requests at once as there are of them.")
    ] = SUBAGENT_ROOT

    def __post_init__(self) -> None:
        """Refuse a command that cannot be read; the message starts with the setting's name."""
        try:
            words = shlex.split(self.command) if self.command is not None else ["code"]
        except ValueError as error:
            raise ValueError(f"command cannot be read: {error}") from None
        if not words:
            raise ValueError("command is empty")
