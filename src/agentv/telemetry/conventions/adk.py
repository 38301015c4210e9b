"""Google's Agent Development Kit: the request and the response of a model, as its older versions record them."""

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents import parsed, said, system_of
from agentv.telemetry.facts import Facts
from agentv.telemetry.spans import Span
from agentv.telemetry.values import first, json_object, text_at
from agentv.types.usage import known_usage


def read_adk(span: Span) -> Facts:
    """Read a call of a model; spans of tools have an empty request, and their results are in the next request."""
    asked, got = (
        json_object(parsed(span.attributes.get(f"gcp.vertex.agent.llm_{key}"))) for key in ("request", "response")
    )
    content = json_object(got.get("content"))
    usage = read_usage(first(got, "usage_metadata", "usageMetadata"))
    return Facts(
        kind="model" if asked.get("contents") else None,
        system=system_of(first(json_object(asked.get("config")), "system_instruction", "systemInstruction")),
        input=said(asked.get("contents"), "user", "$.attributes.gcp.vertex.agent.llm_request"),
        output=said([content], "assistant", "$.attributes.gcp.vertex.agent.llm_response")
        if content.get("parts")
        else (),
        usage=None if usage is None else known_usage(usage),
        model=text_at(asked, "model"),
        session=text_at(span.attributes, "gcp.vertex.agent.session_id"),
    )
