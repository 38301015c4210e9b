"""Parse the output of commands, functions and servers into a ProviderResponse. Pure."""

import json
import math
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from agentv.messages.shapes.answers import (
    ANSWER_ADVICE,
    ANSWER_KEYS,
    MESSAGES_KEYS,
    named_answer,
    read_answer_object,
)
from agentv.messages.shapes.fields import ROLE_NAMES, first, read_tool_calls
from agentv.messages.shapes.objects import plain_items, plain_json
from agentv.messages.shapes.reading import read_messages
from agentv.messages.shapes.results import is_ai_sdk_result, read_result
from agentv.messages.shapes.usages import read_usage, usage_of_messages
from agentv.types.errors import MessageError, nearest
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue, listed_keys
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text, trace_from_json
from agentv.types.provider import TRACE_NOTE, ProviderError, ProviderResponse, last_answer
from agentv.types.usage import COST_NOTE, MAX_COST_USD, NO_COUNT, Usage, known_cost, read_count

_SCALAR_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "cost_usd": (int, float),
    "finish_reason": (str,),
    "request_id": (str,),
    "session": (str,),
    "model": (str,),
    "reasoning": (str,),
    "first_token_ms": (int, float),
    "exit_code": (int,),
    "metadata": (Mapping,),
    "request": (Mapping,),
}
_OTHER_KEYS = tuple(key for key in ANSWER_KEYS if key not in ("text", *MESSAGES_KEYS))
"""The keys of an answer that are not those of a ProviderResponse."""
_STRING_KEYS = ("finish_reason", "session", "model", "reasoning")
_MESSAGES_KEYS = ("output_messages", "outputMessages")
_CALLS_KEYS = ("tool_calls", "toolCalls")
_USAGE_KEYS = ("usage", "token_usage", "tokenUsage")
"""The accepted keys of messages, tool calls and token counts: our own and those of AgentV, the TypeScript program."""
_SUGGESTED_KEYS = ("text", "output_messages", "tool_calls", "trace", "usage", "cost_usd", *_STRING_KEYS)
ACCEPTED_KEYS = frozenset(
    {*_MESSAGES_KEYS, *_CALLS_KEYS, *_SCALAR_TYPES, *_USAGE_KEYS, "trace", "cost", "costUsd", "id", "eval_id"}
)


def parse_output(text: str) -> ProviderResponse:
    """Parse the output of a command.

    If the output is a JSON object with messages, tool calls or `text`, the answer is its last assistant message with
    content, else its `text`. The object may also be a single message, or a result of the AI SDK. Any other output is
    itself the answer, without its last line end. Raises ProviderError for messages that cannot be read.
    """
    text = text.removeprefix("\ufeff")
    value = _object_in(text)
    answer = None if value is None else parse_known(value)
    return ProviderResponse(_without_line_end(text)) if answer is None else answer


def parse_known(value: JsonObject) -> ProviderResponse | None:
    """Parse an object with messages, tool calls or `text`, a single message, or a result of the AI SDK.

    Return None for any other object. Raises ProviderError for messages that cannot be read.
    """
    value = with_messages(value)
    if value.get("role") in ROLE_NAMES and not value.keys().isdisjoint(("content", "parts", *_CALLS_KEYS)):
        value = {"output_messages": [value]}
    if is_ai_sdk_result(value):
        value = cast(JsonObject, read_result(value))
    is_known = first(value, "text", *_MESSAGES_KEYS) is not None or any(value.get(name) for name in _CALLS_KEYS)
    return parse_answer(value) if is_known else None


def parse_named(value: JsonObject, at: str, advice: str = ANSWER_ADVICE) -> ProviderResponse:
    """Parse an object without our own keys, whose answer is under a key that many programs use.

    Raises ProviderError, with the keys of the object and `advice`, if there is no such answer or several that differ.
    """
    try:
        return parse_response(with_named_answer(value, at, advice))
    except MessageError as error:
        raise ProviderError(Failure("unexpected_shape", str(error))) from None
    except ValueError as error:  # of parse_response: its text continues the sentence
        raise ProviderError(Failure("unexpected_shape", f"{at} {error}")) from None


