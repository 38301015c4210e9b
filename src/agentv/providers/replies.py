"""What a process or a function returns → a ProviderResponse (formats.md, `cli` and `python`). Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text, messages_from_json, trace_from_json
from agentv.types.provider import ProviderResponse
from agentv.types.usage import Usage

_SCALARS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "cost_usd": (int, float),
    "finish_reason": (str,),
    "request_id": (str,),
    "session": (str,),
    "model": (str,),
    "first_token_ms": (int, float),
    "exit_code": (int,),
    "metadata": (Mapping,),
    "request": (Mapping,),
}


def parse_output(text: str) -> ProviderResponse:
    """Return what a command wrote as its answer.

    In a JSON object the last assistant message that has content is the answer, else its `text`; anything else is the
    answer as it stands, without its last line end.
    """
    value = _object_in(text)
    if value is None:
        return ProviderResponse(_without_line_end(text))
    answer = parse_answer(value)
    has_answer = answer.output_messages is not None or value.get("text") is not None
    return answer if has_answer else replace(answer, text=_without_line_end(text))


def _object_in(text: str) -> JsonObject | None:
    """Return the JSON object that a text is; most are none, which their first character tells."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def parse_answer(value: JsonObject) -> ProviderResponse:
    """Return the answer in an object of `text`, `output_messages` and `trace`; what else it holds is ignored."""
    messages = messages_from_json(value.get("output_messages", value.get("outputMessages")))
    answer = last_answer(messages or ())
    if answer is None:
        text = value.get("text")
        answer = text if isinstance(text, str) else "" if text is None else compact_json(text)
    return ProviderResponse(answer, output_messages=messages, trace=trace_from_json(value.get("trace")))


def parse_response(value: Mapping[str, object]) -> ProviderResponse:
    """Return the response in a mapping of ProviderResponse's keys; its messages may be objects of ours or JSON.

    Raises ValueError, a sentence about the mapping, when it holds no answer or a value of a wrong type.
    """
    for name, kinds in _SCALARS.items():
        if not isinstance(value.get(name), (*kinds, type(None))):
            raise ValueError(f"has a {name} of type {type(value[name]).__name__}, not {kinds[-1].__name__}")  # noqa: TRY004 - the value of a key is wrong
    if value.get("text") is None and value.get("output_messages") is None:
        raise ValueError(f"has neither text nor output_messages, but {', '.join(map(repr, value)) or 'nothing'}")
    given = value.get("output_messages")
    if isinstance(given, Sequence) and all(isinstance(item, Message) for item in given):
        messages: tuple[Message, ...] | None = tuple(given)
    else:
        messages = messages_from_json(cast(JsonValue, given))
    scalars = {name: value[name] for name in _SCALARS if value.get(name) is not None}
    return ProviderResponse(
        **{"text": last_answer(messages or ()) or "", **scalars},  # type: ignore[arg-type] # their types are checked above
        output_messages=messages,
        trace=trace_from_json(cast(JsonValue, value.get("trace"))),
        usage=parse_usage(value.get("usage")),
    )


def parse_usage(value: object) -> Usage | None:
    """Return token counts given under our names, or None; counts that are no whole numbers are left out."""
    if isinstance(value, Usage) or not isinstance(value, Mapping):
        return value if isinstance(value, Usage) else None
    counts = {name: value.get(name) for name in Usage.__struct_fields__}
    known = {name: count for name, count in counts.items() if isinstance(count, int)}
    usage = Usage(**known)
    return usage if "total" in known else replace(usage, total=usage.input + usage.output)


def last_answer(messages: Sequence[Message]) -> str | None:
    """Return the content of the last assistant message that has any; None when there is none."""
    texts = (content_text(message.content) for message in reversed(messages) if message.role == "assistant")
    return next((text for text in texts if text), None)


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
