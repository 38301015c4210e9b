"""One reader for each convention of attributes, recognised by the attributes that are present, never by a schema URL.

Emitters lag behind the conventions that they name. A span may follow several: of each fact, the first reader that finds
it wins. Each names the commits that its names were read from; docs/reference/traces.md lists them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple, cast

from msgspec.structs import replace

from agentv.messages.logs.fields import decoded
from agentv.messages.logs.services import nested_attributes
from agentv.messages.shapes.fields import ROLE_NAMES
from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents import (
    listed_messages,
    parsed,
    read_rows,
    said,
    system_of,
    tool_call,
    unwrapped,
    with_system,
)
from agentv.telemetry.facts import Facts, Kind
from agentv.telemetry.spans import Span, SpanEvent
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, ToolCall
from agentv.types.usage import Usage, known_cost, known_usage


class Convention(NamedTuple):
    """A convention: the beginnings of its attributes and events, and its reader."""

    name: str
    prefixes: tuple[str, ...]
    read: Callable[[Span], Facts]
    source: str
    """The repositories and commits in which the names were read, as `owner/name@commit`."""


def _says_more(value: object, known: object) -> bool:
    """Return True for messages with content or calls instead of messages without any."""
    return _says_something(value) and not _says_something(known)


def _says_something(messages: object) -> bool:
    return isinstance(messages, tuple) and any(message.content or message.tool_calls for message in messages)


def read_facts(span: Span) -> Facts | None:
    """Return what a span says by all its conventions, the first one that says a thing; None if none is known."""
    span = _with_details(span)
    present = 0
    for name in span.attributes:
        present |= _conventions_of(name)
    for event in span.events:
        present |= _conventions_of(event.name)
    merged: dict[str, object] = {}
    for number, convention in enumerate(CONVENTIONS):
        if not present >> number & 1:
            continue
        try:
            facts = convention.read(span)
        except MessageError as error:
            merged.setdefault("problem", f"{convention.name}: {error.at} {error.what}")
            facts = _read_without_content(convention, span)
        if facts is _NOTHING:
            continue
        for name in Facts.__struct_fields__:
            value = getattr(facts, name)
            if value is None or value == ():
                continue
            if not merged.get(name) or (name in ("input", "output") and _says_more(value, merged[name])):
                merged[name] = value
    return Facts(**merged) if present else None  # type: ignore[arg-type] # the values of fields of Facts


_NOTHING = Facts()
_CONTENT = (
    *("gen_ai.input.", "gen_ai.output.", "gen_ai.prompt", "gen_ai.completion", "gen_ai.system_instructions"),
    *("llm.input_messages", "llm.output_messages", "input.value", "output.value", "traceloop.entity.", "ai.prompt"),
    *(
        "ai.response.",
        "ai.result.",
        "langfuse.observation.input",
        "langfuse.observation.output",
        "langfuse.trace.",
        "mlflow.spanInputs",
    ),
    *("mlflow.spanOutputs", "pydantic_ai.", "all_messages_events", "events", "request_data", "response_data"),
    "mastra.",
)


def _read_without_content(convention: Convention, span: Span) -> Facts:
    """Return what a span says besides its messages, which cannot be read: its kind, its tokens and others."""
    attributes = {name: value for name, value in span.attributes.items() if not name.startswith(_CONTENT)}
    return convention.read(replace(span, attributes=attributes, events=()))


@lru_cache(maxsize=10_000)
def _conventions_of(name: str) -> int:
    """Return the conventions that an attribute or event belongs to, as the bits of their places in the table."""
    return sum(1 << number for number, each in enumerate(CONVENTIONS) if name.startswith(each.prefixes))


_DETAILS = "gen_ai.client.inference.operation.details"


def _with_details(span: Span) -> Span:
    """Return a span with the attributes of the event that has the details of the operation."""
    details = [event for event in span.events if event.name == _DETAILS]
    if not details:
        return span
    attributes = dict(span.attributes)
    for event in details:
        body = event.body if isinstance(event.body, Mapping) else {}
        for key, value in {**body, **event.attributes}.items():
            attributes.setdefault(key, value)
    return replace(span, attributes=attributes, events=tuple(each for each in span.events if each.name != _DETAILS))


def _first(value: JsonObject, *names: str) -> JsonValue:
    for name in names:
        if (found := value.get(name)) not in (None, "", []):
            return found
    return None


def _text(value: JsonObject, *names: str) -> str | None:
    found = _first(value, *names)
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else None


def _usage(input_tokens: JsonValue, output_tokens: JsonValue, cached: JsonValue, reasoning: JsonValue) -> Usage | None:
    """Return token counts, which some programs write as text; None if neither input nor output is known."""
    given, made = _count(input_tokens), _count(output_tokens)
    if given is None and made is None:
        return None
    tokens = given or 0, made or 0
    usage = Usage(*tokens, cached_input=_count(cached) or 0, reasoning=_count(reasoning) or 0, total=sum(tokens))
    return known_usage(usage)


def _count(value: JsonValue) -> int | None:
    """Return a whole number of at least 0; None for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value % 1 == 0
    return int(value) if is_whole and isinstance(value, int | float) else None


