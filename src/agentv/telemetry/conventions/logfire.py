"""Logfire: the request and the response of a model."""

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents import parsed, said, system_of
from agentv.telemetry.facts import Facts
from agentv.telemetry.spans import Span
from agentv.telemetry.values import first, json_object, text_at
from agentv.types.usage import known_usage


def read_logfire(span: Span) -> Facts:
    """Read the request that a client of a model sent, and its response."""
    asked, got = (json_object(parsed(span.attributes.get(key))) for key in ("request_data", "response_data"))
    given = first(asked, "messages", "input", "contents", "prompt")
    message = first(got, "message", "output", "combined_chunk_content", "content", "text")
    usage = read_usage(got.get("usage"))
    return Facts(
        kind="model" if given is not None or message is not None else None,
        system=system_of(first(asked, "system", "instructions")),
        input=said(given, "user", "$.attributes.request_data"),
        output=said(message, "assistant", "$.attributes.response_data"),
        usage=None if usage is None else known_usage(usage),
        model=text_at(asked, "model"),
        previous_id=text_at(asked, "previous_response_id"),
    )
