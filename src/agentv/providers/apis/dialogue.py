"""Conversations with a model, independent of its API: the prompt, the turns, the continuation. Performs no I/O."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentv.providers.apis.http import HttpRequest, HttpResponse
from agentv.providers.apis.responses import parse_object
from agentv.providers.apis.streamed_response import Collector
from agentv.types.json_value import JsonObject
from agentv.types.messages import ChatMessage, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.provider import GUIDELINES_HEADING, ProviderRequest, Quota
from agentv.types.usage import Usage


class Image(Struct, frozen=True):
    """An image for the model."""

    media_type: str
    content: bytes

    @property
    def base64(self) -> str:
        """The content in base64."""
        return base64.b64encode(self.content).decode()

    @property
    def data_url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.base64}"


class Prompt(Struct, frozen=True, gc=False):
    """The first messages to a model. `images` belong to the last user turn."""

    system: str
    turns: tuple[ChatMessage, ...]
    images: tuple[Image, ...] = ()

    def with_images(self) -> Iterator[tuple[ChatMessage, tuple[Image, ...]]]:
        """Yield each turn with its images."""
        users = [index for index, turn in enumerate(self.turns) if turn.role == "user"]
        last_user = users[-1] if users else len(self.turns) - 1
        for index, turn in enumerate(self.turns):
            yield turn, self.images if index == last_user else ()


class Conversation(Struct, frozen=True):
    """A conversation so far. `items` are its turns in the API's format, without the system prompt."""

    request: ProviderRequest
    system: str
    items: tuple[JsonObject, ...]


class Turn(Struct, frozen=True):
    """A turn of the model."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    items: tuple[JsonObject, ...]
    """The turn in the API's format, to be sent back when the conversation continues."""
    finish_reason: str | None
    """The API's own value."""
    is_cut: bool
    """True if the turn stopped at the token limit."""
    usage: Usage | None
    request_id: str | None
    model: str | None
    quota: Quota | None = None
    reasoning: str | None = None
    first_token_ms: float | None = None
    """From the start of the call to the first text, reasoning or argument of a tool; None unless streamed."""


class Dialogue(Protocol):
    """The request and response format of one chat API. Performs no I/O."""

    def initial_items(self, prompt: Prompt) -> tuple[JsonObject, ...]:
        """Return the first turns in the API's format."""

    def build_body(self, conversation: Conversation) -> JsonObject:
        """Return the body of the request for the next turn."""

    def build_request(self, conversation: Conversation, auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the next turn; `auth` holds the authorization headers."""

    def parse(self, value: JsonObject) -> Turn:
        """Return the model's turn. Raises ProviderError for an invalid or filtered response."""

    def collector(self) -> Collector:
        """Return a new collector for the events of one streamed turn."""

    def tool_items(self, calls: Sequence[ToolCall]) -> tuple[JsonObject, ...]:
        """Return the outputs of tools in the API's format."""


def build_prompt(request: ProviderRequest, images: Sequence[Image] = ()) -> Prompt:
    """Return the prompt of a request. A chat prompt already contains the guidelines; a plain question does not."""
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


def without_system_role(prompt: Prompt) -> Prompt:
    """Return a prompt whose first user turn opens with the system prompt, for models without system messages."""
    if not prompt.system:
        return prompt
    first, others = ChatMessage("user", prompt.system), prompt.turns
    if others and others[0].role == "user":
        first, others = ChatMessage("user", f"{prompt.system}\n\n{others[0].content}"), others[1:]
    return replace(prompt, system="", turns=(first, *others))


def open_conversation(
    dialogue: Dialogue, request: ProviderRequest, images: Sequence[Image] = (), *, system_role: bool = True
) -> Conversation:
    """Return the conversation that starts with a request. `system_role` says that the model has system messages."""
    prompt = build_prompt(request, images)
    if not system_role:
        prompt = without_system_role(prompt)
    return Conversation(request, prompt.system, dialogue.initial_items(prompt))


def continue_conversation(
    dialogue: Dialogue, conversation: Conversation, turn: Turn, calls: Sequence[ToolCall]
) -> Conversation:
    """Return the conversation after the model's turn and the outputs of the tools it called."""
    return replace(conversation, items=(*conversation.items, *turn.items, *dialogue.tool_items(calls)))


def parse_turn(dialogue: Dialogue, response: HttpResponse, streamed: JsonObject | None = None) -> Turn:
    """Return the model's turn; `streamed` is the response's JSON if it came as events.

    Raises ProviderError for an invalid response.
    """
    turn = dialogue.parse(parse_object(response.body) if streamed is None else streamed)
    return replace(turn, request_id=response.request_id or turn.request_id, quota=response.quota)


def output_text(call: ToolCall) -> str:
    """Return the output of a tool as text."""
    return call.output if isinstance(call.output, str) else compact_json(call.output)


def tool_function(tool: JsonObject) -> JsonObject | None:
    """Return the function in a tool definition, with the keys `name`, `description` and `parameters`.

    Definitions may be plain functions, or in the format of the chat API or Anthropic's API. Return None for a tool that
    the API itself runs.
    """
    function = tool.get("function", tool)
    has_function_type = tool.get("type") in (None, "function", "custom")
    if not has_function_type or not isinstance(function, Mapping) or "name" not in function:
        return None
    new_names = {"input_schema": "parameters"}
    return {new_names.get(key, key): value for key, value in function.items() if key != "type"}
