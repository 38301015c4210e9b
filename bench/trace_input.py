"""Spans of agents that talk with customers, in exports as a collector writes them: the input of `traces` and `otlp`.

A fourth of the conversations each has messages as attributes (semantic conventions 1.37 and later), messages as events
(up to 1.36), OpenInference, and a client without a framework, whose calls have a trace each. A span has 2 kB of
attributes and events on average.
"""

import json
import random
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from agentv.telemetry.otlp.wire_out import attributes, fixed64, message, text

SPANS_PER_CONVERSATION, ANSWERS_PER_CONVERSATION = 30, 5
SPANS_PER_EXPORT = 64
AT_ONCE = 100
"""The conversations that take turns. With fewer than half of it, the calls of one overlap, as the time is the place."""
_START_NS, _STEP_NS = 1_796_000_000 * 10**9, 20_000_000
_STEPS_OF_AGENT = 5 * AT_ONCE
_MODEL = "gpt-5-mini"
_SYSTEM = "You are the agent of a shop. Answer customers in their language, and look up orders before you answer. " * 3
_WORDS = ("order", "refund", "the", "a", "customer", "was", "sent", "to", "on", "package", "is", "not", "there", "and")
Attributes: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]
"""`role` and `content`, and `call`, the id of a call of the tool or of its result."""
Event: TypeAlias = tuple[str, Attributes]


