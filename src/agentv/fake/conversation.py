"""Requests to a model and its replies, independent of the API."""

import hashlib
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

Finish: TypeAlias = Literal["stop", "tool", "length", "filter", "blocked"]
"""Why a reply ends: complete, calls tools, hit the limit, was filtered; or there is none, as the prompt was blocked."""

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

CHARACTERS_PER_TOKEN = 4


class ToolUse(Struct, frozen=True):
    """A tool call in a reply. `custom` tools take one text, under `input`."""

    name: str
    arguments: JsonObject
    id: str
    custom: bool = False


class Tool(Struct, frozen=True):
    """A tool that the model may call; `schema` describes its arguments."""

    name: str
    schema: JsonObject
    custom: bool = False


class Turn(Struct, frozen=True):
    """One message; a tool's result is a turn of its own."""

    role: Role
    text: str


class Question(Struct, frozen=True):
    """One request to a model.

    `must_call` names the tool that has to be called, "" for any of them. `schema` is the JSON schema of the reply.
    `options` are other settings that the API needs to write the reply.
    """

    model: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    must_call: str | None = None
    schema: JsonObject | None = None
    max_tokens: int | None = None
    stream: bool = False
    thinks: bool = False
    options: JsonObject = field(default_factory=dict)

    @property
    def base_model(self) -> str:
        """The model's name without the fault after the last @."""
        return self.model.rpartition("@")[0] or self.model

    @property
    def system(self) -> str:
        """All system texts, joined."""
        return "\n\n".join(turn.text for turn in self.turns if turn.role == "system")

    @property
    def said(self) -> str:
        """The last text of the user, or ""."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user" and turn.text), "")

    @property
    def input_tokens(self) -> int:
        """The length of the request in tokens, including tools."""
        tools = sum(count_tokens(tool.name + compact_json(tool.schema)) for tool in self.tools)
        return tools + sum(count_tokens(turn.text) for turn in self.turns)

    @property
    def digest(self) -> str:
        """A digest of the request (24 characters), from which identifiers are made."""
        turns: JsonValue = [[turn.role, turn.text] for turn in self.turns]
        return hashlib.sha256(compact_json([self.model, turns]).encode(errors="replace")).hexdigest()[:24]


class Reply(Struct, frozen=True):
    """The reply of a model."""

    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    finish: Finish = "stop"
    thinking: str = ""

    @property
    def output_tokens(self) -> int:
        """The length of the reply in tokens, including tool calls and thinking."""
        uses = sum(count_tokens(use.name + compact_json(use.arguments)) for use in self.tool_uses)
        return uses + count_tokens(self.text) + self.thinking_tokens

    @property
    def thinking_tokens(self) -> int:
        """The length of the thinking in tokens."""
        return count_tokens(self.thinking)


def count_tokens(text: str) -> int:
    """Return a text's length in tokens: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
