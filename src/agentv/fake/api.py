"""The interface between the server and its model APIs: questions, replies, refusals, and helpers to read JSON."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

Finish: TypeAlias = Literal["stop", "tool", "length", "filter", "blocked"]
"""Why a reply ends.

`stop`: it is complete. `tool`: it calls tools. `length`: the token limit is reached. `filter`: the content filter
stopped the reply. `blocked`: the content filter refused the prompt, so there is no reply.
"""

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

CHARACTERS_PER_TOKEN = 4
CREATED = 1_767_225_600
"""The creation time of all objects, 2026-01-01 in Unix seconds; constant, so that equal requests get equal replies."""

_PIECE = re.compile(r"\S+\s*|\s+")


class ToolUse(Struct, frozen=True):
    """A tool call in a reply. The arguments of a `custom` tool are one text, under the key `input`."""

    name: str
    arguments: JsonObject
    id: str
    custom: bool = False


class Tool(Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    schema: JsonObject
    """The JSON Schema of its arguments."""
    custom: bool = False
    """True if it takes one text."""


class Turn(Struct, frozen=True):
    """One message, or a part of it: each result of a tool is a turn of its own."""

    role: Role
    text: str


class Question(Struct, frozen=True):
    """One request to a model."""

    model: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    must_call: str | None = None
    """The name of the tool that has to be called: "" for any tool, None if no call is required."""
    schema: JsonObject | None = None
    """The JSON Schema of the reply: {} for any JSON, None for a text."""
    max_tokens: int | None = None
    stream: bool = False
    thinks: bool = False
    """True if the reply has thinking."""
    options: JsonObject = field(default_factory=dict)
    """Settings of single APIs, such as `include_usage` and `dimensions`."""

    @property
    def base_model(self) -> str:
        """The model's name without the last @ and the fault after it."""
        return self.model.rpartition("@")[0] or self.model

    @property
    def system(self) -> str:
        """The texts of all system messages, joined."""
        return "\n\n".join(turn.text for turn in self.turns if turn.role == "system")

    @property
    def user_text(self) -> str:
        """The last text of the user that is not empty; "" if there is none."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user" and turn.text), "")

    @property
    def input_tokens(self) -> int:
        """The length of the request in tokens, including tools."""
        tools = sum(count_tokens(tool.name + compact_json(tool.schema)) for tool in self.tools)
        return tools + sum(count_tokens(turn.text) for turn in self.turns)

    @property
    def digest(self) -> str:
        """24 hexadecimal digits made from the model and the turns, for identifiers in the reply."""
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


class Problem(Struct, frozen=True):
    """The reason for a refusal, independent of the API."""

    status: int
    """The HTTP status."""
    message: str
    code: str = ""
    """Sent by OpenAI's APIs only."""
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """The refusal of a request; the server sends it in the API's own form."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Api(Struct, frozen=True):
    """One API: how its requests are read, and how replies and refusals are written."""

    name: str
    read: Callable[[JsonObject, str], Question]
    """Returns the question in a body for a model; raises RefusedError if the real API would refuse the body."""
    write: Callable[[Question, Reply], JsonObject]
    """Returns the body of a reply."""
    refuse: Callable[[Problem], JsonObject]
    """Returns the body of a refusal."""
    stream: Callable[[Question, Reply], Iterator[str]] | None = None
    """Yields the events of a streamed reply."""
    report: Callable[[Problem], str] | None = None
    """Returns the text that reports an error in a streamed reply."""
    has_reply: bool = True
    """False for an API that only counts or embeds its input."""
    billed: bool = True
    """False for an API that is free."""
    refuses_blocked_prompts: bool = True
    """True if a blocked prompt gets a refusal, False if it gets a reply without text."""
    needed_headers: tuple[str, ...] = ()
    """The headers that every request needs."""
    needed_query: tuple[str, ...] = ()
    """The query parameters that every request needs."""
    check: Callable[[JsonObject, Mapping[str, str]], None] | None = None
    """Raises RefusedError if a header that the body requires is missing."""


def refused(message: str, *, status: int = 400) -> RefusedError:
    """Return the error for a request that the API would refuse."""
    return RefusedError(Problem(status, message))


def event(data: JsonValue, name: str | None = None) -> str:
    """Return one server-sent event; `data` becomes one line of JSON."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


def pieces(text: str) -> list[str]:
    """Split a text into words, each with the spaces after it, for streaming."""
    return _PIECE.findall(text)


def as_object(value: JsonValue) -> JsonObject:
    """Return a JSON object, {} for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: JsonValue) -> Sequence[JsonValue]:
    """Return a JSON array, [] for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str:
    """Return a string, "" for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: JsonValue) -> int | None:
    """Return an integer, None for anything else (also for a boolean)."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects in a JSON array."""
    return [item for item in as_list(value) if isinstance(item, Mapping)]


def joined_texts(content: JsonValue) -> str:
    """Return content as text: a string itself, or the `text` of each part that has one, joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in objects(content) if (text := as_text(part.get("text"))))
