"""The settings of `vscode` and `vscode-insiders` targets (formats.md, section 2)."""

import shlex
from dataclasses import field

from agentv.types.dataclass import dataclass

SUBAGENT_ROOT = "~/.agentv/vscode-agents"


@dataclass(frozen=True, slots=True)
class VscodeSettings:
    """How the editor is started, and where its agents find their requests."""

    command: str | None = field(
        default=None,
        metadata={"help": "The editor's command, with arguments if need be. Default: code, code-insiders."},
    )
    workspace_template: str | None = field(
        default=None,
        metadata={"help": "A folder or a .code-workspace file, relative to the targets file, that the agents see."},
    )
    wait: bool = field(default=True, metadata={"help": "Wait for the answer; false hands the request over, no more."})
    dry_run: bool = field(default=False, metadata={"help": "Start nothing; return what would be asked, without text."})
    subagent_root: str = field(
        default=SUBAGENT_ROOT,
        metadata={"help": "The folder of subagent-1, subagent-2, …; as many requests at once as there are of them."},
    )

    def __post_init__(self) -> None:
        """Refuse a command that cannot be read; the message starts with the setting's name."""
        try:
            words = shlex.split(self.command) if self.command is not None else ["code"]
        except ValueError as error:
            raise ValueError(f"command cannot be read: {error}") from None
        if not words:
            raise ValueError("command is empty")