def with_named_answer(value: JsonObject, at: str, advice: str = ANSWER_ADVICE) -> dict[str, object]:
    """Return an object with its answer under our own keys. Raises MessageError as `read_answer_object` does."""
    answer = read_answer_object(value, at, advice)
    rest: dict[str, object] = {key: item for key, item in value.items() if key not in ANSWER_KEYS}
    if isinstance(answer, str):
        return {**rest, "text": answer}
    return {**rest, "text": content_text(answer.content), "output_messages": [answer]}


def check_agreement(value: Mapping[str, object], text: str, at: str = "the response") -> None:
    """Raise MessageError if an object has another answer than `text` under a key that is not one of our own."""
    others = {key: value[key] for key in _OTHER_KEYS if value.get(key) is not None}
    found = named_answer(cast(JsonObject, plain_json(others, at)), at) if others else None
    if found is not None and found.text != text:
        what = f"has another answer under {found.key!r} than under its own keys; its keys: {listed_keys(value)}"
        raise MessageError(at, what, "return the answer once, under `text` or `output_messages`")


_MESSAGE_ONLY = "has output_messages, but none of the assistant, and no text"


def _has_answer(messages: Sequence[Message] | None, value: Mapping[str, object]) -> bool:
    """Return True unless a response has messages without any of the assistant, and no text."""
    if messages is None or value.get("text") is not None:
        return True
    return any(message.role == "assistant" for message in messages)


def _object_in(text: str) -> JsonObject | None:
    """Parse a JSON object; return None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def with_messages(value: JsonObject) -> JsonObject:
    """Return an answer with its messages under `messages`, or `output` as in AgentV 4, moved to `output_messages`."""
    if any(value.get(name) is not None for name in _MESSAGES_KEYS):
        return value
    name = next((name for name in ("messages", "output") if _lists_messages(value.get(name))), None)
    if name is None:
        return value
    return {**{key: item for key, item in value.items() if key != name}, "output_messages": value[name]}


def _lists_messages(value: JsonValue) -> bool:
    """Return True for a list of messages with roles."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(each, Mapping) and each.get("role") in ROLE_NAMES for each in value)


def parse_answer(value: JsonObject) -> ProviderResponse:
    """Parse an object with `text`, `output_messages` or both. The response has a note for each unknown key.

    Raises ProviderError for messages that cannot be read.
    """
    value = with_messages(value)
    try:
        messages = read_output(value)
        trace = trace_from_json(value.get("trace"))
        answer = last_answer(messages or ())
        if answer is None:
            text = "" if value.get("text") is None else value["text"]
            answer = text if isinstance(text, str) else compact_json(text)
        check_agreement(value, answer)
    except MessageError as error:
        raise ProviderError(Failure("unexpected_shape", f"the response cannot be read: {error}")) from None
    if not _has_answer(messages, value):
        raise wrong_shape(_MESSAGE_ONLY.removeprefix("has "), value)
    scalars = {name: value[name] for name in _STRING_KEYS if isinstance(value.get(name), str)}
    return ProviderResponse(
        text=answer,
        output_messages=messages,
        trace=trace,
        usage=_usage(value),
        cost_usd=parse_cost(value),
        notes=notes_on_keys(value),
        **scalars,  # type: ignore[arg-type] # their types are checked above
    )


def read_output(value: Mapping[str, object]) -> tuple[Message, ...] | None:
    """Return the messages of a response, with its `tool_calls` added; None if it has neither.

    Without messages, the `text` and the calls become one message. Raises MessageError with the place of a message
    that cannot be read.
    """
    name = next((name for name in _MESSAGES_KEYS if value.get(name) is not None), None)
    messages = None if name is None else read_messages(value[name], name)
    calls_key = next((name for name in _CALLS_KEYS if value.get(name) is not None), None)
    listed = None if calls_key is None else plain_json(value[calls_key], calls_key)
    calls = () if calls_key is None else read_tool_calls(cast(JsonValue, listed), calls_key)
    if not calls or any(message.tool_calls for message in messages or ()):
        return messages  # the messages have the calls already
    text = value.get("text")
    if messages:
        return (Message("assistant", tool_calls=calls), *messages)
    return (Message("assistant", text if isinstance(text, str) else None, tool_calls=calls),)


