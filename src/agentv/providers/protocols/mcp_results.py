"""What an MCP server returned, as JSON on the wire, and the answers made of it. Pure."""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for
from msgspec import Struct

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, Message, Part, TextPart, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.provider import ProviderResponse

_RECORDED = ("content", "structuredContent", "isError")
"""The keys of a result that are stored; others are those of the protocol."""

_EXAMPLE = '{"tool": "add", "arguments": {"a": 1}}'


class ToolRequest(Struct, frozen=True):
    """One call of a tool."""

    tool: str
    arguments: JsonObject

    def to_json(self) -> JsonObject:
        """Return the call as it is stored."""
        return {"tool": self.tool, "arguments": self.arguments}


def parse_question(question: str, tool: str | None) -> ToolRequest:
    """Return the call that a question holds: the arguments of `tool`, or tool and arguments.

    Raises ProviderError with the place of the error.
    """
    expected = f"an object with the arguments of {tool!r}" if tool else f"an object such as {_EXAMPLE}"
    try:
        value = json.loads(question)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _bad(f"the question is not JSON at {where} ({error.msg}); expected {expected}") from None
    except RecursionError:
        raise _bad("the question is nested too deeply") from None
    except ValueError:  # Python reads integers of at most 4,300 digits
        raise _bad(f"the question has a number that is too long; expected {expected}") from None
    if not isinstance(value, dict):
        raise _bad(f"the question is a JSON {_kind(value)}; expected {expected}")
    if tool is not None:
        return ToolRequest(tool, value)
    unknown = [key for key in value if key not in ("tool", "name", "arguments", "args")]
    if unknown:
        raise _bad(f"the question has the unknown key {unknown[0]!r}; expected {expected}")
    for both in (("tool", "name"), ("arguments", "args")):
        if value.keys() >= set(both):
            raise _bad(f"the question has both {both[0]!r} and {both[1]!r}; expected {expected}")
    named, arguments = value.get("tool", value.get("name")), value.get("arguments", value.get("args"))
    if not isinstance(named, str) or not named:
        raise _bad(f"the question has no `tool` with the name of a tool; expected {expected}")
    if arguments is not None and not isinstance(arguments, dict):
        raise _bad(f"`arguments` of the question is a JSON {_kind(arguments)}; expected an object")
    return ToolRequest(named, arguments or {})


def _bad(message: str) -> ProviderError:
    return ProviderError(Failure("bad_request", message))


def _kind(value: object) -> str:
    kinds = {list: "list", str: "string", bool: "boolean", dict: "object"}
    return "null" if value is None else kinds.get(type(value), "number")


def read_result(request: ToolRequest, result: JsonObject, *, structured: bool) -> ProviderResponse:
    """Return the answer of a tool's result: its text, else its structured content; `structured` turns that around.

    The call is recorded with the result; of media only type, size and digest are. Raises ProviderError when structured
    content is required and missing.
    """
    content = [_recorded(item) for item in _objects(result.get("content"))]
    recorded: dict[str, JsonValue] = {key: result[key] for key in _RECORDED if key in result}
    recorded["content"] = list(content)
    has_structured = "structuredContent" in result
    is_error = result.get("isError") is True
    if structured and not has_structured and not is_error:
        message = f"tool {request.tool!r} returned no structured content; remove `answer: structured`"
        raise ProviderError(Failure("unexpected_shape", message), partial=_response(request, recorded, content, ""))
    data = compact_json(result.get("structuredContent")) if has_structured else ""
    if structured and has_structured:
        return _response(request, recorded, content, data)
    is_worded = any(item.get("type") == "text" or "text" in _resource(item) for item in content)
    text = data if has_structured and not is_worded else "\n".join(map(_shown, content))
    return _response(request, recorded, content, text)


