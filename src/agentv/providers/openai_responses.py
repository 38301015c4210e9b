"""The responses API of OpenAI: a conversation → requests, replies → turns. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentv.providers.dialogue import Prompt, Talk, Turn
from agentv.providers.http import HttpRequest
from agentv.providers.model_settings import ModelSettings
from agentv.providers.reply_json import filtered, member, objects, text_or_none, usage_of, wrong_shape
from agentv.providers.request_json import Image, function_of, json_request, output_text, without_none
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.messages_json import tool_call_from_json

_KINDS: Mapping[str, FailureKind] = {"server_error": "server_error", "rate_limit_exceeded": "rate_limited"}


class ResponsesDialogue(Struct, frozen=True):
    """Speaks the responses API at `url`."""

    url: str
    model: str
    settings: ModelSettings

    def open_items(self, prompt: Prompt) -> tuple[JsonObject, ...]:
        """Return the turns as input items."""
        return tuple({"role": turn.role, "content": _content(turn.content, images)} for turn, images in prompt.shown())

    def build_body(self, talk: Talk) -> JsonObject:
        """Return the body that asks for the next turn."""
        wishes = self.settings.wishes(talk.request)
        body: dict[str, JsonValue] = {
            "model": talk.request.model or self.model,
            "instructions": talk.system or None,
            "input": talk.items,
            "temperature": wishes.temperature,
            "max_output_tokens": wishes.max_output_tokens,
            "tools": [_tool(tool) for tool in self.settings.tools] or None,
            "text": wishes.schema and _text_format(wishes.schema),
        }
        return {**without_none(body), **self.settings.extra_body}

    def build_request(self, talk: Talk, auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request that asks for the next turn."""
        return json_request(self.url, self.build_body(talk), auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> Turn:
        """Return the turn in a reply."""
        if value.get("status") == "failed":
            raise _failed(value.get("error"))
        output, texts = value.get("output"), _texts(value.get("output"))
        if texts is None:
            raise wrong_shape("no list of output items", value)
        reason = text_or_none(member(value, "incomplete_details", "reason"))
        if reason == "content_filter":
            raise filtered("the provider's content filter stopped the reply")
        calls = [_tool_call(item) for item in objects(output) if item.get("type") == "function_call"]
        return Turn(
            text="".join(texts),
            tool_calls=tuple(call for call in calls if call is not None),
            items=tuple(objects(output)),
            finish_reason=reason or text_or_none(value.get("status")),
            is_cut=reason == "max_output_tokens",
            usage=usage_of(value.get("usage"), sent="input_tokens", made="output_tokens"),
            request_id=text_or_none(value.get("id")),
            model=text_or_none(value.get("model")),
        )

    def tool_items(self, calls: Sequence[ToolCall]) -> tuple[JsonObject, ...]:
        """Return the answers of tools as input items."""
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
    function = function_of(tool)
    return tool if function is None else {"type": "function", **function}


def _text_format(schema: JsonObject) -> JsonObject:
    return {"format": {"type": "json_schema", "name": "reply", "schema": schema, "strict": True}}


def _failed(error: JsonValue) -> ProviderError:
    """Return why the model made no reply, which this API tells in a good status."""
    code, said = text_or_none(member(error, "code")) or "", text_or_none(member(error, "message"))
    is_policy = "policy" in code
    kind = "content_filter" if is_policy else _KINDS.get(code, "bad_request")
    return ProviderError(
        Failure(kind, f"the reply failed: {said or code or 'no reason given'}", retryable=code in _KINDS)
    )


def _texts(output: JsonValue) -> list[str] | None:
    """Return all that was said, and a refusal is said, too; None when the output is not of the form it should have."""
    if not isinstance(output, list) or not all(isinstance(member(item, "type"), str) for item in output):
        return None
    parts = [part for item in objects(output) if item["type"] == "message" for part in objects(item.get("content"))]
    said = [part.get("text", part.get("refusal")) for part in parts]
    return [text for text in said if isinstance(text, str)] if all(isinstance(text, str) for text in said) else None


def _tool_call(item: JsonObject) -> ToolCall | None:
    return tool_call_from_json({"id": item.get("call_id"), "function": item})
