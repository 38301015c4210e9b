"""Haystack: the inputs and outputs of agents, their steps, pipelines and components."""

from collections.abc import Mapping

from agentv.messages.shapes.usages import usage_of_messages
from agentv.telemetry.contents.contents import said
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import text_at
from agentv.types.json_value import JsonValue, object_of
from agentv.types.usage import known_usage

_NAMES: Mapping[str, tuple[str, str]] = {
    "haystack.agent.run": ("haystack.agent.input", "haystack.agent.output"),
    "haystack.agent.step.llm": ("haystack.agent.step.llm.input", "haystack.agent.step.llm.output"),
    "haystack.agent.step.tool": ("haystack.agent.step.tool.input", "haystack.agent.step.tool.output"),
    "haystack.component.run": ("haystack.component.input", "haystack.component.output"),
    "haystack.pipeline.run": ("haystack.pipeline.input_data", "haystack.pipeline.output_data"),
}
_KINDS: Mapping[str, Kind] = {
    "haystack.agent.run": "agent",
    "haystack.pipeline.run": "agent",
    "haystack.agent.step.llm": "model",
    "haystack.agent.step.tool": "tool",
}


def read_haystack(span: Span) -> Facts:
    """Read a span by its name; a component with replies is a call of a model."""
    attributes = span.attributes
    names = _NAMES.get(span.name)
    if names is None:
        return Facts(kind="step")
    given, answer = (attributes.get(name) for name in names)
    if span.name.endswith(".tool"):
        name = text_at(attributes, "haystack.tool.name")
        return Facts(kind="tool", tool=tool_call(name, None, given, answer))
    replies = object_of(parsed(answer)).get("replies")
    kind: Kind = "model" if isinstance(replies, list) else _KINDS.get(span.name, "step")
    facts = [object_of(object_of(each).get("meta")) for each in (replies if isinstance(replies, list) else ())]
    return Facts(
        kind=kind,
        input=said(_messages(given), "user", f"$.attributes.{names[0]}"),
        output=said(_messages(answer) if replies is None else replies, "assistant", f"$.attributes.{names[1]}"),
        usage=known_usage(usage_of_messages(facts)),
        model=next((model for each in facts if (model := text_at(each, "model"))), None),
    )


def _messages(given: JsonValue) -> JsonValue:
    """Return the messages in an input or an output, whose other keys are settings and counts."""
    messages = object_of(parsed(given)).get("messages")
    return given if messages is None else messages
