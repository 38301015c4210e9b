"""The OpenAI responses API. Input and output are lists of items; a stream sends each output item as several events."""

from collections.abc import Iterator, Mapping
from itertools import count

from msgspec.structs import replace

from agentv.fake.api import (
    CREATED,
    Api,
    Problem,
    Question,
    Reply,
    Role,
    Tool,
    ToolUse,
    Turn,
    as_count,
    as_list,
    as_object,
    as_text,
    event,
    joined_texts,
    objects,
    pieces,
    refused,
)
from agentv.fake.openai_chat import forced_tool, refuse
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def _read(body: JsonObject, model: str) -> Question:
    given = body.get("input")
    if not given:
        raise refused("Missing required parameter: 'input'.")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
    instructions = as_text(body.get("instructions"))
    turns = [turn for item in items for turn in _turns(item)]
    choice = body.get("tool_choice")
    return Question(
        model=model,
        turns=((Turn("system", instructions),) if instructions else ()) + tuple(turns),
        tools=tuple(_tools(body)),
        must_call=forced_tool(choice, as_object(choice)),
        schema=_schema(as_object(as_object(body.get("text")).get("format"))),
        max_tokens=as_count(body.get("max_output_tokens")),
        stream=body.get("stream") is True,
    )


def _turns(item: JsonObject) -> list[Turn]:
    """Return a list with the turn that an item of the input makes: none for tool calls and reasoning.

    Raises RefusedError for a message with an unknown role.
    """
    kind = as_text(item.get("type")) or "message"
    if kind.endswith("_output"):
        output = item.get("output")
        return [Turn("tool", joined_texts(output) or compact_json(output))]
    if kind != "message":
        return []
    role = _ROLES.get(as_text(item.get("role")))
    if role is None:
        raise refused(f"Invalid value: {item.get('role')!r}. Supported values are: {', '.join(_ROLES)}.")
    return [Turn(role, joined_texts(item.get("content")))]


def _tools(body: JsonObject) -> Iterator[Tool]:
    for index, tool in enumerate(map(as_object, as_list(body.get("tools")))):
        name, kind = as_text(tool.get("name")), tool.get("type")
        if kind in ("function", "custom") and not name:
            raise refused(f"Missing required parameter: 'tools[{index}].name'.")
        if name:
            yield Tool(name, as_object(tool.get("parameters")), custom=kind == "custom")


def _schema(text_format: JsonObject) -> JsonObject | None:
    return {} if text_format.get("type") == "json_object" else as_object(text_format.get("schema")) or None


def _items(question: Question, reply: Reply) -> list[JsonObject]:
    items: list[JsonObject] = []
    if reply.text or not reply.tool_uses:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": f"msg_{question.digest}", "status": "completed", "role": "assistant"}
        items.append({**message, "content": [part] if reply.text or reply.finish == "stop" else []})
    return items + [_call(use) for use in reply.tool_uses]


def _call(use: ToolUse) -> JsonObject:
    common: JsonObject = {"call_id": use.id, "name": use.name, "status": "completed"}
    if use.custom:
        text = as_text(use.arguments.get("input"))
        return {"type": "custom_tool_call", "id": f"ctc_{use.id}", **common, "input": text}
    return {"type": "function_call", "id": f"fc_{use.id}", **common, "arguments": compact_json(use.arguments)}


def _write(question: Question, reply: Reply) -> JsonObject:
    reasons = {"length": "max_output_tokens", "filter": "content_filter", "blocked": "content_filter"}
    reason = reasons.get(reply.finish)
    ended: JsonObject = {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _items(question, reply),
        "usage": {
            "input_tokens": question.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.thinking_tokens},
            "total_tokens": question.input_tokens + reply.output_tokens,
        },
    }
    return {**_response_in_progress(question), **ended}


def _response_in_progress(question: Question) -> JsonObject:
    return {
        "id": f"resp_{question.digest}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": question.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def _stream(question: Question, reply: Reply) -> Iterator[str]:
    numbers = count()
    done = _write(question, reply)
    events: list[JsonObject] = [
        {"type": "response.created", "response": _response_in_progress(question)},
        {"type": "response.in_progress", "response": _response_in_progress(question)},
    ]
    for index, item in enumerate(_items(question, reply)):
        events += [{**each, "output_index": index} for each in _item_events(item)]
    events.append({"type": f"response.{as_text(done['status'])}", "response": done})
    for each in events:
        yield event({**each, "sequence_number": next(numbers)}, as_text(each["type"]))


def _item_events(item: JsonObject) -> Iterator[JsonObject]:
    kind = as_text(item["type"])
    field = {"message": "content", "function_call": "arguments", "custom_tool_call": "input"}[kind]
    empty: JsonValue = [] if kind == "message" else ""
    yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", field: empty}}
    if kind == "message":
        for index, part in enumerate(objects(item["content"])):
            yield from ({**each, "item_id": item["id"], "content_index": index} for each in _part_events(part))
    else:
        name, text = f"response.{kind}_{field}", as_text(item[field])
        for piece in pieces(text):
            yield {"type": f"{name}.delta", "item_id": item["id"], "delta": piece}
        yield {"type": f"{name}.done", "item_id": item["id"], field: text}
    yield {"type": "response.output_item.done", "item": item}


def _part_events(part: JsonObject) -> Iterator[JsonObject]:
    text = as_text(part["text"])
    yield {"type": "response.content_part.added", "part": {**part, "text": ""}}
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", "part": part}


def _report(problem: Problem) -> str:
    error = {"type": "error", "code": "server_error", "message": problem.message, "param": None}
    return event({**error, "sequence_number": 0}, "error")


OPENAI_RESPONSES = Api(name="openai-responses", read=_read, write=_write, refuse=refuse, stream=_stream, report=_report)
AZURE_RESPONSES = replace(OPENAI_RESPONSES, name="azure-responses", needed_query=("api-version",))
