"""Google's Agent Development Kit: requests and responses of models, in JavaScript, and before version 2 in Python."""

from agentv.messages.shapes.reading import read_messages
from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.contents import system_of
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, json_object, text_at
from agentv.types.json_value import JsonValue, objects_of
from agentv.types.messages import Message
from agentv.types.usage import known_usage


def read_google_adk(span: Span) -> Facts:
    """Read a call of a model; spans of tools have an empty request, and follow `gen_ai.*`."""
    attributes = span.attributes
    names = [f"gcp.vertex.agent.llm_{side}" for side in ("request", "response")]
    request, response = (json_object(parsed(attributes.get(name))) for name in names)
    config = json_object(request.get("config"))
    answer = response.get("content")
    usage = read_usage(first(response, "usage_metadata", "usageMetadata"))
    return Facts(
        kind="model" if request else None,
        system=system_of(first(config, "systemInstruction", "system_instruction")),
        input=_contents(request.get("contents"), f"$.attributes.{names[0]}"),
        output=_contents([answer] if answer else None, f"$.attributes.{names[1]}"),
        usage=None if usage is None else known_usage(usage),
        model=text_at(request, "model"),
        session=text_at(attributes, "gcp.vertex.agent.session_id"),
    )


def _contents(value: JsonValue, at: str) -> tuple[Message, ...]:
    """Return contents as messages, without those that have no parts, such as images that are left out."""
    contents = [each for each in objects_of(value) if each.get("parts")]
    return tuple(read_messages(contents, at)) if contents else ()