_MOST_DIGITS = 16


# -- gen_ai.*: messages as attributes (1.37 and later), as events and as numbered attributes (before) --

_GEN_AI_KINDS: Mapping[str, Kind] = {
    "chat": "model",
    "text_completion": "model",
    "completion": "model",
    "generate_content": "model",
    "responses": "model",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "execute_tool": "tool",
}
_SESSION_KEYS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "mlflow.trace.session",
    *(f"langsmith.metadata.{name}" for name in ("session_id", "conversation_id", "thread_id")),
)


_KIND_KEYS = {"traceloop.span.kind", "openinference.span.kind", "langfuse.observation.type", "mlflow.spanType"}
"""What other conventions name the kind of a span by."""


def _read_gen_ai(span: Span) -> Facts:
    attributes = span.attributes
    operation = _text(attributes, "gen_ai.operation.name")
    kind: Kind | None = None if operation is None else _GEN_AI_KINDS.get(operation, "step")
    is_request = _text(attributes, "llm.request.type") in ("chat", "completion")
    if kind is None and (is_request or (not _KIND_KEYS & attributes.keys() and _is_model_call(span))):
        kind = "model"
    key, result = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
    tool = None
    if kind == "tool":
        called = unwrapped(_first(attributes, key, "gen_ai.tool.arguments", "tool_arguments"))
        found = _first(attributes, result, "gen_ai.tool.result", "tool_response")
        tool = tool_call(_text(attributes, "gen_ai.tool.name"), _tool_id(attributes), called, found)
    return Facts(
        kind=kind,
        agent=_text(attributes, "gen_ai.agent.name", "gen_ai.workflow.name"),
        system=system_of(attributes.get("gen_ai.system_instructions")),
        input=() if kind == "tool" else _gen_ai_messages(attributes, "gen_ai.input.messages"),
        output=() if kind == "tool" else _gen_ai_messages(attributes, "gen_ai.output.messages"),
        tool=tool,
        usage=_gen_ai_usage(attributes, "gen_ai.usage"),
        problem=_wrong_count(attributes),
        cost_usd=known_cost(_first(attributes, "gen_ai.usage.cost", "gen_ai.cost.total_cost", "operation.cost")),
        model=_text(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        session=_text(attributes, *_SESSION_KEYS),
        response_id=_text(attributes, "gen_ai.response.id"),
        previous_id=_text(
            attributes, "gen_ai.request.previous_response_id", "gen_ai.openai.request.previous_response_id"
        ),
    )


def _is_model_call(span: Span) -> bool:
    attributes = span.attributes
    has_counts = any(key.startswith("gen_ai.usage.") for key in attributes)
    names = ("gen_ai.prompt", "gen_ai.completion", "gen_ai.output.messages")
    has_answer = any(key.startswith(names) for key in attributes) or any(
        event.name in ("gen_ai.choice", "gen_ai.content.completion") for event in span.events
    )
    return has_answer or (has_counts and "gen_ai.request.model" in attributes)


def _tool_id(attributes: JsonObject) -> JsonValue:
    kwargs = parsed(attributes.get("gen_ai.tool.call.arguments"))
    inner = kwargs.get("kwargs") if isinstance(kwargs, Mapping) else None
    return attributes.get("gen_ai.tool.call.id") or (inner.get("tool_call_id") if isinstance(inner, Mapping) else None)


def _gen_ai_messages(attributes: JsonObject, key: str) -> tuple[Message, ...]:
    return listed_messages(attributes.get(key), f"$.attributes.{key}") or ()


def _gen_ai_usage(attributes: JsonObject, prefix: str) -> Usage | None:
    counts = (_first(attributes, *names) for names in _usage_names(prefix))
    return _usage(*counts)


@lru_cache
def _usage_names(prefix: str) -> tuple[tuple[str, ...], ...]:
    """Return the attributes with the tokens of the input, the output, the cache and the reasoning."""
    return tuple(
        tuple(f"{prefix}.{name}" for name in names)
        for names in (
            ("input_tokens", "prompt_tokens"),
            ("output_tokens", "completion_tokens"),
            ("cache_read.input_tokens", "cache_read", "cache_read_input_tokens"),
            ("reasoning.output_tokens", "reasoning_tokens", "details.reasoning_tokens"),
        )
    )


def _wrong_count(attributes: JsonObject) -> str | None:
    """Return what is wrong with a count of tokens that is not one; None if there is no such count."""
    names = (f"gen_ai.usage.{side}_tokens" for side in ("input", "output"))
    for name in names:
        count = attributes.get(name)
        if count is not None and _count(count) is None:
            return f"$.attributes.{name} is not a whole number of tokens: {count!r}"
    return None


def _read_events(span: Span) -> Facts:
    """Read messages as events of the span: one for each message, or one with the prompt and one with the answer."""
    if not span.events:
        return _NOTHING
    asked: list[JsonValue] = []
    answered: list[JsonValue] = []
    for event in span.events:
        body = {**event.attributes, **(event.body if isinstance(event.body, Mapping) else {})}
        body |= _object(parsed(body.pop("gen_ai.event.content", None)))
        if event.name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            is_prompt = event.name.endswith("prompt")
            raw = _first(body, "gen_ai.prompt", "gen_ai.completion")
            inner = parsed(raw)
            single = {"role": "user" if is_prompt else "assistant", "content": raw}
            (asked if is_prompt else answered).extend(inner if isinstance(inner, list) else [single])
        elif event.name == "gen_ai.choice":
            answered.append(_choice(body))
        elif event.name.startswith("gen_ai.") and event.name.endswith(".message"):
            asked.append(_event_message(event, body))
    at = "$.events"
    return Facts(
        input=read_rows(asked, at) if asked else (),
        output=read_rows(answered, at) if answered else (),
    )


_MESSAGE_KEYS = ("role", "content", "tool_calls", "function_call", "parts", "tool_call_id", "refusal")


def _choice(body: JsonObject) -> JsonObject:
    message = body.get("message")
    inner = decoded(message) if isinstance(message, str) else message
    merged = {**body, **inner} if isinstance(inner, Mapping) else {"content": message, **body}
    return _chat_message("assistant", merged)


def _event_message(event: SpanEvent, body: JsonObject) -> JsonObject:
    role = event.name.removeprefix("gen_ai.").removesuffix(".message")
    return _chat_message(role, {**({"tool_call_id": body["id"]} if role == "tool" and "id" in body else {}), **body})


def _chat_message(role: str, body: JsonObject) -> JsonObject:
    message = {key: body[key] for key in _MESSAGE_KEYS if body.get(key) is not None}
    if message.get("role") not in ROLE_NAMES:  # such as `customer`, which only a vendor knows
        message = {**message, "role": role}
    if isinstance(message.get("tool_calls"), str):
        message["tool_calls"] = parsed(message["tool_calls"])
    if isinstance(message.get("function_call"), Mapping):
        message["tool_calls"] = [message.pop("function_call")]
    if message.get("tool_calls") and isinstance(message["tool_calls"], list):
        calls = message["tool_calls"]
        message["tool_calls"] = [call_of_api(each) for each in calls]
    return message if "content" in message or "parts" in message else {**message, "content": None}


def call_of_api(value: JsonValue) -> JsonValue:
    """Return a tool call of an API in our own form; a value that is no call is reported when it is read."""
    if not isinstance(value, Mapping):
        return value
    inner = value.get("function")
    source = inner if isinstance(inner, Mapping) else value
    if "name" not in source:
        return value
    return {"id": value.get("id"), "tool": source.get("name"), "input": parsed(source.get("arguments"))}


def _read_numbered(span: Span) -> Facts:
    """Read `gen_ai.prompt.0.content` and its kin, and `gen_ai.prompt` as one text."""
    prefixes = ("gen_ai.prompt", "gen_ai.completion")
    given = {key: value for key, value in span.attributes.items() if key.startswith(prefixes)}
    nested = cast(JsonObject, cast(JsonObject, nested_attributes(given)).get("gen_ai") or {})
    found: dict[str, tuple[Message, ...]] = {}
    for name, role in (("prompt", "user"), ("completion", "assistant")):
        value = nested.get(name)
        at = f"$.attributes.gen_ai.{name}"
        if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
            rows = [_chat_message(str(each.get("role") or role), _numbered(each)) for each in value]
            found[name] = read_rows(rows, at) if rows else ()
        elif value not in (None, "", []):
            found[name] = said(value, "user" if role == "user" else "assistant", at)
    return Facts(input=found.get("prompt", ()), output=found.get("completion", ()))


def _numbered(message: JsonObject) -> JsonObject:
    content = message.get("content")
    parts = parsed(content)
    is_parts = isinstance(parts, list) and all(isinstance(part, Mapping) and "type" in part for part in parts)
    return {**message, "content": parts if is_parts else content}


# -- pydantic-ai and Logfire --


def _read_pydantic_ai(span: Span) -> Facts:
    attributes = span.attributes
    whole: tuple[Message, ...] = ()
    for key in ("pydantic_ai.all_messages", "all_messages_events", "events"):
        raw = attributes.get(key)
        if raw is None:
            continue
        given = parsed(raw)
        if key != "pydantic_ai.all_messages" and isinstance(given, list):
            given = [_event_row(each) for each in given if isinstance(each, Mapping)]
        whole = listed_messages(given, f"$.attributes.{key}") or ()
        break
    is_agent = "pydantic_ai.all_messages" in attributes or "all_messages_events" in attributes
    last = max((place for place, each in enumerate(whole) if each.role != "assistant"), default=-1)
    result = attributes.get("final_result")
    return Facts(
        kind="agent" if is_agent else None,
        agent=_text(attributes, "agent_name"),
        input=whole[: last + 1],
        output=whole[last + 1 :] or (said(result, "assistant", "$.attributes.final_result") if is_agent else ()),
        usage=_gen_ai_usage(attributes, "gen_ai.aggregated_usage"),
        model=_text(attributes, "model_name"),
    )


def _event_row(event: JsonObject) -> JsonObject:
    """Return an event that an attribute holds as a message."""
    name = str(event.get("event.name") or "")
    body = event.get("message") if name == "gen_ai.choice" else event
    row = body if isinstance(body, Mapping) else event
    role = row.get("role") or name.removeprefix("gen_ai.").removesuffix(".message")
    tool_id = {"tool_call_id": row["id"]} if role == "tool" and "id" in row else {}
    return _chat_message(str(role), {**tool_id, **row})


def _read_logfire(span: Span) -> Facts:
    request, response = (parsed(span.attributes.get(key)) for key in ("request_data", "response_data"))
    asked: JsonObject = request if isinstance(request, Mapping) else {}
    got: JsonObject = response if isinstance(response, Mapping) else {}
    given = _first(asked, "messages", "input", "contents", "prompt")
    message = _first(got, "message", "output", "combined_chunk_content", "content", "text")
    usage = read_usage(got.get("usage"))
    return Facts(
        kind="model" if given is not None or message is not None else None,
        system=system_of(_first(asked, "system", "instructions")),
        input=said(given, "user", "$.attributes.request_data"),
        output=said(message, "assistant", "$.attributes.response_data"),
        usage=None if usage is None else known_usage(usage),
        model=_text(asked, "model"),
        previous_id=_text(asked, "previous_response_id"),
    )


# -- OpenInference --

_OPENINFERENCE_KINDS: Mapping[str, Kind] = {"LLM": "model", "AGENT": "agent", "CHAIN": "agent", "TOOL": "tool"}


def _read_openinference(span: Span) -> Facts:
    own = ("llm.", "tool", "input", "output", "session", "agent", "openinference", "metadata", "graph")
    attributes = cast(JsonObject, nested_attributes({k: v for k, v in span.attributes.items() if k.startswith(own)}))
    llm = _object(attributes.get("llm"))
    raw_kind = _object(_object(attributes.get("openinference")).get("span")).get("kind")
    kind: Kind | None = _OPENINFERENCE_KINDS.get(str(raw_kind).upper(), "step") if raw_kind else None
    value, answer = (_object(attributes.get(name)).get("value") for name in ("input", "output"))
    counts = _object(llm.get("token_count"))
    tool = _openinference_tool(attributes, value, answer) if kind == "tool" else None
    given, made = (_openinference_messages(llm.get(f"{name}_messages")) for name in ("input", "output"))
    asked, answered = _object(parsed(value)), _object(parsed(answer))
    if kind == "model" and not given and not made and "messages" in answered and "tools" in answered:
        kind, answer = "step", None  # what LlamaIndex prepares for a call
    if kind == "model" and not all(map(_says_something, ((message,) for message in given))):
        given = _as_told(value, given)
    if kind in ("model", "agent", "step") and not (kind == "model" and given):
        given = given if kind == "model" and given else (said(value, "user", "$.attributes.input.value") or given)
    if kind in ("model", "agent", "step") and not made:
        made = said(answer, "assistant", "$.attributes.output.value")
    details = _object(counts.get("prompt_details")), _object(counts.get("completion_details"))
    return Facts(
        kind=kind,
        agent=_text(_object(attributes.get("agent")), "name"),
        system=system_of(_first(answered, "instructions") or _first(asked, "instructions", "system")),
        input=() if kind == "tool" else given,
        output=() if kind == "tool" else made,
        tool=tool,
        usage=_usage(
            counts.get("prompt"), counts.get("completion"), details[0].get("cache_read"), details[1].get("reasoning")
        ),
        cost_usd=known_cost(_object(llm.get("cost")).get("total")),
        model=_text(llm, "model_name") or _openinference_model(llm) or _text(answered, "model"),
        session=_text(_object(attributes.get("session")), "id"),
        response_id=_text(answered, "id"),
        previous_id=_text(answered, "previous_response_id") or _text(asked, "previous_response_id"),
    )


def _as_told(value: JsonValue, given: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages in an input instead of as many messages some of which are empty, as in LangChain.js."""
    with suppress(MessageError):
        told = said(value, "user", "$.attributes.input.value")
        if [message.role for message in told] == [message.role for message in given]:
            return told
    return given


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _openinference_tool(attributes: JsonObject, value: JsonValue, answer: JsonValue) -> ToolCall | None:
    tool, call = _object(attributes.get("tool")), _object(attributes.get("tool_call"))
    function = _object(call.get("function"))
    result = _object(parsed(answer))
    inner = _object(result.get("data")) or result
    call_id = call.get("id") or tool.get("id") or inner.get("tool_call_id")
    name = _first(tool, "name") or _first(function, "name")
    return tool_call(name, call_id, function.get("arguments") or value, answer)


def _openinference_model(llm: JsonObject) -> str | None:
    """Return the model that answered, else the one that was asked, by their newer names."""
    sides = (_object(llm.get(side)) for side in ("response", "request"))
    return next(filter(None, (_text(side, "model_name") for side in sides)), None)


def _openinference_messages(value: JsonValue) -> tuple[Message, ...]:
    """Return messages, each of which is wrapped in an object with one key, as are their parts and calls."""
    listed = value if isinstance(value, list) else []
    rows = [_openinference_message(_object(_unwrapped(each, "message"))) for each in listed]
    return read_rows([row for row in rows if row], "$.attributes.llm.messages") if rows else ()


def _openinference_message(message: JsonObject) -> JsonObject:
    parts, calls = message.get("contents"), message.get("tool_calls")
    row = {key: message[key] for key in ("role", "content", "tool_call_id") if message.get(key)}
    if isinstance(parts, list) and "content" not in row:
        content = [_unwrapped(part, "message_content") for part in parts]
        # Calls of tools are in `tool_calls`, too.
        row["content"] = [
            part for part in content if _object(part).get("type") not in ("tool_use", "tool_call")
        ] or None
    if isinstance(calls, list) and calls:
        row["tool_calls"] = [call_of_api(_unwrapped(call, "tool_call")) for call in calls]
    elif name := message.get("function_call_name"):
        row["tool_calls"] = [{"tool": name, "input": parsed(message.get("function_call_arguments_json"))}]
    if not row:
        return {}
    return {"role": "assistant", "content": None, **row}


def _unwrapped(value: JsonValue, key: str) -> JsonValue:
    return value.get(key, value) if isinstance(value, Mapping) else value


# -- OpenLLMetry, Langfuse, AI SDK, MLflow --

_TRACELOOP_KINDS: Mapping[str, Kind] = {"workflow": "agent", "agent": "agent", "task": "step", "tool": "tool"}


def _read_openllmetry(span: Span) -> Facts:
    attributes = span.attributes
    kind = _TRACELOOP_KINDS.get(str(attributes.get("traceloop.span.kind")))
    given, answer = attributes.get("traceloop.entity.input"), attributes.get("traceloop.entity.output")
    tool = None
    if kind == "tool":
        kwargs = _object(_object(parsed(given)).get("kwargs"))
        name = _text(attributes, "traceloop.entity.name")
        tool = tool_call(name, kwargs.get("tool_call_id"), unwrapped(given), answer)
    return Facts(
        kind=kind,
        agent=_text(attributes, "traceloop.entity.name") if kind == "agent" else None,
        input=said(given, "user", "$.attributes.traceloop.entity.input") if kind in ("agent", "step") else (),
        output=said(answer, "assistant", "$.attributes.traceloop.entity.output") if kind in ("agent", "step") else (),
        tool=tool,
        session=_text(attributes, *_SESSION_KEYS),
    )


_MASTRA_AGENTS = ("agent_run", "workflow_run")


def _read_mastra(span: Span) -> Facts:
    """Read the question and the answer of an agent; its calls follow the semantic conventions."""
    type_ = span.attributes.get("mastra.span.type")
    if type_ not in _MASTRA_AGENTS:
        return Facts()
    names = [f"mastra.{type_}.{side}" for side in ("input", "output")]
    return Facts(
        kind="agent",
        input=said(span.attributes.get(names[0]), "user", f"$.attributes.{names[0]}"),
        output=said(span.attributes.get(names[1]), "assistant", f"$.attributes.{names[1]}"),
    )


_LANGFUSE_KINDS: Mapping[str, Kind] = {"generation": "model", "agent": "agent", "chain": "agent", "tool": "tool"}


def _read_langfuse(span: Span) -> Facts:
    attributes = span.attributes
    raw_kind = _text(attributes, "langfuse.observation.type")
    kind: Kind = "step" if raw_kind is None else _LANGFUSE_KINDS.get(raw_kind.lower(), "step")
    given = _first(attributes, "langfuse.observation.input", "langfuse.trace.input")
    answer = _first(attributes, "langfuse.observation.output", "langfuse.trace.output")
    asked = parsed(given)
    counts = parsed(attributes.get("langfuse.observation.usage_details"))
    cost = _object(parsed(attributes.get("langfuse.observation.cost_details")))
    usage = read_usage(counts) if kind != "tool" else None
    return Facts(
        kind=kind,
        agent=span.name if kind == "agent" else None,
        system=system_of(_first(_object(asked), "instructions", "system")) if kind == "model" else (),
        input=said(_request_of(asked, given), "user", "$.attributes.langfuse.observation.input")
        if kind != "tool"
        else (),
        output=said(answer, "assistant", "$.attributes.langfuse.observation.output") if kind != "tool" else (),
        tool=tool_call(span.name, None, unwrapped(given), answer) if kind == "tool" else None,
        usage=None if usage is None else known_usage(usage),
        cost_usd=known_cost(cost.get("total")),
        model=_text(attributes, "langfuse.observation.model.name"),
        session=_text(attributes, *_SESSION_KEYS),
    )


def _request_of(asked: JsonValue, given: JsonValue) -> JsonValue:
    """Return the messages in a request of OpenAI's API, whose other keys are settings."""
    found = _first(_object(asked), "messages", "input") if {"messages", "input"} & _object(asked).keys() else None
    return given if found is None else found


def _read_ai_sdk(span: Span) -> Facts:
    attributes = span.attributes
    operation = str(attributes.get("ai.operationId") or "")
    if operation == "ai.toolCall":
        name, call_id = attributes.get("ai.toolCall.name"), attributes.get("ai.toolCall.id")
        arguments, result = attributes.get("ai.toolCall.args"), attributes.get("ai.toolCall.result")
        return Facts(kind="tool", tool=tool_call(name, call_id, arguments, result))
    is_model = operation.endswith((".doGenerate", ".doStream"))
    is_agent = operation in ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
    prompt = _object(parsed(attributes.get("ai.prompt")))
    given = _first(attributes, "ai.prompt.messages") or _first(prompt, "messages", "prompt")
    text = _first(attributes, "ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")
    calls = parsed(_first(attributes, "ai.response.toolCalls", "ai.result.toolCalls"))
    row: dict[str, JsonValue] = {"role": "assistant", "content": text}
    if isinstance(calls, list) and calls:
        row["tool_calls"] = [_ai_sdk_call(each) for each in calls]
    is_answer = text is not None or "tool_calls" in row
    usage = _usage(
        _first(attributes, "ai.usage.inputTokens", "ai.usage.promptTokens"),
        _first(attributes, "ai.usage.outputTokens", "ai.usage.completionTokens"),
        attributes.get("ai.usage.cachedInputTokens"),
        attributes.get("ai.usage.reasoningTokens"),
    )
    session = _text(attributes, "ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.session_id")
    return Facts(
        kind="model" if is_model else "agent" if is_agent else "step",
        agent=_text(attributes, "ai.telemetry.functionId", "resource.name") if is_agent else None,
        system=system_of(_first(prompt, "system")),
        input=said(given, "user", "$.attributes.ai.prompt"),
        output=read_rows([row], "$.attributes.ai.response") if is_answer else (),
        usage=usage,
        model=_text(attributes, "ai.response.model", "ai.model.id"),
        session=session or _text(attributes, *_SESSION_KEYS),
    )


def _ai_sdk_call(call: JsonValue) -> JsonValue:
    if not isinstance(call, Mapping):
        return call
    arguments = _first(call, "input", "args")
    return {"id": call.get("toolCallId"), "tool": call.get("toolName"), "input": parsed(arguments)}


_MLFLOW_KINDS: Mapping[str, Kind] = {
    "CHAT_MODEL": "model",
    "LLM": "model",
    "AGENT": "agent",
    "CHAIN": "agent",
    "WORKFLOW": "agent",
    "TOOL": "tool",
}


def _read_mlflow(span: Span) -> Facts:
    attributes = span.attributes
    raw_kind = unwrapped(attributes.get("mlflow.spanType"))
    kind = _MLFLOW_KINDS.get(str(raw_kind).upper(), "step")
    given, answer = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    asked = parsed(given)
    counts = parsed(attributes.get("mlflow.chat.tokenUsage"))
    usage = (read_usage(counts) or read_usage(_object(parsed(answer)).get("usage"))) if kind != "tool" else None
    return Facts(
        kind=kind,
        agent=span.name if kind == "agent" else None,
        system=system_of(_first(_object(asked), "instructions", "system")) if kind == "model" else (),
        input=said(_request_of(asked, given), "user", "$.attributes.mlflow.spanInputs") if kind != "tool" else (),
        output=said(answer, "assistant", "$.attributes.mlflow.spanOutputs") if kind != "tool" else (),
        tool=tool_call(span.name, None, unwrapped(given), answer) if kind == "tool" else None,
        usage=None if usage is None else known_usage(usage),
        cost_usd=known_cost(_object(parsed(attributes.get("mlflow.llm.cost"))).get("total_cost")),
        model=_text(_object(asked), "model")
        or _text({"model": unwrapped(attributes.get("mlflow.llm.model"))}, "model"),
        session=_text(attributes, *_SESSION_KEYS),
        response_id=_text(_object(parsed(answer)), "id"),
        previous_id=_text(_object(asked), "previous_response_id"),
    )


CONVENTIONS: Final[Sequence[Convention]] = (
    Convention("AI SDK", ("ai.",), _read_ai_sdk, "vercel/ai@ef0018fa5ad7 vercel/ai@0000dc25b6be"),
    Convention(
        "pydantic-ai",
        ("pydantic_ai.", "all_messages_events", "events"),
        _read_pydantic_ai,
        "pydantic/pydantic-ai@009c633ff9d9",
    ),
    Convention("gen_ai messages", ("gen_ai.",), _read_gen_ai, "open-telemetry/semantic-conventions-genai@e8fc57515062"),
    Convention("gen_ai events", ("gen_ai.",), _read_events, "open-telemetry/semantic-conventions@3c0b5cca3b79"),
    Convention(
        "gen_ai.prompt.N",
        ("gen_ai.prompt", "gen_ai.completion"),
        _read_numbered,
        "open-telemetry/semantic-conventions@567ada6aaf23",
    ),
    Convention("OpenInference", ("openinference.", "llm."), _read_openinference, "Arize-ai/openinference@00e2b51591f3"),
    Convention("OpenLLMetry", ("traceloop.",), _read_openllmetry, "traceloop/openllmetry@0129a0a5c032"),
    Convention("Mastra", ("mastra.",), _read_mastra, "mastra-ai/mastra@28da725994f5"),
    Convention("Langfuse", ("langfuse.",), _read_langfuse, "langfuse/langfuse-python@52ae5a8e00e5"),
    Convention("MLflow", ("mlflow.span",), _read_mlflow, "mlflow/mlflow@00449464c3a4"),
    Convention("Logfire", ("request_data", "response_data"), _read_logfire, "pydantic/logfire@015babe384fb"),
)
"""The conventions in order: of each fact, the first that finds it wins."""


def messages_of(facts: Facts) -> tuple[Message, ...]:
    """Return the input of a span with its system instructions."""
    return with_system(facts.system, facts.input)
