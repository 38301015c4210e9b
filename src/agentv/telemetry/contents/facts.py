"""What one span says of an agent, a call of a model or a call of a tool, whatever its conventions."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.telemetry.contents.contents import with_system
from agentv.types.messages import Message, ToolCall
from agentv.types.usage import Usage

Kind: TypeAlias = Literal["agent", "model", "tool", "step"]
"""`agent` is an agent or a workflow; `step` is anything else that a convention names, such as a retrieval."""


class Facts(Struct, frozen=True, kw_only=True):
    """What a span says; None and empty tuples where it says nothing."""

    kind: Kind | None = None
    is_guess: bool = False
    """True if no attribute names the kind: such a span around a call of a model is none itself."""
    agent: str | None = None
    workflow: str | None = None
    """The name of a workflow or a chain, which is the agent's if no agent is named."""
    system: tuple[Message, ...] = ()
    input: tuple[Message, ...] = ()
    output: tuple[Message, ...] = ()
    tool: ToolCall | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    session: str | None = None
    response_id: str | None = None
    previous_id: str | None = None
    """The id of the response that a call continues."""
    error: str | None = None
    """Why the span failed, if a convention has an attribute of its own for it."""
    problem: str | None = None
    """Why a part of the span could not be read."""

    @property
    def given(self) -> tuple[Message, ...]:
        """The input with the system instructions."""
        return with_system(self.system, self.input)

    @property
    def has_content(self) -> bool:
        """True if the span has messages."""
        return bool(self.input or self.output)
