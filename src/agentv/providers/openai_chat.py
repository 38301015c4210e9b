"""The chat API of OpenAI, which many servers speak: a request → bytes, bytes → a reply. Pure."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from agentv.providers.http import HttpReply, HttpRequest
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.messages_json import compact_json, tool_call_from_json
from agentv.types.provider import GUIDELINES_HEADING, ProviderRequest
from agentv.types.usage import Usage

OPENAI_URL = "https://api.openai.com/v1"
_EXCERPT = 500


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """Which model is asked, where, and how."""

    model: str = field(metadata={"help": "The model's name."})
    base_url: str = field(default=OPENAI_URL, metadata={"help": "Where the API is served, up to and with /v1."})
    api_key: str | None = field(
        default=None, metadata={"help": "The key, as ${{ VARIABLE }}; local servers need none."}
    )
    api: Literal["chat"] = field(default="chat", metadata={"help": "Which of the APIs is spoken."})
    temperature: float | None = field(default=None, metadata={"help": "0 to 2; not sent when absent."})
    max_output_tokens: int | None = field(default=None, metadata={"help": "At most this many tokens in a reply."})
    structured_output: bool = field(
        default=False, metadata={"help": "The server knows `response_format: json_schema`; judges then use it."}
    )
    tools: Sequence[JsonObject] = field(
        default=(), metadata={"help": "Tool definitions with JSON Schema; calls are recorded as output messages."}
    )
    tool_responses: JsonObject = field(
        default_factory=dict,
        metadata={"help": "What each tool answers, by name: any JSON, or {python: path.py:function}."},
    )
    max_steps: int = field(default=1, metadata={"help": "How often the model goes on after answers of tools."})
    extra_body: JsonObject = field(default_factory=dict, metadata={"help": "More keys for the request's body."})
    extra_headers: Mapping[str, str] = field(default_factory=dict, metadata={"help": "More headers for the request."})

    def __post_init__(self) -> None:
        """Refuse what no server can accept."""
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError("base_url must start with http:// or https://")
        if not self.api_key and self.base_url.rstrip("/") == OPENAI_URL:
            raise ValueError(f"api_key is needed for {OPENAI_URL}; write it as ${{{{ OPENAI_API_KEY }}}}")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise ValueError("max_output_tokens must be at least 1")
        if self.max_steps < 1:
            raise ValueError("max_steps must be at least 1")


@dataclass(frozen=True, slots=True)
class Image:
    """A picture to show to the model."""

    media_type: str
    content: bytes

    def to_part(self) -> JsonObject:
        """Return it as a content part."""
        url = f"data:{self.media_type};base64,{base64.b64encode(self.content).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model said. `message` is its turn as it came, to be sent back when it goes on."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    message: JsonObject
    finish_reason: str | None
    usage: Usage | None
    request_id: str | None
    model: str | None


def build_messages(request: ProviderRequest, images: Sequence[Image] = ()) -> list[JsonObject]:
    """Return a request as chat messages. A chat prompt holds the guidelines already; a plain question does not."""
    if request.chat_prompt is not None:
        messages: list[JsonObject] = [{"role": turn.role, "content": turn.content} for turn in request.chat_prompt]
        system = [request.system_prompt or ""]
        if messages and messages[0]["role"] == "system":
            system.append(cast(str, messages.pop(0)["content"]))
    else:
        messages = [{"role": "user", "content": request.question}]
        guidelines = f"{GUIDELINES_HEADING}\n\n{request.guidelines}" if request.guidelines else ""
        system = [request.system_prompt or "", guidelines]
    if images:
        at = max((index for index, turn in enumerate(messages) if turn["role"] == "user"), default=len(messages) - 1)
        text = {"type": "text", "text": messages[at]["content"]}
        messages[at] = {**messages[at], "content": [text, *(image.to_part() for image in images)]}
    system_text = "\n\n".join(text for text in system if text)
    return [{"role": "system", "content": system_text}, *messages] if system_text else messages


def build_request(messages: Sequence[JsonObject], request: ProviderRequest, settings: OpenAISettings) -> HttpRequest:
    """Return the HTTP request that asks for the next turn. What a request says goes before what the target says."""
    # OpenAI's newer models refuse max_tokens; servers that only follow its older API know nothing else.
    limit = "max_completion_tokens" if settings.base_url.startswith(OPENAI_URL) else "max_tokens"
    structured = request.response_schema if settings.structured_output else None
    body: dict[str, JsonValue] = {
        "model": request.model or settings.model,
        "messages": messages,
        "temperature": settings.temperature if request.temperature is None else request.temperature,
        limit: request.max_output_tokens or settings.max_output_tokens,
        "tools": [_tool(tool) for tool in settings.tools] or None,
        "response_format": None if structured is None else _response_format(structured),
    }
    body = {**{key: value for key, value in body.items() if value is not None}, **settings.extra_body}
    key = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
    headers = {"Content-Type": "application/json", **key, **settings.extra_headers}
    return HttpRequest(f"{settings.base_url.rstrip('/')}/chat/completions", headers, compact_json(body).encode())


def _tool(tool: JsonObject) -> JsonObject:
    return tool if "function" in tool else {"type": "function", "function": tool}


def _response_format(schema: JsonObject) -> JsonObject:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}


def tool_messages(calls: Sequence[ToolCall]) -> list[JsonObject]:
    """Return the answers of tools as messages to the model."""
    return [{"role": "tool", "tool_call_id": call.id or "", "content": _as_text(call.output)} for call in calls]


def _as_text(output: JsonValue) -> str:
    return output if isinstance(output, str) else compact_json(output)


def parse_reply(reply: HttpReply) -> ChatReply:
    """Return the model's turn. Raises ProviderError for a body that is no JSON, no chat reply, or a filtered one."""
    value = _parse_json(reply.body)
    if not isinstance(value, Mapping):
        raise _wrong_shape(reply, f"JSON {_name_of(value)} instead of an object")
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise _wrong_shape(reply, "no choices[0].message")
    finish_reason = choice.get("finish_reason")
    if finish_reason == "content_filter":
        raise ProviderError(Failure("content_filter", "the provider's content filter stopped the reply"))
    content = message.get("content")
    text = _content_text(content if content is not None else message.get("refusal"))
    if text is None:
        raise _wrong_shape(reply, f"a content that is {_name_of(content)}")
    calls = message.get("tool_calls")
    read = [tool_call_from_json(call) for call in calls] if isinstance(calls, list) else []
    return ChatReply(
        text=text,
        tool_calls=tuple(call for call in read if call is not None),
        message={"role": "assistant", "content": content, "tool_calls": calls},
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        usage=_parse_usage(value.get("usage")),
        request_id=reply.request_id or _text_or_none(value.get("id")),
        model=_text_or_none(value.get("model")),
    )