def parse_response(value: Mapping[str, object]) -> ProviderResponse:
    """Parse a mapping with the keys of ProviderResponse; its messages may be Message objects, JSON or a framework's.

    Raises ValueError if the mapping has no answer or a value of a wrong type, with a text that continues a sentence
    ("has …"), and MessageError for messages that cannot be read.
    """
    for name, kinds in _SCALAR_TYPES.items():
        if not isinstance(value.get(name), (*kinds, type(None))):
            raise ValueError(f"has a {name} of type {type(value[name]).__name__}, not {kinds[-1].__name__}")  # noqa: TRY004 - the type of one value is wrong, not of the mapping
    if "messages" in value and not any(name in value for name in _MESSAGES_KEYS):  # the state of a LangGraph graph
        value = {**value, "output_messages": value["messages"]}
        del value["messages"]
    if all(value.get(name) is None for name in ("text", *_MESSAGES_KEYS, *_CALLS_KEYS)):
        value = with_named_answer(cast(JsonObject, plain_json(value, "the response")), "the response")
    messages = read_output(value)
    scalars = {name: value[name] for name in _SCALAR_TYPES if value.get(name) is not None}
    check_agreement(value, str(value.get("text") or last_answer(messages or ()) or ""))
    if not _has_answer(messages, value):
        raise ValueError(_MESSAGE_ONLY)
    return ProviderResponse(
        **{"text": last_answer(messages or ()) or "", **scalars, "cost_usd": parse_cost(value)},  # type: ignore[arg-type] # their types are checked above
        output_messages=messages,
        trace=trace_from_json(cast(JsonValue, plain_json(value.get("trace"), "trace"))),
        usage=_usage(value),
        notes=notes_on_keys(value),
    )


def with_plain_parts(response: ProviderResponse) -> ProviderResponse:
    """Return the response of a function with JSON in its messages, trace, metadata and request. Raises MessageError."""
    names = ("output_messages", "trace", "metadata", "request")
    parts = {name: part for name in names if (part := getattr(response, name))}
    plain: dict[str, Any] = {
        name: tuple(item for _, item in plain_items(part, name)) if isinstance(part, tuple) else plain_json(part, name)
        for name, part in parts.items()
    }
    return replace(response, **plain) if plain else response


def _usage_in(value: Mapping[str, object]) -> object:
    """Return the token counts of a response, from the first key of `_USAGE_KEYS` that it has."""
    return next((value[name] for name in _USAGE_KEYS if value.get(name) is not None), None)


def _usage(value: Mapping[str, object]) -> Usage | None:
    """Return the usage of a response, else that of its messages."""
    name = next((name for name in _MESSAGES_KEYS if value.get(name) is not None), None)
    return read_usage(_usage_in(value)) or (usage_of_messages(value[name]) if name else None)


def notes_on_keys(value: Mapping[str, object]) -> tuple[str, ...]:
    """Return a note for each unknown or deprecated key of a response. Equal notes of a target are shown only once."""
    ignored = [key for key in value if key not in ACCEPTED_KEYS]
    if (usage := _usage_in(value)) and read_usage(usage) is None:
        ignored.append("usage")
    deprecated = () if value.get("trace") is None else (TRACE_NOTE,)
    return (*map(_note_on_key, ignored), *notes_on_cost(value), *deprecated)


def notes_on_cost(value: Mapping[str, object]) -> tuple[str, ...]:
    """Return a note if a response has a cost that is not one."""
    costs = [cost for cost in _costs_in(value) if cost is not None]
    if not costs or parse_cost(value) is not None:
        return ()
    is_too_much = any(isinstance(cost, int | float) and MAX_COST_USD < cost < math.inf for cost in costs)
    return (COST_NOTE if is_too_much else _NO_AMOUNT,)


_NO_AMOUNT = "the cost in its responses is not an amount; write a number of dollars, 0 or more"


def _note_on_key(key: str) -> str:
    if key == "usage":
        return "the usage in its responses has no known token counts; write {input, output}"
    near = nearest(key, _SUGGESTED_KEYS)
    hint = f"; did you mean {near!r}?" if near else f"; known keys: {', '.join(_SUGGESTED_KEYS)}"
    return f"its responses have the unknown key {key!r}, which is ignored{hint}"


