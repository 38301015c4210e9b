"""The semantic conventions before version 1.37: messages as events of the span."""

from collections.abc import Mapping

from agentv.messages.logs.fields import decoded
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.parts import parsed, read_rows
from agentv.telemetry.conventions.chat import chat_message
from agentv.telemetry.otlp.spans import Span, SpanEvent
from agentv.telemetry.otlp.values import first
from agentv.types.json_value import JsonObject, JsonValue, object_of
from agentv.types.messages import Message


def read_events(span: Span) -> Facts:
    """Read messages as events of the span: one for each message, or one with the prompt and one with the answer."""
    if not span.events:
        return Facts()
    given: list[JsonValue] = []
    made: list[JsonValue] = []
    for event in span.events:
        body = _body(event)
        if event.name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            is_prompt = event.name.endswith("prompt")
            raw = first(body, "gen_ai.prompt", "gen_ai.completion", "content")
            inner = parsed(raw)
            single = {"role": "user" if is_prompt else "assistant", "content": raw}
            (given if is_prompt else made).extend(_objects(inner) or [single])
        elif event.name == "gen_ai.choice":
            made.append(_choice(body))
        elif event.name.startswith("gen_ai.") and event.name.endswith(".message"):
            role = event.name.removeprefix("gen_ai.").removesuffix(".message")
            given.append(chat_message(role, body))
    at = "$.events"
    return Facts(
        input=_without_repeats(read_rows(given, at)) if given else (),
        output=read_rows(made, at) if made else (),
    )


_CONTENTS = frozenset({"content", "message", "parts", "tool_calls", "gen_ai.prompt", "gen_ai.completion"})


def _body(event: SpanEvent) -> JsonObject:
    """Return the attributes and the body of an event, whose keys may also be in JSON.

    A body that is a text is the content, unless attributes have one.
    """
    fields = {**event.attributes, **object_of(parsed(event.body))}
    held = fields.pop("gen_ai.event.content", None)
    fields |= object_of(parsed(held))
    for value in (held, event.body):
        is_text = value not in (None, "", event.name) and not isinstance(parsed(value), Mapping)
        if is_text and _CONTENTS.isdisjoint(fields):
            fields["content"] = value
    return fields


def _objects(value: JsonValue) -> list[JsonValue]:
    """Return the messages in a list, [] for any other value; Langtrace has lists among them, which say nothing."""
    listed = [each for each in value if not isinstance(each, list)] if isinstance(value, list) else []
    return listed if all(isinstance(each, Mapping) for each in listed) else []


def _without_repeats(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages with each result of a tool once; that of botocore is an event and in a message of the user."""
    seen: set[str] = set()
    made: list[Message] = []
    for message in messages:
        call_id = message.tool_call_id if message.role == "tool" else None
        if call_id is None or call_id not in seen:
            made.append(message)
        if call_id is not None:
            seen.add(call_id)
    return tuple(made)


def _choice(body: JsonObject) -> JsonObject:
    message = body.get("message")
    inner = decoded(message) if isinstance(message, str) else message
    if inner == []:  # Strands has the content as JSON
        message = None
    merged = {**body, **inner} if isinstance(inner, Mapping) else {"content": message, **body}
    return chat_message("assistant", merged)
