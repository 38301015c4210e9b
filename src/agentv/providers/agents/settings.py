"""Settings shared by all coding agents."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field


class AgentSettings(Struct, frozen=True, kw_only=True):
    """The settings that every coding agent has."""

    args: Annotated[tuple[str, ...], Meta(description="Additional arguments of the command, one per list item.")] = ()
    cwd: Annotated[
        str | None,
        Meta(description="Working folder, relative to the eval file; default: a fresh folder for each call."),
    ] = None
    env: Annotated[
        Mapping[str, str],
        Meta(description="Additional environment variables of the command; write secrets as ${{ VARIABLE }}."),
    ] = field(default_factory=dict)
    env_allow: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only variables to inherit, besides PATH; default: the whole environment."),
    ] = None
