"""MLflow: the inputs and outputs of spans."""

from collections.abc import Iterator, Mapping

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.contents import said, unwrapped
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import call_of, parsed, read_rows
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.conventions.chat import instructions_of, is_preparation, request_of
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import text_at
from agentv.types.json_value import JsonObject, JsonValue, object_of
from agentv.types.messages import Message
from agentv.types.usage import known_cost, known_usage

_KINDS: Mapping[str, Kind] = {
    "CHAT_MODEL": "model",
    "LLM": "model",
    "AGENT": "agent",
    "CHAIN": "agent",
    "WORKFLOW": "agent",
    "TOOL": "tool",
}


def read_mlflow(span: Span) -> Facts:
    """Read a span, whose input may be the request of a client."""
    attributes = span.attributes
    raw_kind = unwrapped(attributes.get("mlflow.spanType"))
    kind = _KINDS.get(str(raw_kind).upper(), "step")
    given, answer = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    request = parsed(given)
    name = unwrapped(attributes.get("name"))  # spans of DSPy are named `Tool.NAME`
    counts = parsed(attributes.get("mlflow.chat.tokenUsage"))
    usage = (read_usage(counts) or read_usage(object_of(parsed(answer)).get("usage"))) if kind != "tool" else None
    if kind == "model" and usage is None and is_preparation(answer):
        kind, answer = "step", None
    return Facts(
        kind=kind,
        agent=span.name if str(raw_kind).upper() == "AGENT" else None,
        workflow=span.name if kind == "agent" else None,
        system=instructions_of(request) if kind == "model" else (),
        input=said(request_of(request, given), "user", "$.attributes.mlflow.spanInputs") if kind != "tool" else (),
        output=_answered(span, answer) if kind != "tool" else (),
        tool=tool_call(name or span.name, None, unwrapped(given), answer) if kind == "tool" else None,
        usage=known_usage(usage),
        cost_usd=known_cost(object_of(parsed(attributes.get("mlflow.llm.cost"))).get("total_cost")),
        model=text_at(object_of(request), "model")
        or text_at({"model": unwrapped(attributes.get("mlflow.llm.model"))}, "model")
        or (text_at(object_of(parsed(answer)), "model") if kind == "model" else None),
        session=session_of(attributes),
        response_id=text_at(object_of(parsed(answer)), "id"),
        previous_id=text_at(object_of(request), "previous_response_id"),
    )


def _answered(span: Span, answer: JsonValue) -> tuple[Message, ...]:
    """Return the answer; the tool calls of a streamed one are only in the events with its chunks."""
    messages = said(answer, "assistant", "$.attributes.mlflow.spanOutputs")
    if len(messages) != 1 or messages[0].content or messages[0].tool_calls:
        return messages
    calls: dict[str, dict[str, str]] = {}
    for delta in _streamed_calls(span):
        function = object_of(delta.get("function"))
        call = calls.setdefault(str(delta.get("index")), {"id": "", "name": "", "arguments": ""})
        for name, part in (("id", delta.get("id")), *((key, function.get(key)) for key in ("name", "arguments"))):
            call[name] += part if isinstance(part, str) else ""
    found = [call_of({**call}) for call in calls.values() if call["name"]]
    row: JsonObject = {"role": "assistant", "content": None, "tool_calls": [*found]}
    return read_rows([row], "$.events") if found else messages


def _streamed_calls(span: Span) -> Iterator[JsonObject]:
    """Yield the parts of tool calls in the chunks of OpenAI's chat API."""
    for event in span.events:
        choices = object_of(parsed(event.attributes.get("mlflow.chunk.value"))).get("choices")
        for choice in choices if isinstance(choices, list) else ():
            listed = object_of(object_of(choice).get("delta")).get("tool_calls")
            yield from (object_of(each) for each in (listed if isinstance(listed, list) else ()))
