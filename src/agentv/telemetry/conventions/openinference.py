"""OpenInference, the convention of Arize Phoenix."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from agentv.messages.logs.services import nested_attributes
from agentv.telemetry.contents.contents import said, system_of
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed, read_rows
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.conventions.chat import call_of_api, is_preparation
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at, token_usage, unread
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue, object_of
from agentv.types.messages import Message, Role, ToolCall
from agentv.types.usage import known_cost

_KINDS: Mapping[str, Kind] = {"LLM": "model", "AGENT": "agent", "CHAIN": "agent", "TOOL": "tool"}


def read_openinference(span: Span) -> Facts:
    """Read numbered attributes, and the input and the output where these say nothing."""
    own = ("llm.", "tool", "input", "output", "session", "agent", "openinference", "metadata", "graph")
    attributes = cast(JsonObject, nested_attributes({k: v for k, v in span.attributes.items() if k.startswith(own)}))
    llm = object_of(attributes.get("llm"))
    raw_kind = object_of(object_of(attributes.get("openinference")).get("span")).get("kind")
    kind: Kind | None = _KINDS.get(str(raw_kind).upper(), "step") if raw_kind else None
    value, answer = (object_of(attributes.get(name)).get("value") for name in ("input", "output"))
    counts = object_of(llm.get("token_count"))
    tool = _tool(span.name, attributes, value, answer) if kind == "tool" else None
    messages = {f"llm.{name}": _messages(llm.get(name), name) for name in ("input_messages", "output_messages")}
    given, made = messages.values()
    given = _with_all_results(given, value)
    request, response = object_of(parsed(value)), object_of(parsed(answer))
    if kind == "model" and not given and not made and is_preparation(answer):
        kind, answer = "step", None
    if kind == "model":
        given, made = _completed(given, value, "user"), _completed(made, answer, "assistant")
    if kind in ("model", "agent", "step") and not (kind == "model" and given):
        given = given if kind == "model" and given else (said(value, "user", "$.attributes.input.value") or given)
    if kind in ("model", "agent", "step") and not made:
        made = said(answer, "assistant", "$.attributes.output.value")
    details = object_of(counts.get("prompt_details")), object_of(counts.get("completion_details"))
    return Facts(
        kind=kind,
        agent=text_at(object_of(attributes.get("agent")), "name"),
        system=system_of(first(response, "instructions") or first(request, "instructions", "system")),
        input=() if kind == "tool" else given,
        output=() if kind == "tool" else _without_earlier_calls(made, given),
        tool=tool,
        usage=token_usage(
            counts.get("prompt"), counts.get("completion"), details[0].get("cache_read"), details[1].get("reasoning")
        ),
        problem=unread(span.attributes, messages, "a list of messages"),
        cost_usd=known_cost(object_of(llm.get("cost")).get("total")),
        model=text_at(llm, "model_name") or _model(llm) or text_at(response, "model"),
        session=text_at(object_of(attributes.get("session")), "id"),
        response_id=text_at(response, "id"),
        previous_id=text_at(response, "previous_response_id") or text_at(request, "previous_response_id"),
    )


def _without_earlier_calls(made: tuple[Message, ...], given: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return an answer without the calls of an earlier response, which Google's ADK gives in the same span."""
    last = made[-1] if made else None
    if last is None or not last.content or not last.tool_calls or not given or given[-1].role != "tool":
        return made
    earlier = [(call.tool, call.input) for message in given for call in message.tool_calls]
    if any(call.id is not None or (call.tool, call.input) not in earlier for call in last.tool_calls):
        return made
    return (*made[:-1], replace(last, tool_calls=()))


def _completed(messages: tuple[Message, ...], value: JsonValue, role: Role) -> tuple[Message, ...]:
    """Return the messages in an input or output instead of as many messages that lack contents or ids of calls."""
    if all(map(_is_complete, messages)):
        return messages
    with suppress(MessageError):
        told = said(value, role, f"$.attributes.{'input' if role == 'user' else 'output'}.value")
        is_same = [message.role for message in told] == [message.role for message in messages]
        if is_same and all(map(_says_as_much, told, messages)):
            return told
    return messages


