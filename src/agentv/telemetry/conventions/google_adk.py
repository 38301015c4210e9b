"""Google's Agent Development Kit: requests and responses of models, in JavaScript, and before version 2 in Python."""

from collections.abc import Mapping

from agentv.messages.shapes.reading import read_messages
from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.contents import system_of
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at, unread
from agentv.types.json_value import JsonValue, object_of
from agentv.types.messages import Message
from agentv.types.usage import known_usage

_NAMES = ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response")


def read_google_adk(span: Span) -> Facts:
    """Read a call of a model; spans of tools have an empty request, and follow `gen_ai.*`."""
    attributes = span.attributes
    request, response = (object_of(parsed(attributes.get(name))) for name in _NAMES)
    problem = unread(attributes, dict(zip(_NAMES, (request, response), strict=True)), "a JSON object")
    config = object_of(request.get("config"))
    answer = response.get("content")
    return Facts(
        kind="model" if request or problem else None,
        system=system_of(first(config, "systemInstruction", "system_instruction")),
        input=_contents(request.get("contents"), f"$.attributes.{_NAMES[0]}.contents"),
        output=_contents([answer] if answer else None, f"$.attributes.{_NAMES[1]}.content"),
        problem=problem,
        usage=known_usage(read_usage(first(response, "usage_metadata", "usageMetadata"))),
        model=text_at(request, "model"),
        session=text_at(attributes, "gcp.vertex.agent.session_id"),
    )


def _contents(value: JsonValue, at: str) -> tuple[Message, ...]:
    """Return contents as messages, without those that have no parts, such as images that are left out."""
    listed = value if isinstance(value, list) else [value] if value else []
    contents = [each for each in listed if not isinstance(each, Mapping) or each.get("parts")]
    return tuple(read_messages(contents, at)) if contents else ()
