"""Parse the output of commands, functions and servers into a ProviderResponse. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
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
    """Parse the output of a command.

    In a JSON object the answer is the last assistant message with content, else its `text`; any other output is the
    answer itself, without its last line end.
    """
    value = _object_in(text)
    if value is None:
        return ProviderResponse(_without_line_end(text))
    answer = parse_answer(value)
    has_answer = answer.output_messages is not None or value.get("text") is not None
    return answer if has_answer else replace(answer, text=_without_line_end(text))


def _object_in(text: str) -> JsonObject | None:
    """Parse a JSON object; return None for other texts, mostly by their first character."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def parse_answer(value: JsonObject) -> ProviderResponse:
    """Parse an object with `text`, `output_messages` and `trace`; other keys are ignored."""
    messages = messages_from_json(value.get("output_messages", value.get("outputMessages")))
    answer = last_answer(messages or ())
    if answer is None:
        text = value.get("text")
        answer = text if isinstance(text, str) else "" if text is None else compact_json(text)
    return ProviderResponse(answer, output_messages=messages, trace=trace_from_json(value.get("trace")))


def parse_response(value: Mapping[str, object]) -> ProviderResponse:
    """Parse a mapping with the keys of ProviderResponse; its messages may be Message objects or JSON.

    Raises ValueError with a predicate about the mapping if it has no answer or a value of a wrong type.
    """
    for name, kinds in _SCALARS.items():
        if not isinstance(value.get(name), (*kinds, type(None))):
            raise ValueError(f"has a {name} of type {type(value[name]).__name__}, not {kinds[-1].__name__}")  # noqa: TRY004 - the type of one value is wrong, not of the mapping
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
    """Return token counts given with the names of Usage, or None; counts that are not integers are ignored."""
    if isinstance(value, Usage) or not isinstance(value, Mapping):
        return value if isinstance(value, Usage) else None
    counts = {name: value.get(name) for name in Usage.__struct_fields__}
    known = {name: count for name, count in counts.items() if isinstance(count, int)}
    usage = Usage(**known)
    return usage if "total" in known else replace(usage, total=usage.input + usage.output)


def last_answer(messages: Sequence[Message]) -> str | None:
    """Return the content of the last assistant message with content; None if there is none."""
    texts = (content_text(message.content) for message in reversed(messages) if message.role == "assistant")
    return next((text for text in texts if text), None)


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


_EXCERPT = 500


def parse_json(body: bytes) -> JsonValue:
    """Parse the JSON of a response. Raises ProviderError with kind `malformed_reply` if it is invalid."""
    if not body.strip():
        raise ProviderError(Failure("malformed_reply", "the response is empty"))
    try:
        value: JsonValue = json.loads(body.decode())
    except UnicodeDecodeError as error:
        message = f"the response is not UTF-8 (first invalid byte at offset {error.start})"
        raise ProviderError(Failure("malformed_reply", message)) from None
    except (ValueError, RecursionError) as error:
        raise ProviderError(Failure("malformed_reply", f"the response is not JSON: {error}")) from None
    return value


def parse_object(body: bytes) -> JsonObject:
    """Parse the JSON object of a response. Raises ProviderError for anything else."""
    value = parse_json(body)
    if not isinstance(value, Mapping):
        raise wrong_shape(f"JSON {name_of(value)} instead of an object", value)
    return value


def wrong_shape(what: str, value: JsonValue) -> ProviderError:
    """Return the error for JSON of an unexpected form; some servers report errors with status 200."""
    return ProviderError(Failure("unexpected_shape", f"the response has {what}: {compact_json(value)[:_EXCERPT]}"))


def filtered(what: str) -> ProviderError:
    """Return the error for a response that a filter of the provider blocked."""
    return ProviderError(Failure("content_filter", what))


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects in a list; nothing if the value is not a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def member(value: JsonValue, *names: str) -> JsonValue:
    """Return the value at nested keys; None if it does not exist."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def count(value: JsonValue, *names: str) -> int:
    """Return the positive integer at nested keys, else 0."""
    found = member(value, *names)
    return found if isinstance(found, int) and found > 0 else 0


def usage_of(value: JsonValue, *, input_key: str, output_key: str) -> Usage | None:
    """Parse the usage of OpenAI's APIs, which have two pairs of keys for input and output tokens."""
    if not isinstance(value, Mapping):
        return None
    input_, output = count(value, input_key), count(value, output_key)
    input_details, output_details = f"{input_key}_details", f"{output_key}_details"
    return Usage(
        input=input_,
        output=output,
        cached_input=count(value, input_details, "cached_tokens") if input_details in value else 0,
        reasoning=count(value, output_details, "reasoning_tokens") if output_details in value else 0,
        total=count(value, "total_tokens") or input_ + output,
        requests=1,
    )


def text_or_none(value: JsonValue) -> str | None:
    """Return a value if it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def name_of(value: JsonValue) -> str:
    """Return the type of a JSON value, for messages."""
    return "null" if value is None else type(value).__name__