def _response(request: ToolRequest, recorded: JsonObject, content: Sequence[JsonObject], text: str) -> ProviderResponse:
    call = ToolCall(request.tool, request.arguments, output=recorded)
    media = [item for item in content if item.get("type") != "text"]
    parts: tuple[Part, ...] = tuple(
        TextPart(str(item.get("text", ""))) if item.get("type") == "text" else _data_part(item) for item in content
    )
    answer = Message("assistant", parts if media else text)
    return ProviderResponse(
        text, output_messages=(Message("assistant", tool_calls=(call,)), answer), request=request.to_json()
    )


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _resource(item: JsonObject) -> JsonObject:
    resource = item.get("resource")
    return resource if isinstance(resource, Mapping) else {}


def _data_part(item: JsonObject) -> DataPart:
    return DataPart(str(item.get("type")), {key: value for key, value in item.items() if key != "type"})


def _recorded(item: JsonObject) -> JsonObject:
    """Return a content without the bytes of a medium, of which size and digest are recorded."""
    if item.get("type") == "resource" and isinstance(_resource(item).get("blob"), str):
        return {**item, "resource": _without_bytes(_resource(item), "blob")}
    return _without_bytes(item, "data") if isinstance(item.get("data"), str) else item


def _without_bytes(item: JsonObject, key: str) -> JsonObject:
    rest = {name: value for name, value in item.items() if name != key}
    try:
        content = base64.b64decode(str(item[key]), validate=True)
    except (binascii.Error, ValueError):
        return {**rest, "invalid_base64": str(item[key])[:100]}
    return {**rest, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _shown(item: JsonObject) -> str:
    """Return a content as a line of the answer; a medium is named with its type, so that it is never empty."""
    if item.get("type") == "text":
        return str(item.get("text", ""))
    resource = _resource(item)
    if "text" in resource:
        return str(resource["text"])
    details = {**item, **resource}
    size = details.get("bytes")
    about = [
        str(details[key]) for key in ("name", "uri", "mimeType") if isinstance(details.get(key), str) and details[key]
    ]
    if isinstance(size, int):
        about.append(f"{size} bytes")
    return f"[{item.get('type')}: {', '.join(about)}]" if about else f"[{item.get('type')}]"


def text_of_error(response: ProviderResponse, tool: str) -> str:
    """Return the sentence about a result that the tool marked as an error."""
    said = f": {response.text}" if response.text.strip() else " without a text"
    return f"tool {tool!r} reported an error{said}"


def read_tools(tools: Sequence[JsonObject]) -> tuple[ProviderResponse, tuple[str, ...]]:
    """Return the answer that lists the tools of a server, and the problems of their names and schemas."""
    problems = tuple(_problems(tools))
    listed: JsonObject = {"tools": list(tools), **({"problems": list(problems)} if problems else {})}
    response = ProviderResponse(compact_json(listed), request={"list": "tools"})
    return response, problems


def _problems(tools: Sequence[JsonObject]) -> Iterator[str]:
    seen: set[str] = set()
    for tool in tools:
        name = str(tool.get("name"))
        if name in seen:
            yield f"tool {name!r} is listed twice"
        seen.add(name)
        for key in ("inputSchema", "outputSchema"):
            schema = tool.get(key)
            problem = None if schema is None and key == "outputSchema" else schema_problem(schema)
            if problem:
                yield f"tool {name!r}: {key} {problem}"


def schema_problem(schema: JsonValue) -> str | None:
    """Return why a tool's schema cannot be used; None if it is a valid JSON Schema of an object."""
    if not isinstance(schema, Mapping):
        return "is missing" if schema is None else f"is a JSON {_kind(schema)}, not an object"
    if schema.get("type") != "object":
        return f'has type {compact_json(schema.get("type"))}; arguments and results of a tool have type "object"'
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(dict(schema))
    except SchemaError as error:
        at = "/".join(map(str, error.absolute_path))
        return f"is not a valid JSON Schema{f' at {at}' if at else ''}: {error.message}"
    except RecursionError:
        return "is nested too deeply"
    return None
