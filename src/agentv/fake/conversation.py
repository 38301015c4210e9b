"""What a model is asked and what it says, the same for every API."""

import hashlib
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

Finish: TypeAlias = Literal["stop", "tool", "length", "filter", "blocked"]
"""Why a reply ends: said all, calls tools, hit the limit, was filtered; or the prompt was blocked and there is none."""

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

CHARACTERS_PER_TOKEN = 4


class ToolUse(Struct, frozen=True):
    """A call of a tool that the model asks for. `custom` tools take one text, under `input`."""

    name: str
    arguments: JsonObject
    id: str
    custom: bool = False


class Tool(Struct, frozen=True):
    """A tool that the model may call; `schema` is that of its arguments."""

    name: str
    schema: JsonObject
    custom: bool = False


class Turn(Struct, frozen=True):
    """One message; what a tool answered is a turn of its own."""

    role: Role
    text: str


class Question(Struct, frozen=True):
    """One request to a model.

    `must_call` names the tool that has to be called, "" for any of them. `schema` is what the reply must keep to.
    `options` are what else the API wants to know when it writes the reply.
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
        """The model's name without the fault behind the last @."""
        return self.model.rpartition("@")[0] or self.model

    @property
    def system(self) -> str:
        """All system texts."""
        return "\n\n".join(turn.text for turn in self.turns if turn.role == "system")

    @property
    def said(self) -> str:
        """The last text of the user, "" when there is none."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user" and turn.text), "")

    @property
    def input_tokens(self) -> int:
        """How much was sent, tools included."""
        tools = sum(count_tokens(tool.name + compact_json(tool.schema)) for tool in self.tools)
        return tools + sum(count_tokens(turn.text) for turn in self.turns)

    @property
    def digest(self) -> str:
        """The same 24 characters for the same question: what identifiers are made of."""
        turns: JsonValue = [[turn.role, turn.text] for turn in self.turns]
        return hashlib.sha256(compact_json([self.model, turns]).encode(errors="replace")).hexdigest()[:24]


class Reply(Struct, frozen=True):
    """What the model says."""

    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    finish: Finish = "stop"
    thinking: str = ""

    @property
    def output_tokens(self) -> int:
        """How much was said, tool calls and thinking included."""
        uses = sum(count_tokens(use.name + compact_json(use.arguments)) for use in self.tool_uses)
        return uses + count_tokens(self.text) + self.thinking_tokens

    @property
    def thinking_tokens(self) -> int:
        """How much was thought."""
        return count_tokens(self.thinking)


def count_tokens(text: str) -> int:
    """Return a text's length in tokens: one for every four characters begun."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
