"""The oldest form of `gen_ai.*`, which OpenLLMetry began: messages as numbered attributes."""

from collections.abc import Mapping
from typing import cast

from agentv.messages.logs.services import nested_attributes
from agentv.telemetry.contents.contents import said
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.parts import parsed, read_rows
from agentv.telemetry.conventions.chat import chat_message
from agentv.telemetry.otlp.spans import Span
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message


def read_numbered(span: Span) -> Facts:
    """Read `gen_ai.prompt.0.content` and its kin, and `gen_ai.prompt` as one text."""
    prefixes = ("gen_ai.prompt", "gen_ai.completion")
    given = {key: value for key, value in span.attributes.items() if key.startswith(prefixes)}
    nested = cast(JsonObject, cast(JsonObject, nested_attributes(given)).get("gen_ai") or {})
    found: dict[str, tuple[Message, ...]] = {}
    for name, role in (("prompt", "user"), ("completion", "assistant")):
        value = nested.get(name)
        at = f"$.attributes.gen_ai.{name}"
        if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
            said_something = [each for each in value if each.keys() != {"finish_reason"}]  # Netra numbers it by itself
            rows = _with_known_roles(
                [chat_message(str(each.get("role") or role), _numbered(each)) for each in said_something or value], role
            )
            found[name] = read_rows(rows, at) if rows else ()
        elif value not in (None, "", []):
            found[name] = said(value, "user" if role == "user" else "assistant", at)
    return Facts(input=found.get("prompt", ()), output=found.get("completion", ()))


def _with_known_roles(rows: list[JsonObject], role: str) -> list[JsonObject]:
    """Return messages in which `unknown`, which OpenLLMetry writes for some of LangChain's, is a role.

    It is the assistant's in an answer; in a question the tool's after the assistant's messages, else the user's.
    """
    made: list[JsonObject] = []
    for row in rows:
        is_result = role == "user" and bool(made) and made[-1].get("role") in ("assistant", "tool")
        made.append({**row, "role": "tool" if is_result else role} if row.get("role") == "unknown" else row)
    return made


def _numbered(message: JsonObject) -> JsonObject:
    content = message.get("content")
    if content == '""':
        return {**message, "content": ""}
    parts = parsed(content)
    if isinstance(parts, Mapping) and parts.keys() == {"name", "arguments"} and "tool_call_id" in message:  # as Netra
        return {"role": message.get("role"), "tool_calls": [{"id": message["tool_call_id"], **parts}]}
    is_parts = isinstance(parts, list) and all(isinstance(part, Mapping) and "type" in part for part in parts)
    return {**message, "content": parts if is_parts else content}
