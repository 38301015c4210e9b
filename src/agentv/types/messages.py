"""Messages, their parts, tool calls and traces: the inputs and outputs of targets."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.types.bounds import Milliseconds, Name
from agentv.types.json_value import JsonObject, JsonValue

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
ROLE_SPELLINGS: Mapping[str, Role] = {"developer": "system", "function": "tool", "data": "system"}
"""The further roles that a message may have as written, by us or by another program."""


class TextPart(Struct, frozen=True, gc=False):
    """A piece of text inside a message."""

    text: str


class FilePart(Struct, frozen=True, gc=False):
    """An attached file, already read and checked."""

    path: str
    """The path in the eval file."""
    real_path: str
    """The file that was found."""
    text: str | None
    """None for a binary file, which is sent as an attachment."""
    sha256: str
    """`sha256` and `size` describe the bytes on disk."""
    size: int
    media_type: str
    is_guideline: bool = False


class DataPart(Struct, frozen=True, gc=False):
    """A part of another kind (an agent's `tool_call` content part, an audio clip), stored unchanged."""

    type: str
    value: JsonObject


Part: TypeAlias = TextPart | FilePart | DataPart
Content: TypeAlias = str | tuple[Part, ...] | Mapping[str, JsonValue]


class ToolCall(Struct, frozen=True, gc=False):
    """One call of a tool by an agent."""

    tool: Name
    input: JsonValue = None
    output: JsonValue = None
    id: str | None = None
    timestamp: Annotated[str | None, Meta(description="in ISO 8601")] = None
    duration_ms: Annotated[Milliseconds | None, Meta(description="how long the tool took, if it is known")] = None


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One message of a conversation."""

    role: Annotated[Role, Meta(extra={"spellings": ROLE_SPELLINGS})]
    content: Annotated[Content | None, Meta(extra={"defined_as": "Content", "written": object})] = None
    """A text, parts, or an object; None when there are only tool calls."""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    timestamp: str | None = None
    metadata: JsonObject | None = None


if TYPE_CHECKING:
    StoredMessages: TypeAlias = tuple[Message, ...]
else:
    # Not read by msgspec but by messages_from_json, because messages have many shapes.
    StoredMessages = Any


TraceEventType: TypeAlias = Literal["model_step", "tool_call", "tool_result", "message", "error"]
TRACE_EVENT_TYPES: tuple[TraceEventType, ...] = ("model_step", "tool_call", "tool_result", "message", "error")


class TraceEvent(Struct, frozen=True, omit_defaults=True, gc=False):
    """One step of an agent, in the older trace form. Deprecated by the seed in favour of output messages."""

    type: TraceEventType
    timestamp: str | None = None
    id: str | None = None
    name: str | None = None
    input: JsonValue = None
    output: JsonValue = None
    text: str | None = None
    metadata: JsonObject | None = None


class TraceSummary(Struct, frozen=True, rename="camel"):
    """Counts over a trace."""

    event_count: int
    tool_names: tuple[str, ...]
    """Sorted."""
    tool_calls_by_name: Mapping[str, int]
    """In the order of first calls."""
    error_count: int


class ChatMessage(Struct, frozen=True, gc=False):
    """One message of a chat model's prompt: plain text only.

    Messages of tools, and system messages after the start, have the role `assistant`.
    """

    role: Literal["system", "user", "assistant"]
    content: str


def tool_calls_of(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return every tool call of the messages, in order."""
    return tuple(call for message in messages for call in message.tool_calls)
