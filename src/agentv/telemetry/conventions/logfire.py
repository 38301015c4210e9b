"""Logfire: the request and the response of a model, and the runs of the OpenAI Agents SDK."""

from collections.abc import Mapping

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.contents import said, system_of
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at, unread
from agentv.types.json_value import object_of
from agentv.types.usage import known_usage

_KINDS: Mapping[str, Kind] = {
    "OpenAI Agents trace: {name}": "agent",
    "Agent run: {name!r}": "agent",
    "Function: {name}": "tool",
}
"""The spans of the OpenAI Agents SDK, by the templates of their names."""


def read_logfire(span: Span) -> Facts:
    """Read the request that a client of a model sent, and its response; or a run of an agent, or a call of a tool."""
    attributes = span.attributes
    template = text_at(attributes, "logfire.msg_template") or ""
    kind = _KINDS.get(template)
    if kind is not None:
        name = text_at(attributes, "name")
        given, result = parsed(attributes.get("input")), attributes.get("output")
        return Facts(
            kind=kind,
            agent=name if template.startswith("Agent run") else None,
            tool=tool_call(name, None, given, result) if kind == "tool" else None,
            session=text_at({key: value for key, value in attributes.items() if value != "null"}, "group_id"),
        )
    return _read_call(span)


def _read_call(span: Span) -> Facts:
    data = {key: object_of(parsed(span.attributes.get(key))) for key in ("request_data", "response_data")}
    request, response = data.values()
    problem = unread(span.attributes, data, "a JSON object", begin="{")
    given = first(request, "messages", "input", "contents", "prompt")
    message = first(response, "message", "output", "combined_chunk_content", "content", "text")
    if message is None and given is not None and "output" in span.attributes:
        # Of the OpenAI Agents SDK, `request_data` has the output, too.
        given, message = span.attributes.get("input"), span.attributes.get("output")
    return Facts(
        kind="model" if given is not None or message is not None or problem else None,
        system=system_of(first(request, "system", "instructions")),
        input=said(given, "user", "$.attributes.request_data"),
        output=said(message, "assistant", "$.attributes.response_data"),
        usage=known_usage(read_usage(response.get("usage"))),
        problem=problem,
        model=text_at(request, "model"),
        previous_id=text_at(request, "previous_response_id"),
    )