def parse_cost(value: Mapping[str, object]) -> float | None:
    """Return the cost of a response in dollars: `cost_usd`, `cost`, or `cost` in its usage; None if it has none."""
    return next((amount for item in _costs_in(value) if (amount := _amount(item)) is not None), None)


def _amount(item: object) -> float | None:
    """Return an amount of dollars, also from a text: pydantic-ai writes a Decimal, which is a string in JSON."""
    if isinstance(item, str):
        try:
            item = float(item)
        except ValueError:
            return None
    return known_cost(item)


def _costs_in(value: Mapping[str, object]) -> tuple[object, ...]:
    usage = _usage_in(value)
    in_usage = usage.get("cost") if isinstance(usage, Mapping) else None
    return value.get("cost_usd"), value.get("costUsd"), value.get("cost"), in_usage


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


_EXCERPT = 500
_OBJECT = (dict, Mapping)
"""The types of a JSON object; `dict` first, since the check of an abstract class is slow (bench/model_cases.py)."""


def parse_json(body: bytes) -> JsonValue:
    """Parse the JSON of a response. Raises ProviderError with kind `malformed_reply` if it is invalid."""
    if not body.strip():
        raise ProviderError(Failure("malformed_reply", "the response is empty"))
    try:
        value: JsonValue = json.loads(body.removeprefix(BOM_UTF8).decode())
    except UnicodeDecodeError as error:
        message = f"the response is not UTF-8 (first invalid byte at offset {error.start})"
        raise ProviderError(Failure("malformed_reply", message)) from None
    except (ValueError, RecursionError) as error:
        raise ProviderError(Failure("malformed_reply", f"the response is not JSON: {error}")) from None
    return value


def parse_object(body: bytes) -> JsonObject:
    """Parse the JSON object of a response. Raises ProviderError for anything else."""
    value = parse_json(body)
    if not isinstance(value, _OBJECT):
        raise wrong_shape(f"JSON {json_type(value)} instead of an object", value)
    return value


def wrong_shape(what: str, value: JsonValue) -> ProviderError:
    """Return the error for JSON of an unexpected form; it quotes the JSON, which may be an error with status 200."""
    return ProviderError(Failure("unexpected_shape", f"the response has {what}: {compact_json(value)[:_EXCERPT]}"))


def content_filter_error(what: str) -> ProviderError:
    """Return the error for a response that a filter of the provider blocked."""
    return ProviderError(Failure("content_filter", what))


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects in a list; nothing if the value is not a list."""
    return [item for item in value if isinstance(item, _OBJECT)] if isinstance(value, list | tuple) else []


def member(value: JsonValue, *names: str) -> JsonValue:
    """Return the value at nested keys; None if it does not exist."""
    for name in names:
        value = value.get(name) if isinstance(value, _OBJECT) else None
    return value


def count(value: JsonValue, *names: str) -> int:
    """Return the count at nested keys as `read_count` does: 0 if there is none."""
    return read_count(member(value, *names))


def usage_of(value: JsonValue, *, input_key: str, output_key: str) -> Usage | None:
    """Parse the usage of an API of OpenAI; the keys of input and output tokens differ between its APIs."""
    if not isinstance(value, _OBJECT):
        return None
    given = (value.get(input_key), value.get(output_key), value.get("total_tokens"))
    input_, output, total = map(read_count, given)
    if NO_COUNT in (input_, output, total) and not any(isinstance(each, int | float) and each > 0 for each in given):
        return None  # some servers write -1 for a count that they do not know
    input_details, output_details = f"{input_key}_details", f"{output_key}_details"
    return Usage(
        input=input_,
        output=output,
        cached_input=count(value, input_details, "cached_tokens") if input_details in value else 0,
        reasoning=count(value, output_details, "reasoning_tokens") if output_details in value else 0,
        total=total or input_ + output,
        requests=1,
    )


def text_or_none(value: JsonValue) -> str | None:
    """Return a value if it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def json_type(value: JsonValue) -> str:
    """Return the type of a JSON value, for messages."""
    return "null" if value is None else type(value).__name__