def _says_as_much(told: Message, message: Message) -> bool:
    has_content = bool(told.content) or not message.content
    return has_content and len(told.tool_calls) >= len(message.tool_calls)


def _is_complete(message: Message) -> bool:
    if message.role == "tool" and message.tool_call_id is None:
        return False
    return bool(message.content or message.tool_calls) and all(call.id is not None for call in message.tool_calls)


def _tool(span_name: str, attributes: JsonObject, value: JsonValue, answer: JsonValue) -> ToolCall | None:
    tool, call = object_of(attributes.get("tool")), object_of(attributes.get("tool_call"))
    function = object_of(call.get("function"))
    result = object_of(parsed(answer))
    inner = object_of(result.get("data")) or result
    call_id = call.get("id") or tool.get("id") or inner.get("tool_call_id")
    name = first(tool, "name") or first(function, "name") or span_name.removesuffix(".__call__")
    return tool_call(name, call_id, function.get("arguments") or _own_arguments(value), answer)


def _own_arguments(value: JsonValue) -> JsonValue:
    """Return the arguments of a tool, which DSPy and smolagents have in a function's `kwargs`, and BeeAI in `input`."""
    given = object_of(parsed(value))
    if given.keys() == {"input", "options"}:
        return given["input"]
    kwargs = given.get("kwargs")
    return kwargs if isinstance(kwargs, Mapping) and not given.get("args") else value


def _with_all_results(given: tuple[Message, ...], value: JsonValue) -> tuple[Message, ...]:
    """Return the messages in an input instead of messages that lack results of tools.

    Of several results in a message, the client of Anthropic for JavaScript records the last one.
    """
    results = sum(message.role == "tool" for message in given)
    if results and results < sum(len(message.tool_calls) for message in given):
        with suppress(MessageError):
            listed = first(object_of(parsed(value)), "messages", "input")
            told = said(listed, "user", "$.attributes.input.value")
            if sum(message.role == "tool" for message in told) > results:
                return told
    return given


def _model(llm: JsonObject) -> str | None:
    """Return the model that answered, else the one that was requested, by their newer names."""
    sides = (object_of(llm.get(side)) for side in ("response", "request"))
    return next(filter(None, (text_at(side, "model_name") for side in sides)), None)


def _messages(value: JsonValue, name: str) -> tuple[Message, ...]:
    """Return messages, each of which is wrapped in an object with one key, as are their parts and calls.

    The whole list may be JSON.
    """
    listed = parsed(value)
    rows = [_message(_unwrapped(each, "message")) for each in (listed if isinstance(listed, list) else [])]
    return read_rows([row for row in rows if row], f"$.attributes.llm.{name}") if rows else ()


def _message(message: JsonValue) -> JsonValue:
    if not isinstance(message, Mapping):
        return message
    parts, calls = message.get("contents"), message.get("tool_calls")
    row = {key: message[key] for key in ("role", "content", "tool_call_id") if message.get(key)}
    if row.get("role") == "user" and "tool_call_id" in row:  # a result in a message of Anthropic's API
        row["role"] = "tool"
    if parts and "content" not in row:
        content = [_unwrapped(part, "message_content") for part in (parts if isinstance(parts, list) else [parts])]
        # Calls of tools are in `tool_calls`, too.
        row["content"] = [
            part for part in content if object_of(part).get("type") not in ("tool_use", "tool_call", "tool-call")
        ] or None
    if calls:
        row["tool_calls"] = _calls(parsed(calls))
    elif name := message.get("function_call_name"):
        row["tool_calls"] = [{"tool": name, "input": parsed(message.get("function_call_arguments_json"))}]
    if not row:
        return {}
    return {"role": "assistant", "content": None, **row}


def _calls(value: JsonValue) -> JsonValue:
    """Return calls in our own form; a value that is no list of calls is reported when it is read."""
    return [call_of_api(_unwrapped(call, "tool_call")) for call in value] if isinstance(value, list) else value


def _unwrapped(value: JsonValue, key: str) -> JsonValue:
    return value.get(key, value) if isinstance(value, Mapping) else value
