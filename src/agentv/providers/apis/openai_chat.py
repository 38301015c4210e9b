"""The chat API of OpenAI, which Azure and many others implement: requests from conversations, turns. Pure."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from agentv.providers.apis.chat_stream import ChatCollector
from agentv.providers.apis.dialogue import Conversation, Prompt, Turn
from agentv.providers.apis.http import HttpRequest
from agentv.providers.apis.model_settings import ModelSettings
from agentv.providers.apis.replies import filtered, name_of, objects, text_or_none, usage_of, wrong_shape
from agentv.providers.apis.request_json import Image, function_of, json_request, output_text, without_none
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.chat import read_calls
from agentv.types.message_shapes.fields import first
from agentv.types.message_shapes.thinking import split_thinking
from agentv.types.messages import ToolCall


class ChatDialogue(Struct, frozen=True):
    """Builds requests and parses responses of the chat API at the URL that `url` returns for a model.

    `limit_key` is the server's key for the limit of output tokens. `streams_usage` is False for a server that refuses
    to be requested to send the usage of a streamed response.
    """

    url: Callable[[str], str]
    model: str
    settings: ModelSettings
    limit_key: str = "max_completion_tokens"
    streams_usage: bool = True

    def initial_items(self, prompt: Prompt) -> tuple[JsonObject, ...]:
        """Return the turns as chat messages."""
        return tuple(
            {"role": turn.role, "content": _content(turn.content, images)} for turn, images in prompt.with_images()
        )

    def build_body(self, conversation: Conversation) -> JsonObject:
        """Return the body of the request for the next message."""
        turn_settings = self.settings.turn_settings(conversation.request)
        system: tuple[JsonObject, ...] = (
            ({"role": "system", "content": conversation.system},) if conversation.system else ()
        )
        body: dict[str, JsonValue] = {
            "model": conversation.request.model or self.model,
            "messages": [*system, *conversation.items],
            "temperature": turn_settings.temperature,
            self.limit_key: turn_settings.max_output_tokens,
            "tools": [_tool(tool) for tool in self.settings.tools] or None,
            "stream": self.settings.stream or None,
            "stream_options": {"include_usage": True} if self.settings.stream and self.streams_usage else None,
            "response_format": turn_settings.schema and _response_format(turn_settings.schema),
        }
        return {**without_none(body), **self.settings.extra_body}

    def build_request(self, conversation: Conversation, auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the next message."""
        url = self.url(conversation.request.model or self.model)
        return json_request(url, self.build_body(conversation), auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> Turn:
        """Return the message in a response."""
        return parse_chat(value)

    def collector(self) -> ChatCollector:
        """Return a new collector for the chunks of one message."""
        return ChatCollector()

    def tool_items(self, calls: Sequence[ToolCall]) -> tuple[JsonObject, ...]:
        """Return the outputs of tools as messages to the model."""
        return tuple({"role": "tool", "tool_call_id": call.id or "", "content": output_text(call)} for call in calls)


def parse_chat(value: JsonObject) -> Turn:
    """Return the message in a chat completion. Raises ProviderError if it has none, or one that was filtered."""
    choices = objects(value.get("choices"))
    message = choices[0].get("message") if choices else None
    if not isinstance(message, Mapping):
        raise wrong_shape("no choices[0].message", value)
    finish_reason = text_or_none(choices[0].get("finish_reason"))
    if finish_reason == "content_filter":
        raise filtered("the provider's content filter stopped the response")
    content, calls = message.get("content"), message.get("tool_calls")
    text = _content_text(content if content is not None else message.get("refusal"))
    if text is None:
        raise wrong_shape(f"a content that is {name_of(content)}", value)
    text, thoughts = split_thinking(text)
    return Turn(
        text=text,
        tool_calls=_tool_calls(message),
        items=({"role": "assistant", "content": content, "tool_calls": calls},),
        finish_reason=finish_reason,
        is_cut=finish_reason == "length",
        usage=usage_of(value.get("usage"), input_key="prompt_tokens", output_key="completion_tokens"),
        request_id=text_or_none(value.get("id")),
        model=text_or_none(value.get("model")),
        reasoning=text_or_none(first(message, "reasoning_content", "reasoning")) or thoughts,
    )


def _tool_calls(message: JsonObject) -> tuple[ToolCall, ...]:
    try:
        return read_calls(message, "choices[0].message")
    except MessageError as error:
        raise wrong_shape(f"tool calls that are not understood ({error})", message) from None


def _content(text: str, images: Sequence[Image]) -> JsonValue:
    if not images:
        return text
    return [{"type": "text", "text": text}, *map(_image, images)]


def _image(image: Image) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": image.data_url}}


def _tool(tool: JsonObject) -> JsonObject:
    function = function_of(tool)
    return tool if function is None else {"type": "function", "function": function}


def _response_format(schema: JsonObject) -> JsonObject:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}


def _content_text(content: JsonValue) -> str | None:
    """Return a message's content as text, with parts joined and null as ""; None for anything else."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return None
    parts = (part.get("text") for part in objects(content))
    return "".join(part for part in parts if isinstance(part, str))
