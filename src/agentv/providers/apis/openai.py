"""`openai`: a chat model behind the OpenAI API or a compatible server."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct

from agentv.messages.shapes.fields import tool_call_from_json
from agentv.providers.apis.batches import BatchedModelProvider, OpenAIBatches
from agentv.providers.apis.credentials import bearer
from agentv.providers.apis.dialogue import Conversation, Dialogue, Image, Prompt, Turn, output_text, tool_function
from agentv.providers.apis.embeddings import EmbeddingModelProvider, OpenAIEmbeddings
from agentv.providers.apis.http import HttpRequest, json_request, without_none
from agentv.providers.apis.model_settings import DIMENSIONS_HELP, ModelSettings, check_dimensions, check_url
from agentv.providers.apis.openai_chat import ChatDialogue
from agentv.providers.apis.responses import content_filter_error, member, objects, text_or_none, usage_of, wrong_shape
from agentv.providers.apis.streamed_response import text_in
from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError
from agentv.types.targets import ResolvedTarget

OPENAI_URL = "https://api.openai.com/v1"


class OpenAISettings(ModelSettings, frozen=True, kw_only=True):
    """The model, its address and the parameters of requests."""

    model: Annotated[str, Meta(description="Name of the model.")]
    base_url: Annotated[str, Meta(description="Base URL of the API, including /v1.")] = OPENAI_URL
    api_key: Annotated[str | None, Meta(description="API key, as ${{ VARIABLE }}; local servers need none.")] = None
    api: Annotated[Literal["chat", "responses"], Meta(description="API to use: chat or responses.")] = "chat"
    dimensions: Annotated[int | None, Meta(description=DIMENSIONS_HELP)] = None

    def __post_init__(self) -> None:
        """Reject settings that no server accepts."""
        ModelSettings.__post_init__(self)
        check_dimensions(self.dimensions)
        check_url("base_url", self.base_url)
        if not self.api_key and self.is_openai and not self.has_header("Authorization"):
            raise ValueError(f"api_key is needed for {OPENAI_URL}; write it as ${{{{ OPENAI_API_KEY }}}}")

    @property
    def is_openai(self) -> bool:
        """True for OpenAI itself, False for a compatible server."""
        return self.base_url.rstrip("/") == OPENAI_URL


_KINDS_BY_CODE: Mapping[str, FailureKind] = {"server_error": "server_error", "rate_limit_exceeded": "rate_limited"}


class ResponsesDialogue(Struct, frozen=True):
    """Builds requests and parses responses of the Responses API at `url`."""

    url: str
    model: str
    settings: ModelSettings

    def initial_items(self, prompt: Prompt) -> tuple[JsonObject, ...]:
        """Return the turns as input items."""
        return tuple(
            {"role": turn.role, "content": _content(turn.content, images)} for turn, images in prompt.with_images()
        )

    def build_body(self, conversation: Conversation) -> JsonObject:
        """Return the body of the request for the next turn."""
        turn_settings = self.settings.turn_settings(conversation.request)
        body: dict[str, JsonValue] = {
            "model": conversation.request.model or self.model,
            "instructions": conversation.system or None,
            "input": conversation.items,
            "temperature": turn_settings.temperature,
            "max_output_tokens": turn_settings.max_output_tokens,
            "tools": [_tool(tool) for tool in self.settings.tools] or None,
            "stream": self.settings.stream or None,
            "text": turn_settings.schema and _text_format(turn_settings.schema),
        }
        return {**without_none(body), **self.settings.extra_body}

    def build_request(self, conversation: Conversation, auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the next turn."""
        return json_request(self.url, self.build_body(conversation), auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> Turn:
        """Return the turn in a response."""
        if value.get("status") == "failed":
            raise _failed(value.get("error"))
        output, texts = value.get("output"), _texts(value.get("output"))
        if texts is None:
            raise wrong_shape("no list of output items", value)
        reason = text_or_none(member(value, "incomplete_details", "reason"))
        if reason == "content_filter":
            raise content_filter_error("the provider's content filter stopped the response")
        calls = [_tool_call(item) for item in objects(output) if item.get("type") in _CALLS_TO_ANSWER]
        return Turn(
            text="".join(texts),
            tool_calls=tuple(calls),
            items=tuple(objects(output)),
            finish_reason=reason or text_or_none(value.get("status")),
            is_cut=reason == "max_output_tokens",
            usage=usage_of(value.get("usage"), input_key="input_tokens", output_key="output_tokens"),
            request_id=text_or_none(value.get("id")),
            model=text_or_none(value.get("model")),
            reasoning=_reasoning(objects(output)),
        )

    def collector(self) -> "ResponsesCollector":
        """Return a new collector for the events of one response."""
        return ResponsesCollector()

    def tool_items(self, calls: Sequence[ToolCall]) -> tuple[JsonObject, ...]:
        """Return the outputs of tools as input items."""
        return tuple(
            {"type": "function_call_output", "call_id": call.id or "", "output": output_text(call)} for call in calls
        )


def _content(text: str, images: Sequence[Image]) -> JsonValue:
    if not images:
        return text
    return [
        {"type": "input_text", "text": text},
        *({"type": "input_image", "image_url": image.data_url} for image in images),
    ]


def _tool(tool: JsonObject) -> JsonObject:
    function = tool_function(tool)
    return tool if function is None else {"type": "function", **function}


def _text_format(schema: JsonObject) -> JsonObject:
    return {"format": {"type": "json_schema", "name": "reply", "schema": schema, "strict": True}}


def _failed(error: JsonValue) -> ProviderError:
    """Return the error of a failed response, which this API reports with status 200."""
    code, reason = text_or_none(member(error, "code")) or "", text_or_none(member(error, "message"))
    kind = "content_filter" if "policy" in code else _KINDS_BY_CODE.get(code, "bad_request")
    return ProviderError(
        Failure(kind, f"the response failed: {reason or code or 'no reason given'}", retryable=code in _KINDS_BY_CODE)
    )


def _texts(output: JsonValue) -> list[str] | None:
    """Return all texts, including refusals; None if the output does not have the expected form."""
    if not isinstance(output, list) or not all(isinstance(member(item, "type"), str) for item in output):
        return None
    parts = [part for item in objects(output) if item["type"] == "message" for part in objects(item.get("content"))]
    texts = [part.get("text", part.get("refusal")) for part in parts]
    return [text for text in texts if isinstance(text, str)] if all(isinstance(text, str) for text in texts) else None


def _reasoning(output: Sequence[JsonObject]) -> str | None:
    items = [item for item in output if item.get("type") == "reasoning"]
    parts = [part for item in items for part in objects(item.get("content")) or objects(item.get("summary"))]
    return "\n".join(text for part in parts if (text := text_or_none(part.get("text")))) or None


_CALLS_TO_ANSWER = ("function_call", "custom_tool_call")
"""The types of tool calls that the caller must answer; OpenAI runs all other tools itself."""


def _tool_call(item: JsonObject) -> ToolCall:
    call = tool_call_from_json(item)
    if call is None:
        raise wrong_shape("a tool call without a name", item)
    return call


PATHS = {"chat": "/chat/completions", "responses": "/responses"}


class OpenAIProvider(EmbeddingModelProvider, BatchedModelProvider):
    """Calls the OpenAI API."""

    kind = "openai"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(OpenAISettings, target.settings)
        base_url = settings.base_url.rstrip("/")
        super().__init__(
            target,
            tools,
            dialogue=make_dialogue(settings),
            credentials=bearer(settings.api_key),
            batches=OpenAIBatches(lambda path: f"{base_url}{path}", f"/v1{PATHS[settings.api]}"),
        )
        self.embeddings = OpenAIEmbeddings(f"{base_url}/embeddings", settings.model, settings, settings.dimensions)


def make_dialogue(settings: OpenAISettings) -> Dialogue:
    """Return the dialogue for the configured API."""
    url = f"{settings.base_url.rstrip('/')}{PATHS[settings.api]}"
    if settings.api == "responses":
        return ResponsesDialogue(url, settings.model, settings)
    # OpenAI's newer models reject max_tokens; servers with its older API accept nothing else.
    limit_key = "max_completion_tokens" if settings.is_openai else "max_tokens"
    return ChatDialogue(lambda _model: url, settings.model, settings, limit_key)


_END_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_ITEM_EVENTS = frozenset({"response.output_item.added", "response.output_item.done"})

_FIELD_EVENTS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.mcp_call_arguments.delta": "arguments",
    "response.code_interpreter_call_code.delta": "code",
}
_PART_EVENTS = {
    "response.output_text.delta": ("content", "content_index", "output_text", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "summary_text", "text"),
}
_TextPlace = tuple[str, int, str, str]
"""The place of a text in an item: (list, index, type of the part, key).

The text is at `key` in that part of the list; if the list is "", at `key` in the item itself.
"""


