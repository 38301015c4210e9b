"""The settings of an `a2a` target (docs/reference/providers/a2a.md)."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from agentv.providers.apis.model_settings import check_url
from agentv.providers.protocols.a2a_addresses import host_of

TaskState: TypeAlias = Literal["completed", "input-required", "auth-required", "failed", "rejected", "canceled"]


class A2aSettings(Struct, frozen=True, kw_only=True):
    """The A2A agent of a target."""

    url: Annotated[
        str,
        Meta(description="URL of the agent's card, or of the agent with its card at `/.well-known/agent-card.json`."),
    ]
    endpoint: Annotated[
        str | None, Meta(description="URL to send messages to, instead of the one in the agent's card.")
    ] = None
    headers: Annotated[
        Mapping[str, str], Meta(description="Headers of every request; write secrets as ${{ VARIABLE }}.")
    ] = field(default_factory=dict)
    allow_hosts: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "Hosts other than that of `url` that the agent's card may name as the address for messages. Link-local "
                "and metadata addresses must always be listed."
            )
        ),
    ] = ()
    streaming: Annotated[
        Literal["auto", "on", "off"],
        Meta(description="Receive answers as a stream of events: auto (if the agent's card allows it), on or off."),
    ] = "auto"
    answer_states: Annotated[
        tuple[TaskState, ...],
        Meta(description="States in which a task has an answer; a task that ends in another one is a failure."),
    ] = ("completed",)

    def __post_init__(self) -> None:
        """Reject invalid settings; the message starts with the setting's name."""
        for name, url in (("url", self.url), ("endpoint", self.endpoint)):
            if url is not None:
                check_url(name, url)
        for host in self.allow_hosts:
            if not host or host.lower() not in (host_of(f"//{host}"), host_of(f"//[{host}]")):
                raise ValueError(f"allow_hosts has {host!r}; write only the name or address of a host")
        if not self.answer_states:
            raise ValueError("answer_states must name a state, such as completed")
