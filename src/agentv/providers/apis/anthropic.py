"""`anthropic`: a Claude model behind Anthropic's API or a compatible server."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, cast

from msgspec import Meta, Struct

from agentv.providers.apis.batches import CANCELLED, EXPIRED, LOST, BatchedModelProvider, Outcome, Send, parse_lines
from agentv.providers.apis.credentials import bearer
from agentv.providers.apis.dialogue import Conversation, Image, Prompt, Turn, output_text, tool_function
from agentv.providers.apis.http import (
    HttpRequest,
    HttpResponse,
    json_bytes,
    json_request,
    status_of_error,
    without_none,
)
from agentv.providers.apis.model_settings import ModelSettings, check_url
from agentv.providers.apis.responses import (
    content_filter_error,
    count,
    member,
    objects,
    parse_object,
    text_or_none,
    wrong_shape,
)
from agentv.providers.apis.streamed_response import text_in
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.protocols import ProviderTools
from agentv.types.provider import BatchState
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

ANTHROPIC_URL = "https://api.anthropic.com"
API_VERSION = "2026-10-21"
SAMPLING_VERSION = "2023-06-01"
"""The last version of the API that accepts a temperature; later versions reject it for every model."""

DEFAULT_MAX_TOKENS = 4096
"""The default limit, because the API requires one: the largest that every model accepts."""

MIN_THINKING_BUDGET = 1024


class AnthropicSettings(ModelSettings, frozen=True, kw_only=True):
    """The model, its address and the parameters of requests."""

    model: Annotated[str, Meta(description="Name of the model.")]
    base_url: Annotated[str, Meta(description="Base URL of the API, without /v1.")] = ANTHROPIC_URL
    api_key: Annotated[str | None, Meta(description="API key, as ${{ VARIABLE }}; local servers need none.")] = None
    thinking_budget: Annotated[
        int | None, Meta(description="Enable extended thinking with at most this many tokens (1024 or more).")
    ] = None

    @property
    def knows_list_bounds(self) -> bool:
        """False: the API refuses a schema with `maxItems`."""
        return False

    def __post_init__(self) -> None:
        """Reject settings that the API does not accept."""
        ModelSettings.__post_init__(self)
        check_url("base_url", self.base_url)
        is_anthropic = self.base_url.rstrip("/") == ANTHROPIC_URL
        if not self.api_key and is_anthropic and not (self.has_header("Authorization") or self.has_header("x-api-key")):
            raise ValueError(f"api_key is needed for {ANTHROPIC_URL}; write it as ${{{{ ANTHROPIC_API_KEY }}}}")
        if self.thinking_budget is None:
            return
        if self.thinking_budget < MIN_THINKING_BUDGET:
            raise ValueError(f"thinking_budget must be at least {MIN_THINKING_BUDGET}")
        if self.max_output_tokens is not None and self.max_output_tokens <= self.thinking_budget:
            raise ValueError("max_output_tokens must be larger than thinking_budget, which is part of it")
        if self.temperature is not None:
            raise ValueError("temperature cannot be combined with thinking_budget")


class MessagesDialogue(Struct, frozen=True):
    """Builds requests and parses responses of the messages API."""

    settings: AnthropicSettings

    @property
    def url(self) -> str:
        """The URL of the messages endpoint."""
        return f"{self.settings.base_url.rstrip('/')}/v1/messages"

    def initial_items(self, prompt: Prompt) -> tuple[JsonObject, ...]:
        """Return the turns as messages."""
        return tuple(
            {"role": turn.role, "content": _content(turn.content, images)} for turn, images in prompt.with_images()
        )

    def build_body(self, conversation: Conversation) -> JsonObject:
        """Return the body of the request for the next message."""
        settings, budget = self.settings, self.settings.thinking_budget
        turn_settings = settings.turn_settings(conversation.request)
        body: dict[str, JsonValue] = {
            "model": conversation.request.model or settings.model,
            "max_tokens": _max_tokens(turn_settings.max_output_tokens, budget or 0),
            "system": conversation.system or None,
            "messages": conversation.items,
            "temperature": None if budget else turn_settings.temperature,
            "stream": settings.stream or None,
            "thinking": {"type": "enabled", "budget_tokens": budget} if budget else None,
            "tools": [_tool(tool) for tool in settings.tools] or None,
            "output_config": turn_settings.schema
            and {"format": {"type": "json_schema", "schema": turn_settings.schema}},
        }
        return {**without_none(body), **settings.extra_body}

    def build_request(self, conversation: Conversation, auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the next message."""
        body = self.build_body(conversation)
        headers = (version_header([body]), auth, self.settings.extra_headers)
        return json_request(self.url, body, *headers)

    def parse(self, value: JsonObject) -> Turn:
        """Return the message in a response."""
        content = value.get("content")
        if not isinstance(content, list) or not all(map(_is_block, content)):
            raise wrong_shape("no list of content blocks", value)
        stop_reason = text_or_none(value.get("stop_reason"))
        if stop_reason == "refusal":
            reason = text_or_none(member(value, "stop_details", "explanation"))
            raise content_filter_error(f"the provider blocked the answer of the model{f': {reason}' if reason else ''}")
        calls = [block for block in objects(content) if block.get("type") == "tool_use"]
        thoughts = [text for block in objects(content) if (text := text_or_none(block.get("thinking")))]
        return Turn(
            text="".join(str(block.get("text")) for block in objects(content) if block.get("type") == "text"),
            tool_calls=tuple(ToolCall(str(call["name"]), call.get("input"), id=str(call["id"])) for call in calls),
            items=({"role": "assistant", "content": content},),
            finish_reason=stop_reason,
            is_cut=stop_reason in ("max_tokens", "model_context_window_exceeded"),
            usage=_usage(value.get("usage")),
            request_id=text_or_none(value.get("id")),
            model=text_or_none(value.get("model")),
            reasoning="\n".join(thoughts) or None,
        )

    def collector(self) -> "MessagesCollector":
        """Return a new collector for the events of one message."""
        return MessagesCollector()

    def tool_items(self, calls: Sequence[ToolCall]) -> tuple[JsonObject, ...]:
        """Return the outputs of tools as one user message."""
        results = [
            {"type": "tool_result", "tool_use_id": call.id or "", "content": output_text(call)} for call in calls
        ]
        return ({"role": "user", "content": results},)