class ResponsesCollector:
    """Collects events. The last event holds the whole response; the others are used if the stream is cut off."""

    def __init__(self) -> None:
        self._response: JsonObject = {}
        self._items: dict[int, JsonObject] = {}
        self._pieces: dict[int, dict[_TextPlace, list[str]]] = {}
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        """True after the event with the whole response."""
        return self.is_over

    def add(self, event: JsonObject) -> int | None:
        """Add an event and return how many characters the model wrote in it; None if it is not an event of this API."""
        kind = event.get("type")
        if not isinstance(kind, str) or not kind.startswith("response."):
            return None
        response, item = event.get("response"), event.get("item")
        if isinstance(response, Mapping):
            self._response = response
        if kind in _END_EVENTS:
            if not isinstance(response, Mapping):
                raise wrong_shape("no response in its last event", event)
            self.is_over = True
        elif kind in _ITEM_EVENTS and isinstance(item, Mapping):
            self._items[_index(event, "output_index")] = item
            if kind.endswith(".done"):
                self._pieces.pop(_index(event, "output_index"), None)
        elif kind in _FIELD_EVENTS:
            return self._add_text(event, ("", 0, "", _FIELD_EVENTS[kind]))
        elif kind in _PART_EVENTS:
            listed, index, type_, key = _PART_EVENTS[kind]
            return self._add_text(event, (listed, _index(event, index), type_, key))
        return 0

    def _add_text(self, event: JsonObject, place: _TextPlace) -> int:
        text = text_in(event, "delta")
        self._pieces.setdefault(_index(event, "output_index"), {}).setdefault(place, []).append(text)
        return len(text)

    def value(self) -> JsonObject:
        """Return the response so far."""
        if self.is_over and self._response.get("output"):
            return self._response
        numbers = sorted(self._items.keys() | self._pieces.keys())
        return {**self._response, "output": [self._item(number) for number in numbers]}

    def _item(self, number: int) -> JsonObject:
        item = dict(self._items.get(number, {"type": "message", "role": "assistant"}))
        for (listed, index, type_, key), pieces in self._pieces.get(number, {}).items():
            text = "".join(pieces)
            if not listed:
                item[key] = text
                continue
            parts = objects(item.get(listed))[:index]
            item[listed] = [*parts, {"type": type_, key: text}]
        return item


def _index(event: JsonObject, name: str) -> int:
    index = member(event, name)
    return index if isinstance(index, int) else 0
