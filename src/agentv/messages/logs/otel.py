"""OpenTelemetry: spans of agents and models, from OTLP exports in JSON and from the SDK's own JSON.

The known attributes and events are those of the semantic conventions (`gen_ai.*`), of OpenLLMetry (`traceloop.*`,
`gen_ai.prompt.0.content`), of pydantic-ai, and of OpenInference, whose spans `services.read_phoenix` reads.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from agentv.messages.logs.fields import RESOURCE_KEYS, Found, LogRecord, decoded, find_fields, milliseconds_between
from agentv.messages.logs.services import nested_attributes, read_phoenix
from agentv.messages.shapes.usages import read_usage
from agentv.types.fields import Problems
from agentv.types.json_value import JsonObject, JsonValue

_STEP_KINDS = frozenset({"execute_tool", "embeddings", "tool", "TOOL", "RETRIEVER", "EMBEDDING", "RERANKER"})
"""The operations and kinds of spans whose output is not an answer."""
_ANSWER_ATTRIBUTES = (
    *("gen_ai.output.messages", "gen_ai.completion", "traceloop.entity.output", "pydantic_ai.all_messages"),
    *("all_messages_events", "output.value", "llm.output_messages"),
)
_ANSWER_EVENTS = ("gen_ai.choice", "gen_ai.content.completion", "gen_ai.client.inference.operation.details")
_ATTRIBUTE_PREFIXES = ("gen_ai.", "traceloop.", "pydantic_ai.", "all_messages_events")


def spans_of(export: JsonObject) -> Iterator[JsonObject]:
    """Yield each span of an export as a line; `step` is None if the span is read as an answer, else says why it is not.

    If spans with answers are nested, only the outermost in the export is read as an answer. Raises EvalFileError with
    the place of every part that is not a list of objects.
    """
    problems = Problems("OTLP export")
    listed = list(_spans(export, problems))
    problems.raise_any()
    spans = {(str(span["traceId"]), str(span["spanId"])): span for span in listed}
    for span in listed:
        yield {**span, "step": _step(span, spans)}


def _step(span: JsonObject, spans: Mapping[tuple[str, str], JsonObject]) -> str | None:
    trace = str(span["traceId"])
    if not _has_answer(span):
        return "unanswered span"
    seen = {str(span["spanId"])}
    parent = spans.get((trace, str(span["parentSpanId"])))
    while parent is not None and str(parent["spanId"]) not in seen:
        if _has_answer(parent):
            return "inner span"
        seen.add(str(parent["spanId"]))
        parent = spans.get((trace, str(parent["parentSpanId"])))
    return None


def _has_answer(span: JsonObject) -> bool:
    attributes = cast(JsonObject, span["attributes"])
    kinds = ("gen_ai.operation.name", "traceloop.span.kind", "openinference.span.kind")
    if any(str(attributes.get(kind)) in _STEP_KINDS for kind in kinds):
        return False
    if any(event.get("name") in _ANSWER_EVENTS for event in _objects(span["events"])):
        return True
    return any(key.startswith(_ANSWER_ATTRIBUTES) for key in attributes)


def _spans(export: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    for at_resource, resource in _parts(export, "$", RESOURCE_KEYS, problems):
        for at_scope, scope in _parts(resource, at_resource, _SCOPE_KEYS, problems):
            for at, span in _parts(scope, at_scope, ("spans",), problems):
                events = [
                    {"name": each.get("name"), "attributes": _attributes(each.get("attributes"))}
                    for _, each in _parts(span, at, ("events",), problems)
                ]
                if not isinstance(span.get("attributes"), Mapping):
                    list(_parts(span, at, ("attributes",), problems))  # records the problems
                yield {
                    "otlp": True,
                    "traceId": _first_value(span, "traceId", "trace_id"),
                    "spanId": _first_value(span, "spanId", "span_id"),
                    "parentSpanId": _first_value(span, "parentSpanId", "parent_span_id"),
                    "name": span.get("name"),
                    "start_time": _moment(_first_value(span, "startTimeUnixNano", "start_time_unix_nano")),
                    "end_time": _moment(_first_value(span, "endTimeUnixNano", "end_time_unix_nano")),
                    "status": span.get("status"),
                    "attributes": _attributes(span.get("attributes")),
                    "events": events,
                }


_SCOPE_KEYS = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")


def _parts(value: JsonObject, at: str, names: tuple[str, ...], problems: Problems) -> Iterator[tuple[str, JsonObject]]:
    """Yield the objects of the list under the first of these keys that has a value, each with its path.

    A value that is neither null nor a list of objects is recorded as a problem.
    """
    name = next((name for name in names if value.get(name) not in (None, "")), names[0])
    listed = value.get(name)
    if listed is not None and not isinstance(listed, list | tuple):
        problems.add(f"{at}.{name}", f"must be a list of objects, got {type(listed).__name__}")
        return
    for index, each in enumerate(listed or ()):
        if isinstance(each, Mapping):
            yield f"{at}.{name}[{index}]", each
        else:
            problems.add(f"{at}.{name}[{index}]", f"must be an object, got {type(each).__name__}")


def _first_value(value: JsonObject, *names: str) -> JsonValue:
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def _moment(value: JsonValue) -> JsonValue:
    """Return nanoseconds as a number; protocol buffers write them as text in JSON."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _objects(value: JsonValue) -> list[JsonObject]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _attributes(value: JsonValue) -> JsonObject:
    if isinstance(value, Mapping):
        return value
    return {str(each.get("key")): _json_of_any_value(each.get("value")) for each in _objects(value)}


