"""Genkit: the inputs and outputs of its actions."""

from collections.abc import Iterator, Mapping

from agentv.telemetry.contents.contents import said
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed, read_rows
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at, token_usage
from agentv.types.json_value import JsonObject, JsonValue, object_of
from agentv.types.messages import Message, Role

_KINDS: Mapping[str, Kind] = {
    "model": "model",
    "background-model": "model",
    "tool": "tool",
    "tool.v2": "tool",
    "flow": "agent",
    "agent": "agent",
    "generate": "agent",
}
"""By the type of an action; `generate` is a function that calls a model until it requests no tool."""


def read_genkit(span: Span) -> Facts:
    """Read an action, such as a flow, a call of a model or of a tool."""
    attributes = span.attributes
    name = text_at(attributes, "genkit:name")
    is_action = attributes.get("genkit:type") == "action"
    action = str(attributes.get("genkit:metadata:subtype") if is_action else name)
    kind = _KINDS.get(action, "step")
    given, answer = attributes.get("genkit:input"), attributes.get("genkit:output")
    if kind == "tool":
        return Facts(kind=kind, tool=tool_call(name, None, given, answer))
    usage = object_of(object_of(parsed(answer)).get("usage")) if kind == "model" else {}
    return Facts(
        kind=kind,
        agent=name if action in ("flow", "agent") else None,
        input=_messages(given, "user", "$.attributes.genkit:input") if kind != "step" else (),
        output=_messages(answer, "assistant", "$.attributes.genkit:output") if kind != "step" else (),
        usage=token_usage(*(usage.get(f"{name}Tokens") for name in ("input", "output", "cachedContent", "thoughts"))),
        model=name.partition("/")[2] or name if name and kind == "model" else None,
        session=text_at(attributes, "genkit:metadata:agent:sessionId"),
    )


def _messages(value: JsonValue, role: Role, at: str) -> tuple[Message, ...]:
    """Return the messages in the request or the response of a model; other values as they are said."""
    whole = object_of(parsed(value))
    listed = first(whole, "messages", "message", "candidates")
    rows = listed if isinstance(listed, list) else [listed]
    messages = [object_of(object_of(row).get("message")) or object_of(row) for row in rows]
    if not all("content" in message for message in messages):
        return said(value, role, at)
    return read_rows([{"role": message.get("role"), "parts": [*_parts(message)]} for message in messages], at)


def _parts(message: JsonObject) -> Iterator[JsonValue]:
    """Yield the parts of a message in the form of the semantic conventions."""
    listed = message.get("content")
    for part in listed if isinstance(listed, list) else [listed]:
        if not isinstance(part, Mapping):
            yield part
            continue
        call, result = object_of(part.get("toolRequest")), object_of(part.get("toolResponse"))
        if part.get("toolRequest") is not None:
            yield {"type": "tool_call", "id": call.get("ref"), "name": call.get("name"), "arguments": call.get("input")}
        elif part.get("toolResponse") is not None:
            output = result.get("output") if result else part["toolResponse"]
            yield {"type": "tool_call_response", "id": result.get("ref"), "response": output}
        elif "text" in part:
            yield {"type": "text", "content": part["text"]}
        elif "reasoning" in part:
            yield {"type": "reasoning", "text": part["reasoning"]}
        elif media := object_of(part.get("media")):
            type_ = str(media.get("contentType") or "")
            yield {"type": "uri", "modality": type_.partition("/")[0], "mime_type": type_, "uri": media.get("url")}
        elif part:
            yield {"type": next(iter(part)), **part}
