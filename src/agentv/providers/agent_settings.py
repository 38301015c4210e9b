"""What the settings of all coding agents share."""

from collections.abc import Mapping
from dataclasses import field

from agentv.types.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How an agent's command is run."""

    args: tuple[str, ...] = field(default=(), metadata={"help": "More arguments for the command, one a list item."})
    cwd: str | None = field(
        default=None,
        metadata={"help": "Where the agent works, relative to the eval file; default: a fresh folder for each call."},
    )
    env: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"help": "Variables to add to the command's environment, keys as ${{ VARIABLE }}."},
    )
