"""pydantic-ai: all messages of an agent as one attribute."""

from collections.abc import Mapping

from agentv.telemetry.contents.contents import listed_messages, said
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.conventions.chat import chat_message
from agentv.telemetry.conventions.gen_ai import usage_at
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import text_at, unread
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message

_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events", "events")


def read_pydantic_ai(span: Span) -> Facts:
    """Read the messages of an agent or of a call of a model, some of which are in the form of events."""
    attributes = span.attributes
    key = next((key for key in _MESSAGES if attributes.get(key) is not None), _MESSAGES[0])
    whole = _messages(attributes, key)
    is_agent = "pydantic_ai.all_messages" in attributes or "all_messages_events" in attributes
    last = max((place for place, each in enumerate(whole) if each.role != "assistant"), default=-1)
    result = attributes.get("final_result")
    return Facts(
        kind="agent" if is_agent else None,
        agent=text_at(attributes, "agent_name"),
        input=whole[: last + 1],
        output=whole[last + 1 :] or (said(result, "assistant", "$.attributes.final_result") if is_agent else ()),
        usage=usage_at(attributes, "gen_ai.aggregated_usage"),
        problem=unread(attributes, {key: whole}, "a list of messages", begin="[{" if key == "events" else ""),
        model=text_at(attributes, "model_name"),
    )


def _messages(attributes: JsonObject, key: str) -> tuple[Message, ...]:
    given = parsed(attributes.get(key))
    if key != _MESSAGES[0] and isinstance(given, list):
        given = [_event_row(each) if isinstance(each, Mapping) else each for each in given]
    return listed_messages(given, f"$.attributes.{key}") or ()


def _event_row(event: JsonObject) -> JsonObject:
    """Return an event that an attribute holds as a message."""
    name = str(event.get("event.name") or "")
    body = event.get("message") if name == "gen_ai.choice" else event
    row = body if isinstance(body, Mapping) else event
    role = row.get("role") or name.removeprefix("gen_ai.").removesuffix(".message")
    return chat_message(str(role), row)
