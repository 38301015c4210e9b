"""What the settings of all coding agents share."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field


class AgentSettings(Struct, frozen=True, kw_only=True):
    """How an agent's command is run."""

    args: Annotated[tuple[str, ...], Meta(description="More arguments for the command, one a list item.")] = ()
    cwd: Annotated[
        str | None,
        Meta(description="Where the agent works, relative to the eval file; default: a fresh folder for each call."),
    ] = None
    env: Annotated[
        Mapping[str, str], Meta(description="Variables to add to the command's environment, keys as ${{ VARIABLE }}.")
    ] = field(default_factory=dict)
