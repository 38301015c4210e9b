"""The settings of an `a2a` target (docs/reference/providers/a2a.md)."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from agentv.providers.apis.model_settings import check_url

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
        if not self.answer_states:
            raise ValueError("answer_states must name a state, such as completed")
