"""A conversation with a model, whatever API it has: what is said first, what came back, how it goes on. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentv.providers.apis.http import HttpRequest, HttpResponse
from agentv.providers.apis.replies import parse_object
from agentv.providers.apis.request_json import Image
from agentv.types.json_value import JsonObject
from agentv.types.messages import ChatMessage, ToolCall
from agentv.types.provider import GUIDELINES_HEADING, ProviderRequest, Quota
from agentv.types.usage import Usage


class Prompt(Struct, frozen=True, gc=False):
    """What a model is told at first. `images` are shown with the last turn of the user."""

    system: str
    turns: tuple[ChatMessage, ...]
    images: tuple[Image, ...] = ()

    def shown(self) -> Iterator[tuple[ChatMessage, tuple[Image, ...]]]:
        """Yield each turn with the pictures that are shown with it."""
        users = [index for index, turn in enumerate(self.turns) if turn.role == "user"]
        at = users[-1] if users else len(self.turns) - 1
        for index, turn in enumerate(self.turns):
            yield turn, self.images if index == at else ()


class Conversation(Struct, frozen=True):
    """A conversation so far. `items` are its turns in the form of the API, without the system prompt."""

    request: ProviderRequest
    system: str
    items: tuple[JsonObject, ...]


class Turn(Struct, frozen=True):
    """What the model said. `items` are its turn as it came, to be sent back when the conversation goes on.

    `is_cut` means that it stopped at the limit of tokens. `finish_reason` is the API's own word.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    items: tuple[JsonObject, ...]
    finish_reason: str | None
    is_cut: bool
    usage: Usage | None
    request_id: str | None
    model: str | None
    quota: Quota | None = None


class Dialogue(Protocol):
    """How one API puts a conversation into requests and reads its replies. Nothing here touches the world."""

    def open_items(self, prompt: Prompt) -> tuple[JsonObject, ...]:
        """Return the first turns in the form of the API."""

    def build_body(self, talk: Conversation) -> JsonObject:
        """Return the body that asks for the next turn."""

    def build_request(self, talk: Conversation, auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request that asks for the next turn; `auth` are the headers with the key."""

    def parse(self, value: JsonObject) -> Turn:
        """Return the model's turn. Raises ProviderError for what is no reply of this API, and for a filtered one."""

    def tool_items(self, calls: Sequence[ToolCall]) -> tuple[JsonObject, ...]:
        """Return the answers of tools in the form of the API."""


def build_prompt(request: ProviderRequest, images: Sequence[Image] = ()) -> Prompt:
    """Return what a request tells a model. A chat prompt holds the guidelines already; a plain question does not."""
    if request.chat_prompt is None:
        guidelines = f"{GUIDELINES_HEADING}\n\n{request.guidelines}" if request.guidelines else ""
        turns: tuple[ChatMessage, ...] = (ChatMessage("user", request.question),)
        system = [request.system_prompt, guidelines]
    else:
        turns = request.chat_prompt
        system = [request.system_prompt]
        if turns and turns[0].role == "system":
            system.append(turns[0].content)
            turns = turns[1:]
    return Prompt("\n\n".join(text for text in system if text), turns, tuple(images))


def open_conversation(dialogue: Dialogue, request: ProviderRequest, images: Sequence[Image] = ()) -> Conversation:
    """Return the conversation that begins with a request."""
    prompt = build_prompt(request, images)
    return Conversation(request, prompt.system, dialogue.open_items(prompt))


def go_on(dialogue: Dialogue, talk: Conversation, turn: Turn, calls: Sequence[ToolCall]) -> Conversation:
    """Return the conversation after the model's turn and the answers of the tools it called."""
    return replace(talk, items=(*talk.items, *turn.items, *dialogue.tool_items(calls)))


def parse_turn(dialogue: Dialogue, reply: HttpResponse) -> Turn:
    """Return the model's turn. Raises ProviderError for whatever is none."""
    turn = dialogue.parse(parse_object(reply.body))
    return replace(turn, request_id=reply.request_id or turn.request_id, quota=reply.quota)
