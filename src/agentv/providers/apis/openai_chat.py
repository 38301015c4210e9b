"""The chat API of OpenAI, which Azure and many others implement: build requests, parse turns and streams. Pure."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from agentv.messages.shapes.chat import read_calls
from agentv.messages.shapes.fields import first
from agentv.providers.apis.dialogue import Conversation, Image, Prompt, Turn, output_text, tool_function
from agentv.providers.apis.http import HttpRequest, json_request, without_none
from agentv.providers.apis.model_settings import ModelSettings
from agentv.providers.apis.responses import (
    content_filter_error,
    json_type,
    objects,
    text_or_none,
    usage_of,
    wrong_shape,
)
from agentv.providers.apis.streamed_response import items_of_first_answer, text_in
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.thinking import split_thinking


class ChatCollector:
    """Collects chunks. Of several choices only the first counts, as in a plain response."""

    def __init__(self) -> None:
        self._head: dict[str, JsonValue] = {}
        self._usage: JsonValue = None
        self._began = False
        self._finish_reason: JsonValue = None
        self._content: list[JsonValue] = []
        self._texts: dict[str, list[str]] = {}
        self._others: dict[str, JsonValue] = {}
        self._calls = _Calls()

    is_over = False

    @property
    def is_complete(self) -> bool:
        """True if a finish reason was received; some servers omit the final `[DONE]` after it."""
        return self._finish_reason is not None

    def add(self, event: JsonObject) -> int | None:
        """Add a chunk and return how many characters the model wrote in it; None if it is not a chunk."""
        choices, usage = event.get("choices"), event.get("usage")
        if not isinstance(choices, list) and not isinstance(usage, Mapping):
            return None
        self._usage = usage if isinstance(usage, Mapping) else self._usage
        for name in ("id", "model"):
            if event.get(name):
                self._head.setdefault(name, event[name])
        return sum(self._add_choice(choice) for choice in items_of_first_answer(choices))

    def _add_choice(self, choice: JsonObject) -> int:
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta")
        if delta is None and not self._began:
            delta = choice.get("message")  # some servers send a whole message in one event
        if delta is None:
            return 0
        if not isinstance(delta, Mapping):
            raise wrong_shape(f"a delta that is {json_type(delta)}", choice)
        self._began = True
        return sum(self._add_field(name, delta) for name in delta)

    def _add_field(self, name: str, delta: JsonObject) -> int:
        value = delta[name]
        if value is None or name == "role":
            return 0
        if name == "tool_calls":
            return sum(map(self._calls.add, objects(value)))
        if name == "function_call" and isinstance(value, Mapping):
            return self._calls.add_single(value)
        if name == "content" and isinstance(value, list):
            self._content += value
            return sum(len(str(part.get("text", ""))) for part in objects(value))
        if name == "content":
            self._content.append(text_in(delta, name))
            return len(text_in(delta, name))
        if isinstance(value, str):
            self._texts.setdefault(name, []).append(value)
            return len(value)
        self._others[name] = value
        return 0

    def value(self) -> JsonObject:
        """Return the chat completion so far."""
        message: dict[str, JsonValue] = {
            "role": "assistant",
            "content": self._joined_content(),
            **self._others,
            **{name: "".join(texts) for name, texts in self._texts.items()},
            **self._calls.value(),
        }
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._head, "choices": [choice] if self._began else [], "usage": self._usage}

    def _joined_content(self) -> JsonValue:
        """Return the text, or a list of parts if the server sent parts; None without text, as in a refusal."""
        if all(isinstance(piece, str) for piece in self._content):
            return "".join(map(str, self._content)) or None
        return [{"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in self._content]


class _Call:
    """One tool call. `pieces` are the pieces of its arguments and other fields, by the name of the field."""

    def __init__(self) -> None:
        self.head: dict[str, JsonValue] = {}
        self.kind = "function"
        self.name: JsonValue = None
        self.pieces: dict[str, list[JsonValue]] = {}

    def add(self, delta: JsonObject) -> int:
        for name in ("id", "type"):
            if delta.get(name):
                self.head.setdefault(name, delta[name])
        nested = next((kind for kind in ("function", "custom") if isinstance(delta.get(kind), Mapping)), None)
        if nested is None:
            return 0
        self.kind = nested
        return self.add_fields(delta[nested])

    def add_fields(self, fields: JsonValue) -> int:
        if not isinstance(fields, Mapping):
            return 0
        self.name = self.name or fields.get("name")
        pieces = {name: piece for name, piece in fields.items() if name != "name" and piece is not None}
        for name, piece in pieces.items():
            self.pieces.setdefault(name, []).append(piece)
        return sum(len(piece) for piece in pieces.values() if isinstance(piece, str))

    def fields(self) -> JsonObject:
        joined = {
            name: "".join(map(str, pieces)) if _are_texts(pieces) else pieces[-1]
            for name, pieces in self.pieces.items()
        }
        return {"name": self.name, **joined}


def _are_texts(pieces: list[JsonValue]) -> bool:
    return all(isinstance(piece, str) for piece in pieces)


class _Calls:
    """The tool calls of a message, and the single call of the older API."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[JsonValue, _Call] = {}
        self._function_call: _Call | None = None

    def add(self, delta: JsonObject) -> int:
        """Add a piece to the call at its index, or to the last call if it has none; a new index or id begins a call."""
        index, call_id = delta.get("index"), delta.get("id")
        call = None
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif self._calls and not call_id:
            call = self._calls[-1]
        if call is None or (call_id and call.head.get("id", call_id) != call_id):
            call = _Call()
            self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call.add(delta)

    def add_single(self, fields: JsonObject) -> int:
        """Add a piece of `function_call`."""
        self._function_call = self._function_call or _Call()
        return self._function_call.add_fields(fields)

    def value(self) -> JsonObject:
        """Return the keys of the message that hold the calls."""
        calls: JsonValue = [{**call.head, call.kind: call.fields()} for call in self._calls]
        single = {} if self._function_call is None else {"function_call": self._function_call.fields()}
        return {**({"tool_calls": calls} if self._calls else {}), **single}


class ChatDialogue(Struct, frozen=True):
    """Builds requests and parses responses of the chat API."""

    url: Callable[[str], str]
    """Returns the URL of the API for a model."""
    model: str
    settings: ModelSettings
    limit_key: str = "max_completion_tokens"
    """The server's key for the limit of output tokens."""
    streams_usage: bool = True
    """False for a server that refuses `stream_options`, which request the usage of a streamed response."""

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
    """Return the message in a chat completion. Raises ProviderError if there is no message, or it was filtered."""
    choices = objects(value.get("choices"))
    message = choices[0].get("message") if choices else None
    if not isinstance(message, dict):
        raise wrong_shape("no choices[0].message", value)
    finish_reason = text_or_none(choices[0].get("finish_reason"))
    if finish_reason == "content_filter":
        raise content_filter_error("the provider's content filter stopped the response")
    content, calls = message.get("content"), message.get("tool_calls")
    text = _content_text(content if content is not None else message.get("refusal"))
    if text is None:
        raise wrong_shape(f"a content that is {json_type(content)}", value)
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
    function = tool_function(tool)
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
