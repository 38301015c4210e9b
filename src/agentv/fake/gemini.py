"""The Gemini generateContent API. Requests may have keys in camelCase (JSON) or snake_case (protobuf)."""

import json
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from agentv.fake.api import (
    Api,
    Finish,
    Problem,
    Question,
    Reply,
    Tool,
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

_FINISHES: Mapping[Finish, str] = {
    "stop": "STOP",
    "tool": "STOP",
    "length": "MAX_TOKENS",
    "filter": "SAFETY",
    "blocked": "SAFETY",
}
_STATUSES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    504: "DEADLINE_EXCEEDED",
}


def _field(value: JsonObject, name: str) -> JsonValue:
    """Return the field with this name in camelCase, or else in snake_case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return value.get(name, value.get(snake))


def _read(body: JsonObject, model: str) -> Question:
    if not as_list(body.get("contents")):
        raise refused("* GenerateContentRequest.contents: contents is not specified")
    system = joined_texts(as_object(_field(body, "systemInstruction")).get("parts"))
    config = as_object(_field(body, "generationConfig"))
    tools = [item for tool in objects(body.get("tools")) for item in objects(_field(tool, "functionDeclarations"))]
    thinking = as_object(_field(config, "thinkingConfig"))
    return Question(
        model=model,
        turns=((Turn("system", system),) if system else ())
        + tuple(turn for content in objects(body["contents"]) for turn in _turns(content)),
        tools=tuple(Tool(as_text(tool.get("name")), _parameters(tool)) for tool in tools),
        must_call=_forced_tool(as_object(_field(as_object(_field(body, "toolConfig")), "functionCallingConfig"))),
        schema=_schema(config),
        max_tokens=as_count(_field(config, "maxOutputTokens")),
        thinks=bool(as_count(_field(thinking, "thinkingBudget"))),
    )


def _read_streamed(body: JsonObject, model: str) -> Question:
    return replace(_read(body, model), stream=True)


def _turns(content: JsonObject) -> list[Turn]:
    role = as_text(content.get("role")) or "user"
    if role not in ("user", "model", "function"):
        raise refused("Please use a valid role: user, model.")
    parts = objects(content.get("parts"))
    responses = [as_object(_field(part, "functionResponse")) for part in parts]
    results = [Turn("tool", json.dumps(response.get("response"))) for response in responses if response]
    text = joined_texts(list(parts))
    if results and not text:
        return results
    return [Turn("assistant" if role == "model" else "user", text), *results]


def _parameters(tool: JsonObject) -> JsonObject:
    return as_object(_field(tool, "parametersJsonSchema")) or as_object(tool.get("parameters"))


def _forced_tool(config: JsonObject) -> str | None:
    """Return the tool that has to be called: "" for any tool, None if no call is required."""
    if config.get("mode") != "ANY":
        return None
    return as_text(next(iter(as_list(_field(config, "allowedFunctionNames"))), None))


def _schema(config: JsonObject) -> JsonObject | None:
    if _field(config, "responseMimeType") != "application/json":
        return None
    return as_object(_field(config, "responseJsonSchema")) or as_object(_field(config, "responseSchema"))


def _parts(reply: Reply) -> list[JsonObject]:
    thought: list[JsonObject] = [{"text": reply.thinking, "thought": True}] if reply.thinking else []
    text: list[JsonObject] = [{"text": reply.text}] if reply.text or reply.finish == "stop" else []
    calls: list[JsonObject] = [{"functionCall": {"name": use.name, "args": use.arguments}} for use in reply.tool_uses]
    return [*thought, *text, *calls]


def _chunk(question: Question, parts: list[JsonObject], finish: Finish | None) -> dict[str, JsonValue]:
    candidate: dict[str, JsonValue] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = _FINISHES[finish]
    return {"candidates": [candidate], "modelVersion": question.model, "responseId": question.digest}


def _usage(question: Question, reply: Reply) -> JsonObject:
    thoughts = {"thoughtsTokenCount": reply.thinking_tokens} if reply.thinking else {}
    return {
        "promptTokenCount": question.input_tokens,
        "candidatesTokenCount": reply.output_tokens - reply.thinking_tokens,
        "totalTokenCount": question.input_tokens + reply.output_tokens,
        **thoughts,
    }


def _write(question: Question, reply: Reply) -> JsonObject:
    usage = _usage(question, reply)
    if reply.finish == "blocked":
        feedback = {"blockReason": "SAFETY"}
        return {"promptFeedback": feedback, "usageMetadata": usage, "modelVersion": question.model}
    return {**_chunk(question, _parts(reply), reply.finish), "usageMetadata": usage}


def _stream(question: Question, reply: Reply) -> Iterator[str]:
    if reply.finish == "blocked":
        yield event(_write(question, reply))
        return
    parts = _parts(reply)
    for part in parts:
        for piece in pieces(as_text(part.get("text"))):
            yield event(_chunk(question, [{**part, "text": piece}], None))
    calls = [part for part in parts if "functionCall" in part]
    ended = _chunk(question, calls or [{"text": ""}], reply.finish)
    yield event({**ended, "usageMetadata": _usage(question, reply)})


def refuse(problem: Problem) -> JsonObject:
    """Return a refusal in Google's form."""
    status = _STATUSES.get(problem.status, "UNAVAILABLE")
    return {"error": {"code": problem.status, "message": problem.message, "status": status}}


def _report(problem: Problem) -> str:
    """Return an error in the form that a stream sends: plain JSON, not an event."""
    return f"{json.dumps(refuse(problem), indent=2)}\n"


def _count(question: Question, _: Reply) -> JsonObject:
    return {"totalTokens": question.input_tokens}


GEMINI = Api(
    name="gemini-content",
    read=_read,
    write=_write,
    refuse=refuse,
    stream=_stream,
    report=_report,
    refuses_blocked_prompts=False,
)
GEMINI_EVENTS = replace(GEMINI, read=_read_streamed)
GEMINI_COUNT = Api("gemini-count", _read, _count, refuse, has_reply=False, billed=False)