def _json_of_any_value(value: JsonValue) -> JsonValue:
    """Return an AnyValue of OTLP as JSON."""
    if not isinstance(value, Mapping):
        return value
    for name, item in value.items():
        match name:
            case "intValue" | "int_value":
                return int(item) if isinstance(item, str) and item.lstrip("-").isdecimal() else item
            case "arrayValue" | "array_value":
                return [
                    _json_of_any_value(each)
                    for each in _objects(item.get("values") if isinstance(item, Mapping) else None)
                ]
            case "kvlistValue" | "kvlist_value":
                return _attributes(item.get("values") if isinstance(item, Mapping) else None)
            case _:
                return item
    return None


def is_otel(value: JsonObject) -> bool:
    """Return True for a span of an OTLP export, or a span in the SDK's JSON with attributes of known conventions."""
    if value.get("otlp") is True:
        return True
    context, attributes = value.get("context"), value.get("attributes")
    is_span = isinstance(context, Mapping) and "span_id" in context and isinstance(attributes, Mapping)
    return is_span and any(key.startswith(_ATTRIBUTE_PREFIXES) for key in cast(JsonObject, attributes))


def read_otel(value: JsonObject) -> LogRecord:
    """Return the fields of a span."""
    if value.get("otlp") is True:
        value = {**value, "context": {"trace_id": value.get("traceId"), "span_id": value.get("spanId")}}
        step = value.get("step")
    else:
        step = "inner span" if value.get("parent_id") else None
    attributes = cast(JsonObject, value["attributes"])
    status = value.get("status") if isinstance(value.get("status"), Mapping) else {}
    code = _first_value(cast(JsonObject, status), "code", "status_code")
    is_error = str(code).upper() in ("2", "ERROR", "STATUS_CODE_ERROR")
    message = _first_value(cast(JsonObject, status), "message", "description")
    failure = str(message or "status ERROR") if is_error else None
    if not any(key.startswith(_ATTRIBUTE_PREFIXES) for key in attributes) and not _objects(value.get("events")):
        # A span with the attributes of OpenInference. `read_phoenix` gets neither its parent nor its times, because the
        # step and the times are computed here, as for all spans.
        phoenix = read_phoenix({**value, "parent_id": None, "start_time": None, "end_time": None})
        fields = {**phoenix.fields, **_times(value)}
        return replace(phoenix, shape="OpenTelemetry", fields=fields, step=cast(str | None, step), failure=failure)
    for event in _objects(value.get("events")):  # newer instrumentations record the messages in this event
        if event.get("name") == "gen_ai.client.inference.operation.details":
            attributes = {**attributes, **_attributes(event.get("attributes"))}
    fields, notes = _fields(value, attributes), _count_notes(attributes)
    return LogRecord("OpenTelemetry", fields, step=cast(str | None, step), failure=failure, notes=notes)


def _times(value: JsonObject) -> dict[str, Found]:
    start, end = value.get("start_time"), value.get("end_time")
    made = {} if start is None else {"timestamp": Found(start, "$.start_time")}
    if isinstance(start, int) and isinstance(end, int):
        return {**made, "duration_ms": Found((end - start) / 1e6, "$.end_time")}
    latency = milliseconds_between(start, end)
    return made if latency is None else {**made, "duration_ms": Found(latency, "$.end_time")}