def version_header(bodies: Sequence[JsonObject]) -> Mapping[str, str]:
    """Return the header with the version of the API that accepts all of the bodies."""
    has_sampling = any(key in body for body in bodies for key in ("temperature", "top_p", "top_k"))
    return {"anthropic-version": SAMPLING_VERSION if has_sampling else API_VERSION}


def _is_block(value: JsonValue) -> bool:
    """Return True if a value is a content block; blocks of known types must have their required keys."""
    kind = member(value, "type")
    if not isinstance(kind, str):
        return False
    required = {"text": ("text",), "tool_use": ("id", "name")}.get(kind, ())
    return all(isinstance(member(value, name), str) for name in required)


def _max_tokens(configured: int | None, thinking: int) -> int:
    """Return `max_tokens`. It must exceed the `thinking` budget, so a limit that does not is raised by the budget."""
    if configured and configured > thinking:
        return configured
    return (configured or DEFAULT_MAX_TOKENS) + thinking


def _content(text: str, images: Sequence[Image]) -> JsonValue:
    if not images:
        return text
    return [{"type": "text", "text": text}, *map(_image, images)]


def _image(image: Image) -> JsonObject:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.base64}}


def _tool(tool: JsonObject) -> JsonObject:
    function = tool_function(tool)
    if function is None:
        return tool
    others = {key: value for key, value in function.items() if key not in ("parameters", "strict")}
    return {**others, "input_schema": function.get("parameters", {"type": "object"})}


def _usage(value: JsonValue) -> Usage | None:
    """Return the usage; tokens written to or read from the cache count as input."""
    if not isinstance(value, Mapping):
        return None
    cached = count(value, "cache_read_input_tokens")
    sent = count(value, "input_tokens") + count(value, "cache_creation_input_tokens") + cached
    generated = count(value, "output_tokens")
    return Usage(
        input=sent,
        output=generated,
        cached_input=cached,
        reasoning=count(value, "output_tokens_details", "thinking_tokens"),
        total=sent + generated,
        requests=1,
    )


_VERSION = {"anthropic-version": API_VERSION}


class MessageBatches(Struct, frozen=True):
    """The batch endpoint of the messages API at `url`."""

    url: str

    async def submit(self, bodies: Mapping[str, JsonObject], send: Send) -> str:
        """Start a batch and return its id."""
        requests: list[JsonObject] = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        response = await send(json_request(self.url, {"requests": requests}, version_header(list(bodies.values()))))
        batch = parse_object(response.body)
        batch_id = text_or_none(batch.get("id"))
        if batch_id is None:
            raise wrong_shape("no id", batch)
        return batch_id

    async def poll(self, batch_id: str, send: Send) -> BatchState:
        """Return the state of a batch."""
        return parse_state(parse_object((await send(self._get(f"/{batch_id}"))).body))

    async def fetch(self, batch_id: str, send: Send) -> Mapping[str, Outcome]:
        """Return the outcomes of the requests."""
        # The URL in the batch is not used: the key is sent only to the configured server.
        response = await send(self._get(f"/{batch_id}/results"))
        return dict(map(parse_line, parse_lines(response.body)))

    def _get(self, path: str) -> HttpRequest:
        return HttpRequest(f"{self.url}{path}", _VERSION, method="GET")