def _parse_json(body: bytes) -> JsonValue:
    if not body.strip():
        raise ProviderError(Failure("malformed_reply", "the reply is empty"))
    try:
        value: JsonValue = json.loads(body.decode())
    except UnicodeDecodeError as error:
        message = f"the reply is not UTF-8 (first bad byte at offset {error.start})"
        raise ProviderError(Failure("malformed_reply", message)) from None
    except (ValueError, RecursionError) as error:
        raise ProviderError(Failure("malformed_reply", f"the reply is not JSON: {error}")) from None
    return value


def _wrong_shape(reply: HttpReply, what: str) -> ProviderError:
    """Return the error for a reply that is JSON but no chat reply; some servers put an error into a good status."""
    said = reply.body[:_EXCERPT].decode(errors="replace")
    return ProviderError(Failure("unexpected_shape", f"the reply has {what}: {said}"))


def _content_text(content: JsonValue) -> str | None:
    """Return a message's content as text: none is empty, parts are joined; None for anything else."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return None
    parts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(part for part in parts if isinstance(part, str))


def _parse_usage(value: JsonValue) -> Usage | None:
    if not isinstance(value, Mapping):
        return None
    sent, made = _count(value, "prompt_tokens"), _count(value, "completion_tokens")
    return Usage(
        input=sent,
        output=made,
        cached_input=_count(value.get("prompt_tokens_details"), "cached_tokens"),
        reasoning=_count(value.get("completion_tokens_details"), "reasoning_tokens"),
        total=_count(value, "total_tokens") or sent + made,
        requests=1,
    )


def _count(counts: JsonValue, name: str) -> int:
    found = counts.get(name) if isinstance(counts, Mapping) else None
    return found if isinstance(found, int) and found > 0 else 0


def _text_or_none(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None


def _name_of(value: JsonValue) -> str:
    return "null" if value is None else type(value).__name__
