"""Functions that the decorators of AgentOps, Judgment, Laminar and LangWatch trace: their inputs and outputs."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.contents import said, unwrapped
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at
from agentv.types.json_value import JsonValue, object_of
from agentv.types.usage import known_usage


class Names(NamedTuple):
    """The attributes of a service; what only some calls of models have follows `gen_ai.*`."""

    kind: str
    input: tuple[str, ...]
    output: tuple[str, ...]
    name: tuple[str, ...] = ()
    """The name of an agent or a tool; without one, it is that of the span."""
    usage: str = ""
    model: str = ""


AGENTOPS: Final = Names(
    kind="agentops.span.kind",
    input=tuple(f"agentops.{kind}.input" for kind in ("entity", "tool", "agent", "workflow", "operation", "task")),
    output=tuple(f"agentops.{kind}.output" for kind in ("entity", "tool", "agent", "workflow", "operation", "task")),
    name=("operation.name", "agentops.entity.name"),
)
JUDGMENT: Final = Names(
    kind="judgment.span_kind",
    input=("judgment.input",),
    output=("judgment.output",),
    usage="judgment.usage.metadata",
    model="judgment.llm.model",
)
LAMINAR: Final = Names(kind="lmnr.span.type", input=("lmnr.span.input",), output=("lmnr.span.output",))
LANGWATCH: Final = Names(kind="langwatch.span.type", input=("langwatch.input",), output=("langwatch.output",))

_KINDS: Mapping[str, Kind] = {
    "llm": "model",
    "tool": "tool",
    **dict.fromkeys(("agent", "session", "workflow", "chain"), "agent"),
}


def reader_of(names: Names) -> Callable[[Span], Facts]:
    """Return the reader of what a service's decorators trace."""

    def read(span: Span) -> Facts:
        attributes = span.attributes
        raw_kind = str(attributes.get(names.kind) or "").rpartition(".")[2]  # also the name of an enumeration
        kind = _KINDS.get(raw_kind.lower(), "step")
        given, answer = (_value(first(attributes, *side)) for side in (names.input, names.output))
        name = text_at(attributes, *names.name) or span.name
        session = session_of(attributes) or text_at(object_of(parsed(attributes.get("metadata"))), "thread_id")
        if kind == "tool":
            is_executed = given is not None or answer is not None  # AgentOps has spans of requests, too
            tool = tool_call(name, None, unwrapped(given), answer) if is_executed else None
            return Facts(kind=kind if is_executed else "step", tool=tool, session=session)
        return Facts(
            kind=kind,
            agent=name if kind == "agent" else None,
            input=said(given, "user", f"$.attributes.{names.input[0]}"),
            output=said(answer, "assistant", f"$.attributes.{names.output[0]}"),
            usage=known_usage(read_usage(parsed(attributes.get(names.usage)))),
            model=text_at(attributes, names.model),
            session=session,
        )

    return read


def _value(given: JsonValue) -> JsonValue:
    """Return the value of an input or output, which LangWatch has with its type."""
    inner = parsed(given)
    is_typed = isinstance(inner, Mapping) and inner.keys() == {"type", "value"}
    return inner["value"] if is_typed and isinstance(inner, Mapping) else given
