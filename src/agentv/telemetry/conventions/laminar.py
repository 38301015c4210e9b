"""Laminar: the functions that it traces, and calls of models that it records by itself."""

from collections.abc import Mapping

from agentv.telemetry.contents import said, tool_call, unwrapped
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.facts import Facts, Kind
from agentv.telemetry.spans import Span

_KINDS: Mapping[str, Kind] = {"LLM": "model", "TOOL": "tool"}


def read_laminar(span: Span) -> Facts:
    """Read the input and the output of a function; tokens and models follow `gen_ai.*`."""
    attributes = span.attributes
    given, answer = attributes.get("lmnr.span.input"), attributes.get("lmnr.span.output")
    type_ = attributes.get("lmnr.span.type")
    kind: Kind | None = None if type_ is given is answer is None else _KINDS.get(str(type_), "step")
    is_tool = kind == "tool"
    return Facts(
        kind=kind,
        input=() if is_tool else said(given, "user", "$.attributes.lmnr.span.input"),
        output=() if is_tool else said(answer, "assistant", "$.attributes.lmnr.span.output"),
        tool=tool_call(span.name, None, unwrapped(given), answer) if is_tool else None,
        session=session_of(attributes),
    )