def parse_state(batch: JsonObject) -> BatchState:
    """Return the state of a batch."""
    status = text_or_none(batch.get("processing_status"))
    if status is None:
        raise wrong_shape("no processing_status", batch)
    counts = batch.get("request_counts")
    done = sum(count(counts, name) for name in ("succeeded", "errored", "canceled", "expired"))
    return BatchState(is_over=status == "ended", status=status, done=done, total=done + count(counts, "processing"))


def parse_line(line: JsonObject) -> tuple[str, Outcome]:
    """Return a request's name and its outcome."""
    name = text_or_none(line.get("custom_id")) or ""
    match member(line, "result", "type"):
        case "succeeded":
            return name, HttpResponse(200, {}, json_bytes(member(line, "result", "message")))
        case "errored":
            error = member(line, "result", "error")
            inner = member(error, "error") or error
            status = status_of_error(inner if isinstance(inner, Mapping) else {})
            return name, HttpResponse(status, {}, json_bytes(error))
        case "expired":
            return name, EXPIRED
        case "canceled":
            return name, CANCELLED
        case _:
            return name, LOST


class AnthropicProvider(BatchedModelProvider):
    """Calls Anthropic's API."""

    kind = "anthropic"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(AnthropicSettings, target.settings)
        dialogue = MessagesDialogue(settings)
        super().__init__(
            target,
            tools,
            dialogue=dialogue,
            credentials=bearer(settings.api_key),
            batches=MessageBatches(f"{dialogue.url}/batches"),
        )


_EVENT_TYPES = frozenset(
    {
        *("message_start", "message_delta", "message_stop", "ping"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
    }
)
_DELTA_KEYS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_INPUT_KEY = "partial_json"


class MessagesCollector:
    """Collects the events of one message: its start, its content blocks, and its stop reason and usage."""

    def __init__(self) -> None:
        self._message: dict[str, JsonValue] = {}
        self._blocks: dict[int, _Block] = {}
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        """True after the event that ends the message."""
        return self.is_over

    def add(self, event: JsonObject) -> int | None:
        """Add an event and return how many characters the model wrote in it; None for an unknown event."""
        kind = event.get("type")
        if not isinstance(kind, str) or kind not in _EVENT_TYPES:
            return None
        match kind:
            case "message_start":
                self._message = dict(_object(event, "message"))
            case "content_block_start":
                self._blocks[_index(event)] = _Block(_object(event, "content_block"))
            case "content_block_delta":
                block = self._blocks.get(_index(event))
                if block is None:
                    raise wrong_shape("a delta of a content block that has not begun", event)
                return block.add(_object(event, "delta"))
            case "message_delta":
                usage = {"usage": {**_mapping(self._message.get("usage")), **_without_null(event.get("usage"))}}
                self._message = {**self._message, **_object(event, "delta"), **usage}
            case "message_stop":
                self.is_over = True
        return 0

    def value(self) -> JsonObject:
        """Return the message so far."""
        return {**self._message, "content": [self._blocks[index].value() for index in sorted(self._blocks)]}


class _Block:
    """A content block and the pieces that fill it."""

    def __init__(self, start: JsonObject) -> None:
        self._start = start
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[JsonValue] = []

    def add(self, delta: JsonObject) -> int:
        kind = delta.get("type")
        if kind == "citations_delta":
            self._citations.append(delta.get("citation"))
            return 0
        name = _INPUT_KEY if kind == "input_json_delta" else _DELTA_KEYS.get(str(kind))
        if name is None:
            return 0
        text = text_in(delta, name)
        self._pieces.setdefault(name, []).append(text)
        return 0 if name == "signature" else len(text)

    def value(self) -> JsonObject:
        joined: dict[str, JsonValue] = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        written_input = joined.pop(_INPUT_KEY, "")
        block: dict[str, JsonValue] = {**self._start, **joined}
        if written_input:
            block["input"] = _parse_input(str(written_input))
        if self._citations:
            block["citations"] = self._citations
        return block


def _parse_input(text: str) -> JsonValue:
    """Parse the input of a tool; incomplete input stays a string."""
    try:
        return cast(JsonValue, json.loads(text))
    except (ValueError, RecursionError):
        return text


def _object(event: JsonObject, name: str) -> JsonObject:
    value = event.get(name)
    if not isinstance(value, Mapping):
        raise wrong_shape(f"an event without {name}", event)
    return value


def _index(event: JsonObject) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise wrong_shape("an event without an index", event)
    return index


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _without_null(usage: JsonValue) -> JsonObject:
    return {name: count for name, count in _mapping(usage).items() if count is not None}
