"""Logfire: the request and the response of a model, and the spans of the OpenAI Agents SDK."""

from collections.abc import Mapping

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents import parsed, said, system_of, tool_call
from agentv.telemetry.facts import Facts, Kind
from agentv.telemetry.spans import Span
from agentv.telemetry.values import first, json_object, text_at
from agentv.types.usage import known_usage

_KINDS: Mapping[str, Kind] = {
    "OpenAI Agents trace: {name}": "agent",
    "Agent run: {name!r}": "agent",
    "Function: {name}": "tool",
}
"""By the template of the message."""


def read_logfire(span: Span) -> Facts:
    """Read the request that a client of a model sent, and its response, or a span of the OpenAI Agents SDK."""
    attributes = span.attributes
    template = str(attributes.get("logfire.msg_template"))
    kind, name, group = _KINDS.get(template), text_at(attributes, "name"), text_at(attributes, "group_id")
    if kind == "tool":
        return Facts(kind=kind, tool=tool_call(name, None, attributes.get("input"), attributes.get("output")))
    asked, got = (json_object(parsed(attributes.get(key))) for key in ("request_data", "response_data"))
    given = first(asked, "messages", "input", "contents", "prompt")
    message = first(got, "message", "output", "combined_chunk_content", "content", "text")
    if asked and not got and "output" in attributes:  # the request has the answer, too
        given, message = attributes.get("input"), attributes["output"]
    usage = read_usage(got.get("usage"))
    return Facts(
        kind="model" if given is not None or message is not None else kind,
        agent=name if template.startswith("Agent run") else None,
        system=system_of(first(asked, "system", "instructions")),
        input=said(given, "user", "$.attributes.request_data"),
        output=said(message, "assistant", "$.attributes.response_data"),
        usage=None if usage is None else known_usage(usage),
        model=text_at(asked, "model"),
        session=group if kind == "agent" and group != "null" else None,
        previous_id=text_at(asked, "previous_response_id"),
    )