def _fields(value: JsonObject, attributes: JsonObject) -> dict[str, Found]:
    line: JsonObject = {"context": value.get("context"), "name": value.get("name"), "attributes": attributes}
    fields = find_fields(
        line,
        {
            "id": ("context.span_id", "context.trace_id"),
            "session_id": (
                "attributes.gen_ai.conversation.id",
                "attributes.session.id",
                "attributes.traceloop.association.properties.session_id",
            ),
            "model": ("attributes.gen_ai.response.model", "attributes.gen_ai.request.model"),
            "metadata.name": "name",
            "metadata.agent": "attributes.gen_ai.agent.name",
        },
    )
    counts = {name: count for name, count in _counts(attributes).items() if read_usage({name: count}) is not None}
    if counts:
        fields["usage"] = Found(counts, "$.attributes.gen_ai.usage", "recorded")
    messages = _with_system(_messages(attributes, _objects(value.get("events"))), attributes.get(_INSTRUCTIONS))
    return {**fields, **_times(value), **messages}


def _counts(attributes: JsonObject) -> dict[str, JsonValue]:
    """Return the token counts of a span, not yet checked."""
    counts = {
        "input_tokens": _first_value(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "output_tokens": _first_value(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    }
    return {name: count for name, count in counts.items() if count is not None}


def _count_notes(attributes: JsonObject) -> tuple[str, ...]:
    return tuple(
        f"$.attributes.gen_ai.usage.{name} is not a whole number of tokens: {count!r}"
        for name, count in _counts(attributes).items()
        if read_usage({name: count}) is None
    )


def _messages(attributes: JsonObject, events: Sequence[JsonObject]) -> dict[str, Found]:
    """Return the prompt and the response, or all messages, from the first known form in the span."""
    for key in ("pydantic_ai.all_messages", "all_messages_events"):
        if (messages := _message_list(attributes.get(key))) is not None:
            return {"messages": Found(_conversation(messages), f"$.attributes.{key}", "recorded")}
    made: dict[str, Found] = {}
    nested = nested_attributes({key: item for key, item in attributes.items() if key.startswith(_INDEXED)})
    inner = nested.get("gen_ai") if isinstance(nested, Mapping) else None
    indexed: JsonObject = inner if isinstance(inner, Mapping) else {}
    for name, keys in _MESSAGE_KEYS.items():
        for key in keys:
            raw = indexed.get(key.removeprefix("gen_ai.")) if key in _INDEXED else attributes.get(key)
            if raw in (None, "", []):
                continue
            messages = _message_list(raw)
            value = _conversation(messages) if messages is not None else _unwrapped_entity(raw)
            made[name] = Found(value, f"$.attributes.{key}", "recorded")
            break
    return {**_messages_of_events(events), **made}


def _with_system(fields: dict[str, Found], raw: JsonValue) -> dict[str, Found]:
    """Return the fields with the system instructions as the first message, unless the messages have them already.

    If the prompt is not a list of messages with roles, the instructions become metadata.
    """
    if raw in (None, "", []):
        return fields
    listed = decoded(raw) if isinstance(raw, str) else raw
    content = _content(listed) if isinstance(listed, list) else raw
    system: JsonObject = {"role": "system", "content": content}
    name = "messages" if "messages" in fields else "prompt"
    given = fields.get(name, Found([], f"$.attributes.{_INSTRUCTIONS}", "recorded"))
    value = [{"role": "user", "content": given.value}] if isinstance(given.value, str) else given.value
    if not isinstance(value, list) or not all(isinstance(each, Mapping) and "role" in each for each in value):
        return {**fields, "metadata.system_instructions": Found(content, f"$.attributes.{_INSTRUCTIONS}", "recorded")}
    if system in value:
        return fields
    return {**fields, name: replace(given, value=[system, *value])}


_INSTRUCTIONS = "gen_ai.system_instructions"
_INDEXED = ("gen_ai.prompt", "gen_ai.completion")
"""Attributes that are one key, or one key for each field of each message, such as `gen_ai.prompt.0.content`."""
_MESSAGE_KEYS = {
    "prompt": ("gen_ai.input.messages", "gen_ai.prompt", "traceloop.entity.input", "input.value"),
    "response": ("gen_ai.output.messages", "gen_ai.completion", "traceloop.entity.output", "output.value"),
}


def _messages_of_events(events: Sequence[JsonObject]) -> dict[str, Found]:
    """Return the messages in the events of older conventions.

    A span has one event for each message, or one event with the prompt and one with the answer.
    """
    prompts: list[JsonValue] = []
    answers: list[JsonValue] = []
    for event in events:
        name, body = str(event.get("name")), _attributes(event.get("attributes"))
        if name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            raw = _first_value(body, "gen_ai.prompt", "gen_ai.completion")
            listed = _message_list(raw)
            is_prompt = name.endswith("prompt")
            single = {"role": "user" if is_prompt else "assistant", "content": raw}
            (prompts if is_prompt else answers).extend(_conversation(listed) if listed is not None else [single])
        elif name == "gen_ai.choice":
            message = body.get("message")
            inner = decoded(message) if isinstance(message, str) else message
            answers += _conversation(
                [{**body, **inner} if isinstance(inner, Mapping) else {"content": message, **body}]
            )
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            prompts += _conversation([{"role": role, **body}])
    made = {"prompt": Found(prompts, "$.events", "recorded")} if prompts else {}
    return {**made, "response": Found(answers, "$.events", "recorded")} if answers else made


def _message_list(value: JsonValue) -> list[JsonValue] | None:
    """Return a list of messages, also from its JSON; None for any other value."""
    messages = decoded(value) if isinstance(value, str) else value
    is_list = isinstance(messages, list) and all(isinstance(each, Mapping) for each in messages)
    return messages if is_list and isinstance(messages, list) else None


def _unwrapped_entity(value: JsonValue) -> JsonValue:
    """Return an input or output of OpenLLMetry without the object around it."""
    if isinstance(value, str) and value.startswith('"'):
        with suppress(ValueError):
            return cast(JsonValue, json.loads(value))
    inner = decoded(value) if isinstance(value, str) else value
    while isinstance(inner, Mapping):
        for key in ("inputs", "outputs", "kwargs", "args"):
            if inner.get(key):
                inner = inner[key]
                break
        else:
            break
    if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str):
        return inner[0]
    return value if inner is None else inner


def _conversation(messages: Sequence[JsonValue]) -> list[JsonValue]:
    """Return messages with `parts` (texts, calls and results) as messages of OpenAI's API."""
    made: list[JsonValue] = []
    for message in _objects(messages):
        role = str(message.get("role") or "assistant")
        parts = _list_of(message.get("parts"))
        listed = _list_of(message.get("tool_calls"))
        calls = [*(part for part in parts if _type(part) in _CALLS), *listed]
        results = [part for part in _objects(parts) if _type(part) in _RESULTS]
        content = _content(parts) if parts else message.get("content")
        if content or calls or not results:
            made_calls: JsonObject = {"tool_calls": list(map(_call, calls))} if calls else {}
            made.append({"role": role, "content": content, **made_calls, **_call_id(message)})
        for part in results:
            result = _first_value(part, "response", "result", "content")
            content = result if isinstance(result, str) else {"result": result}
            made.append({"role": "tool", "tool_call_id": part.get("id"), "content": content})
    return made


def _call_id(message: JsonObject) -> JsonObject:
    call_id = _first_value(message, "tool_call_id", "id")
    return {"tool_call_id": call_id} if message.get("role") == "tool" and call_id is not None else {}


def _call(part: JsonValue) -> JsonValue:
    if not isinstance(part, Mapping):
        return part  # reported when the message is read
    inner = part.get("function")
    source = inner if isinstance(inner, Mapping) else part
    return {"id": part.get("id"), "tool": source.get("name"), "input": _arguments(source.get("arguments"))}


def _arguments(value: JsonValue) -> JsonValue:
    parsed = decoded(value) if isinstance(value, str) else None
    return value if parsed is None else parsed


_CALLS = ("tool_call", "function", "tool-call")
_RESULTS = ("tool_call_response", "tool_result")
_MEDIA = ("image", "audio", "video")


def _list_of(value: JsonValue) -> list[JsonValue]:
    """Return a list, also from its JSON; [] for null or an empty text, and a list of one item for any other value."""
    inner = decoded(value) if isinstance(value, str) else None
    value = value if inner is None else inner
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value in (None, "") else [value]


def _type(part: JsonValue) -> str:
    return str(part.get("type", "text")) if isinstance(part, Mapping) else "text"


def _content(parts: Sequence[JsonValue]) -> JsonValue:
    """Return parts without calls and their results, as one text if all are texts."""
    content = [_part(part) for part in parts if _type(part) not in (*_CALLS, *_RESULTS)]
    texts = [text for part in content if (text := _text_of(part)) is not None]
    return "\n".join(texts) if len(texts) == len(content) else content


def _text_of(part: JsonValue) -> str | None:
    """Return the text of a text part, None for any other part."""
    text = part
    if isinstance(part, Mapping) and _type(part) == "text":
        text = _first_value(part, "content", "text")
    return text if isinstance(text, str) else None


def _part(part: JsonValue) -> JsonValue:
    """Return a part with a known type: media by their modality, unknown types as `data-TYPE`."""
    if not isinstance(part, Mapping):
        return part
    type_ = _type(part)
    if type_ in ("uri", "blob", "file"):
        modality = part.get("modality")
        return {**part, "type": modality if modality in _MEDIA else "file"}
    return part if type_ in ("text", "reasoning") else {**part, "type": f"data-{type_}"}
