"""The chat completions API of OpenAI and Azure OpenAI."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from agentv.fake.api import (
    CREATED,
    Api,
    Finish,
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
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_FINISHES: Mapping[Finish, str] = {
    "stop": "stop",
    "tool": "tool_calls",
    "length": "length",
    "filter": "content_filter",
    "blocked": "content_filter",
}
_CODES: Mapping[int, str] = {
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
}


def _read(body: JsonObject, model: str) -> Question:
    if not as_list(body.get("messages")):
        raise refused("Missing required parameter: 'messages'.")
    turns = [_turn(message) for message in objects(body["messages"])]
    choice = body.get("tool_choice")
    return Question(
        model=model,
        turns=tuple(turns),
        tools=tuple(_tool(index, as_object(tool)) for index, tool in enumerate(as_list(body.get("tools")))),
        must_call=forced_tool(choice, as_object(as_object(choice).get("function"))),
        schema=_schema(as_object(body.get("response_format"))),
        max_tokens=as_count(body.get("max_completion_tokens", body.get("max_tokens"))),
        stream=body.get("stream") is True,
        options=as_object(body.get("stream_options")),
    )


def _turn(message: JsonObject) -> Turn:
    role = _ROLES.get(as_text(message.get("role")))
    if role is None:
        raise refused(f"Invalid value: {message.get('role')!r}. Supported values are: {', '.join(_ROLES)}.")
    return Turn(role, joined_texts(message.get("content")))


def _tool(index: int, tool: JsonObject) -> Tool:
    function = as_object(tool.get("function"))
    name = as_text(function.get("name"))
    if not name:
        raise refused(f"Missing required parameter: 'tools[{index}].function.name'.")
    return Tool(name, as_object(function.get("parameters")))


def _schema(response_format: JsonObject) -> JsonObject | None:
    if response_format.get("type") == "json_object":
        return {}
    return as_object(as_object(response_format.get("json_schema")).get("schema")) or None


def forced_tool(choice: JsonValue, function: JsonObject) -> str | None:
    """Return the tool that has to be called: "" for any tool, None if no call is required.

    `choice` is the `tool_choice` of a request; `function` is the object in it that has the name of a tool.
    """
    if choice == "required":
        return ""
    return as_text(function.get("name")) or None


def _write(question: Question, reply: Reply) -> JsonObject:
    message: dict[str, JsonValue] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.tool_uses:
        message["tool_calls"] = [_call(use) for use in reply.tool_uses]
    elif reply.finish == "stop":
        message["content"] = reply.text  # a complete reply has a text, even if it is empty
    choice: JsonObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISHES[reply.finish]}
    return {**_head(question, "chat.completion"), "choices": [choice], "usage": usage(question, reply)}


def _head(question: Question, kind: str) -> dict[str, JsonValue]:
    return {"id": f"chatcmpl-{question.digest}", "object": kind, "created": CREATED, "model": question.model}


def _call(use: ToolUse) -> JsonObject:
    return {
        "id": use.id,
        "type": "function",
        "function": {"name": use.name, "arguments": compact_json(use.arguments)},
    }


def usage(question: Question, reply: Reply) -> JsonObject:
    """Return the token counts in the form of chat completions."""
    return {
        "prompt_tokens": question.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": question.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reply.thinking_tokens},
    }


def _stream(question: Question, reply: Reply) -> Iterator[str]:
    head = _head(question, "chat.completion.chunk")
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces(reply.text)]
    for index, use in enumerate(reply.tool_uses):
        call = {**_call(use), "index": index}
        deltas.append({"tool_calls": [{**call, "function": {"name": use.name, "arguments": ""}}]})
        for piece in pieces(compact_json(use.arguments)):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for delta in deltas:
        yield event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _FINISHES[reply.finish]}]})
    if question.options.get("include_usage") is True:
        yield event({**head, "choices": [], "usage": usage(question, reply)})
    yield "data: [DONE]\n\n"


def refuse(problem: Problem) -> JsonObject:
    """Return a refusal in OpenAI's form."""
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"  # noqa: PLR2004 - server errors
    code = problem.code or _CODES.get(problem.status)
    return {"error": {"message": problem.message, "type": kind, "param": None, "code": code}}


def _report(problem: Problem) -> str:
    return event(refuse(problem))


OPENAI_CHAT = Api(name="openai-chat", read=_read, write=_write, refuse=refuse, stream=_stream, report=_report)
AZURE_CHAT = replace(OPENAI_CHAT, name="azure-chat", needed_query=("api-version",))
