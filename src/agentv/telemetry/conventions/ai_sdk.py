"""The AI SDK of Vercel."""

from collections.abc import Mapping

from agentv.telemetry.contents.contents import said, system_of
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed, read_rows
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at, token_usage, unread
from agentv.types.json_value import JsonValue, object_of

_SESSION_KEYS = tuple(
    f"{prefix}.{name}"
    for prefix in ("ai.telemetry.metadata", "ai.settings.context")
    for each in ("session", "conversation", "thread", "chat")
    for name in (f"{each}Id", f"{each}_id")
)
"""What programs name the session in the metadata of a call, and from version 7 on in its context."""


def read_ai_sdk(span: Span) -> Facts:
    """Read a function of the SDK, one of its calls of a model, or a call of a tool."""
    attributes = span.attributes
    operation = str(attributes.get("ai.operationId") or "")
    if operation == "ai.toolCall":
        name, call_id = attributes.get("ai.toolCall.name"), attributes.get("ai.toolCall.id")
        arguments, result = attributes.get("ai.toolCall.args"), attributes.get("ai.toolCall.result")
        return Facts(kind="tool", tool=tool_call(name, call_id, arguments, result))
    # From version 7 on, spans follow the semantic conventions, and few attributes are left.
    other: Kind | None = "step" if operation else None
    is_model = operation.endswith((".doGenerate", ".doStream"))
    is_agent = operation in ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
    prompt = object_of(parsed(attributes.get("ai.prompt")))
    given = first(attributes, "ai.prompt.messages") or first(prompt, "messages", "prompt")
    text = first(attributes, "ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")
    calls = parsed(first(attributes, "ai.response.toolCalls", "ai.result.toolCalls"))
    row: dict[str, JsonValue] = {"role": "assistant", "content": text}
    if calls:
        row["tool_calls"] = [_call(each) for each in calls] if isinstance(calls, list) else calls
    is_answer = text is not None or "tool_calls" in row
    usage = token_usage(
        first(attributes, "ai.usage.inputTokens", "ai.usage.promptTokens"),
        first(attributes, "ai.usage.outputTokens", "ai.usage.completionTokens"),
        attributes.get("ai.usage.cachedInputTokens"),
        attributes.get("ai.usage.reasoningTokens"),
    )
    return Facts(
        kind="model" if is_model else "agent" if is_agent else other,
        agent=text_at(attributes, "ai.telemetry.functionId", "resource.name") if is_agent else None,
        system=system_of(first(prompt, "system")),
        input=said(given, "user", "$.attributes.ai.prompt"),
        output=read_rows([row], "$.attributes.ai.response") if is_answer else (),
        usage=usage,
        problem=unread(attributes, {"ai.prompt": prompt}, "a JSON object"),
        model=text_at(attributes, "ai.response.model", "ai.model.id"),
        session=text_at(attributes, *_SESSION_KEYS) or session_of(attributes),
    )


def _call(call: JsonValue) -> JsonValue:
    if not isinstance(call, Mapping):
        return call
    arguments = first(call, "input", "args")
    return {"id": call.get("toolCallId"), "tool": call.get("toolName"), "input": parsed(arguments)}