class MadeSpan(NamedTuple):
    """A span of the input. Its time is its place in the input."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    scope: str
    attributes: Attributes
    events: Sequence[Event] = ()

    @property
    def steps(self) -> int:
        """The duration of the span, as the number of spans that end in it."""
        return _STEPS_OF_AGENT if self.name.startswith("invoke_agent") else AT_ONCE // 2


def exports(conversations: range, spans: int = SPANS_PER_EXPORT) -> Iterator[tuple[MadeSpan, ...]]:
    """Yield the spans of each export, of conversations by their numbers; a hundred of them take turns."""
    groups = (conversations[first : first + AT_ONCE] for first in range(0, len(conversations), AT_ONCE))
    made = chain.from_iterable(
        together for group in groups for together in zip(*map(_conversation, group), strict=True)
    )
    while export := tuple(islice(made, spans)):
        yield export


def _conversation(number: int) -> Iterator[MadeSpan]:
    rng = random.Random(number)  # noqa: S311 - reproducible
    turn_of = (_messages_turn, _events_turn, _openinference_turn, _client_turn)[number % 4]
    history: list[Message] = []
    for turn in range(ANSWERS_PER_CONVERSATION):
        question = {"role": "user", "content": f"{number}.{turn} {_text(rng, 200)}"}
        said = list(_said(rng, tools=5 if turn_of is _client_turn else 2))
        yield from turn_of(_Ids(rng, f"conversation {number}"), [*history, question], said)
        history = [question, said[-1]]


def _said(rng: random.Random, tools: int) -> Iterator[Message]:
    """Yield calls of a tool and their results, and the answer."""
    for _ in range(tools):
        call = f"call_{rng.getrandbits(96):024x}"
        yield {"role": "assistant", "content": "", "call": call, "order": f"{rng.getrandbits(32)}"}
        yield {"role": "tool", "content": _text(rng, 400), "call": call}
    yield {"role": "assistant", "content": _text(rng, 400)}


def _text(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(_WORDS, k=size // 5))


class _Ids:
    """Random ids of spans, and the trace of one turn."""

    def __init__(self, rng: random.Random, session: str) -> None:
        self._rng = rng
        self.session = session
        self.trace, self.agent = self.of_trace(), self.of_span()

    def of_span(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"

    def of_trace(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"


# -- messages as attributes --


def _messages_turn(ids: _Ids, given: list[Message], said: list[Message]) -> Iterator[MadeSpan]:
    scope, shared = "opentelemetry.instrumentation.genai.langchain", {"gen_ai.conversation.id": ids.session}
    for place, each in enumerate(said):
        found = _tool(each) if each["role"] == "tool" else _messages_call([*given, *said[:place]], each)
        name = "execute_tool find_order" if each["role"] == "tool" else f"chat {_MODEL}"
        yield MadeSpan(ids.trace, ids.of_span(), ids.agent, name, scope, {**found, **shared})
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "shop",
        "gen_ai.input.messages": json.dumps([_with_parts(each) for each in given]),
        "gen_ai.output.messages": json.dumps([_with_parts(said[-1])]),
    }
    yield MadeSpan(ids.trace, ids.agent, "", "invoke_agent shop", scope, {**agent, **shared})


def _client_turn(ids: _Ids, given: list[Message], said: list[Message]) -> Iterator[MadeSpan]:
    for place, each in enumerate(said):
        if each["role"] == "assistant":
            found = _messages_call([*given, *said[:place]], each)
            scope = "opentelemetry.instrumentation.genai.openai"
            yield MadeSpan(ids.of_trace(), ids.of_span(), "", f"chat {_MODEL}", scope, found)


def _messages_call(given: list[Message], answer: Message) -> Attributes:
    return {
        **_call(answer),
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": _SYSTEM}]),
        "gen_ai.input.messages": json.dumps([_with_parts(each) for each in given]),
        "gen_ai.output.messages": json.dumps([_with_parts(answer)]),
    }


def _with_parts(said: Message) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "text", "content": said["content"]}
    if said["role"] == "tool":
        part = {"type": "tool_call_response", "id": said["call"], "response": said["content"]}
    elif "call" in said:
        part = {"type": "tool_call", "id": said["call"], "name": "find_order", "arguments": {"order": said["order"]}}
    return {"role": said["role"], "parts": [part]}


def _call(answer: Message) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": _MODEL,
        "gen_ai.response.model": f"{_MODEL}-2026-08-07",
        "gen_ai.response.id": f"chatcmpl-{answer.get('call', '')}",
        "gen_ai.usage.input_tokens": 400,
        "gen_ai.usage.output_tokens": 60,
        "server.address": "api.openai.com",
    }


def _tool(result: Message) -> Attributes:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_order",
        "gen_ai.tool.call.id": result["call"],
        "gen_ai.tool.call.arguments": json.dumps({"order": "7"}),
        "gen_ai.tool.call.result": result["content"],
    }


# -- messages as events --


def _events_turn(ids: _Ids, given: list[Message], said: list[Message]) -> Iterator[MadeSpan]:
    scope = "opentelemetry.instrumentation.openai_v2"
    for place, each in enumerate(said):
        if each["role"] == "tool":
            yield MadeSpan(ids.trace, ids.of_span(), ids.agent, "execute_tool find_order", scope, _tool(each))
            continue
        asked = [{"role": "system", "content": _SYSTEM}, *given, *said[:place]]
        events = [(f"gen_ai.{one['role']}.message", _event(one)) for one in asked]
        choice = {"index": 0, "finish_reason": "stop", "message": json.dumps(_event(each))}
        yield MadeSpan(
            ids.trace,
            ids.of_span(),
            ids.agent,
            f"chat {_MODEL}",
            scope,
            _call(each),
            [*events, ("gen_ai.choice", choice)],
        )
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop", "session.id": ids.session}
    yield MadeSpan(ids.trace, ids.agent, "", "invoke_agent shop", scope, agent)


def _event(said: Message) -> Attributes:
    if said["role"] == "tool":
        return {"id": said["call"], "content": said["content"]}
    if "call" not in said:
        return {"role": said["role"], "content": said["content"]}
    function = {"name": "find_order", "arguments": json.dumps({"order": said["order"]})}
    return {
        "role": "assistant",
        "tool_calls": json.dumps([{"id": said["call"], "type": "function", "function": function}]),
    }


# -- OpenInference --


def _openinference_turn(ids: _Ids, given: list[Message], said: list[Message]) -> Iterator[MadeSpan]:
    scope, shared = "openinference.instrumentation.langchain", {"session.id": ids.session}
    for place, each in enumerate(said):
        if each["role"] == "tool":
            found = {"openinference.span.kind": "TOOL", "tool.name": "find_order", "tool_call.id": each["call"]}
            found |= {"input.value": json.dumps({"order": "7"}), "output.value": each["content"]}
        else:
            found = _openinference_call([{"role": "system", "content": _SYSTEM}, *given, *said[:place]], each)
        name = "find_order" if each["role"] == "tool" else "ChatOpenAI"
        yield MadeSpan(ids.trace, ids.of_span(), ids.agent, name, scope, {**found, **shared})
    agent = {"input.value": given[-1]["content"], "output.value": said[-1]["content"], "agent.name": "shop"}
    agent["openinference.span.kind"] = "AGENT"
    yield MadeSpan(ids.trace, ids.agent, "", "invoke_agent shop", scope, {**agent, **shared})


def _openinference_call(given: list[Message], answer: Message) -> Attributes:
    found: Attributes = {
        "openinference.span.kind": "LLM",
        "llm.model_name": _MODEL,
        "llm.token_count.prompt": 400,
        "llm.token_count.completion": 60,
        "llm.token_count.total": 460,
    }
    for side, messages in (("input", given), ("output", [answer])):
        for number, each in enumerate(messages):
            start = f"llm.{side}_messages.{number}.message"
            found[f"{start}.role"] = each["role"]
            if each["content"]:
                found[f"{start}.content"] = each["content"]
            if each["role"] == "tool":
                found[f"{start}.tool_call_id"] = each["call"]
            elif "call" in each:
                call = f"{start}.tool_calls.0.tool_call"
                found[f"{call}.id"] = each["call"]
                found[f"{call}.function.name"] = "find_order"
                found[f"{call}.function.arguments"] = json.dumps({"order": each["order"]})
    return found


# -- the forms of OTLP --


def as_json(export: Sequence[MadeSpan], first: int) -> bytes:
    """Return an export in JSON as a line; `first` is the place of its first span in the input."""
    spans = [(each.scope, _json_span(each, first + place)) for place, each in enumerate(export)]
    scopes = dict.fromkeys(scope for scope, _ in spans)
    groups = [{"scope": {"name": name}, "spans": [span for scope, span in spans if scope == name]} for name in scopes]
    resource = {"attributes": _json_attributes({"service.name": "shop"})}
    written = {"resourceSpans": [{"resource": resource, "scopeSpans": groups}]}
    return json.dumps(written, separators=(",", ":")).encode() + b"\n"


def _json_span(span: MadeSpan, place: int) -> dict[str, Any]:
    end = _START_NS + place * _STEP_NS
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id,
        "name": span.name,
        "kind": 3,
        "startTimeUnixNano": str(end - span.steps * _STEP_NS),
        "endTimeUnixNano": str(end),
        "attributes": _json_attributes(span.attributes),
        "events": [
            {"name": name, "timeUnixNano": str(end), "attributes": _json_attributes(values)}
            for name, values in span.events
        ],
        "status": {},
    }


def _json_attributes(values: Attributes) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]


def as_protobuf(export: Sequence[MadeSpan], first: int) -> bytes:
    """Return an export in protocol buffers; `first` is the place of its first span in the input."""
    spans = [(each.scope, message(2, _protobuf_span(each, first + place))) for place, each in enumerate(export)]
    scopes = dict.fromkeys(scope for scope, _ in spans)
    groups = (
        message(2, message(1, text(1, name)) + b"".join(span for scope, span in spans if scope == name))
        for name in scopes
    )
    resource = message(1, attributes(1, {"service.name": "shop"}))
    return message(1, resource + b"".join(groups))


def with_length(export: bytes) -> bytes:
    """Return an export as a collector writes it to a file: after its length."""
    return len(export).to_bytes(4, "big") + export


def _protobuf_span(span: MadeSpan, place: int) -> bytes:
    end = _START_NS + place * _STEP_NS
    return b"".join(
        (
            message(1, bytes.fromhex(span.trace_id)),
            message(2, bytes.fromhex(span.span_id)),
            message(4, bytes.fromhex(span.parent_id)),
            text(5, span.name),
            fixed64(7, end - span.steps * _STEP_NS),
            fixed64(8, end),
            attributes(9, span.attributes),
            *(message(11, fixed64(1, end) + text(2, name) + attributes(3, values)) for name, values in span.events),
        )
    )
