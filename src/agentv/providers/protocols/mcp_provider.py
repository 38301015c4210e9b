"""`mcp`: a tool of an MCP server, called once for each case, or the list of its tools."""

import asyncio
import base64
import binascii
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct

from agentv.execution.cancelled_calls import attach_call
from agentv.providers.apis.response_body import MAX_BODY_BYTES
from agentv.providers.local.http_template import value_of
from agentv.providers.protocols.mcp_schemas import checked, json_type
from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.types.errors import MissingExtraError, nearest
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, Message, Part, TextPart, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

MAX_QUOTED = 2_000
"""The maximum number of characters of a server's words in the message of a failure."""

_RECORDED = ("content", "structuredContent", "isError")
"""The keys of a result that are stored; all other keys belong to the protocol."""

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
        raise _bad_request(f"the question is not JSON at {where} ({error.msg}); expected {expected}") from None
    except RecursionError:
        raise _bad_request("the question is nested too deeply") from None
    except ValueError:  # Python reads integers of at most 4,300 digits
        raise _bad_request(f"the question has a number that is too long; expected {expected}") from None
    if not isinstance(value, dict):
        raise _bad_request(f"the question is a JSON {json_type(value)}; expected {expected}")
    if tool is not None:
        return ToolRequest(tool, value)
    unknown = [key for key in value if key not in ("tool", "name", "arguments", "args")]
    if unknown:
        raise _bad_request(f"the question has the unknown key {unknown[0]!r}; expected {expected}")
    for key, alias in (("tool", "name"), ("arguments", "args")):
        if key in value and alias in value:
            raise _bad_request(f"the question has both {key!r} and {alias!r}; expected {expected}")
    named, arguments = value.get("tool", value.get("name")), value.get("arguments", value.get("args"))
    if not isinstance(named, str) or not named:
        raise _bad_request(f"the question has no `tool` with the name of a tool; expected {expected}")
    if arguments is not None and not isinstance(arguments, dict):
        raise _bad_request(f"`arguments` of the question is a JSON {json_type(arguments)}; expected an object")
    return ToolRequest(named, arguments or {})


def _bad_request(message: str) -> ProviderError:
    return ProviderError(Failure("bad_request", message))


def read_result(request: ToolRequest, result: JsonObject, *, wants_structured: bool) -> ProviderResponse:
    """Return the answer in a tool's result: its text, else its structured content.

    The call is recorded with the result; media are recorded by type, size and digest. With `wants_structured`, the
    answer is the structured content. Raises ProviderError if that is missing and the result is not an error.
    """
    content = [_recorded(item) for item in _objects(result.get("content"))]
    recorded: dict[str, JsonValue] = {key: result[key] for key in _RECORDED if key in result}
    recorded["content"] = list(content)
    has_structured = "structuredContent" in result
    is_error = result.get("isError") is True
    if wants_structured and not has_structured and not is_error:
        message = f"tool {request.tool!r} returned no structured content; remove `answer: structured`"
        raise ProviderError(Failure("unexpected_shape", message), partial=_response(request, recorded, content, ""))
    data = compact_json(result.get("structuredContent")) if has_structured else ""
    if wants_structured and has_structured:
        return _response(request, recorded, content, data)
    has_text = any(item.get("type") == "text" or "text" in _resource(item) for item in content)
    text = data if has_structured and not has_text else "\n".join(map(_item_as_text, content))
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
    """Return a content item with the size and digest of a medium instead of its bytes."""
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


def _item_as_text(item: JsonObject) -> str:
    """Return a content item as a line of the answer; a medium is shown by its type, so that the line is never empty."""
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


def tool_error_text(response: ProviderResponse, tool: str) -> str:
    """Return the sentence about a result that the tool marked as an error."""
    details = f": {response.text[:MAX_QUOTED]}" if response.text.strip() else " without a text"
    return f"tool {tool!r} reported an error{details}"


if TYPE_CHECKING:  # the SDK takes a second to import, and is an extra
    from pydantic import BaseModel

    from agentv.providers.protocols.mcp_session import McpSession, McpSessions, ServerCommand

T = TypeVar("T")

MAX_PAGES = 1_000
"""The maximum number of pages of a list of tools."""


class McpProvider:
    """Calls a tool of the server with the arguments of a case.

    One session serves the whole run, or each case has its own (`session`).
    """

    kind = "mcp"
    keeps_deadlines = True

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        if find_spec("mcp") is None:
            raise MissingExtraError("provider mcp", "mcp")
        self._target = target
        self._shared = tools.shared
        self._settings = cast(McpSettings, target.settings)
        self._tool = self._settings.tool_template()
        self._arguments = self._settings.arguments_template()
        self._sessions: McpSessions | None = None

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the answer of the server to one case. A ProviderError holds the call that failed in `partial`."""
        timeout_s = request.timeout_s or self._target.try_timeout_s
        if self._settings.list:
            return await self._list(timeout_s)
        return await self._call(self._tool_request(request), timeout_s)

    async def healthcheck(self) -> None:
        """Connect, and check that a fixed tool exists. Raises ProviderError of kind `healthcheck`."""
        settings = self._settings
        try:
            tools = await self._with_session(self._target.try_timeout_s, _list_tools)
        except ProviderError as error:
            raise ProviderError(_unhealthy(self._target.name, error.failure.message)) from None
        names = [str(tool.get("name")) for tool in tools]
        if self._tool is not None and not self._tool.names and settings.tool not in names:
            near = nearest(settings.tool or "", names)
            hint = f" Did you mean {near!r}?" if near else ""
            message = f"the server has no tool {settings.tool!r}; it has: {', '.join(names) or 'none'}.{hint}"
            raise ProviderError(_unhealthy(self._target.name, message))

    async def aclose(self) -> None:
        """End the server, or the connection to it."""
        if self._sessions is not None:
            await self._sessions.aclose()

    def _tool_request(self, request: ProviderRequest) -> ToolRequest:
        def find(name: str) -> JsonValue:
            return value_of(request, name)

        tool = None if self._tool is None else str(json.loads(self._tool.fill(find))[0])
        if tool is None or self._arguments is None:
            return parse_question(request.question, tool)
        return ToolRequest(tool, json.loads(self._arguments.fill(find)))

    async def _list(self, timeout_s: float) -> ProviderResponse:
        ends_at = time.monotonic() + timeout_s
        tools = await self._with_session(timeout_s, _list_tools)
        problems = await self._checked({"tools": tools}, "the server's list of tools", ends_at=ends_at)
        listed: JsonObject = {"tools": tools, **({"problems": problems} if problems else {})}
        response = ProviderResponse(compact_json(listed), request={"list": "tools"})
        if problems and not self._settings.judge_errors:
            message = f"the server's list of tools is wrong: {'; '.join(problems)[:MAX_QUOTED]}"
            raise ProviderError(Failure("malformed_reply", message), partial=response)
        return response

    async def _call(self, call: ToolRequest, timeout_s: float) -> ProviderResponse:
        ends_at = time.monotonic() + timeout_s
        unanswered = ProviderResponse("", request=call.to_json())
        try:
            result, schema = await self._with_session(timeout_s, partial(_result_and_schema, call))
        except ProviderError as error:
            raise ProviderError(error.failure, partial=unanswered) from None
        except asyncio.CancelledError as error:
            attach_call(error, unanswered)
            raise
        response = read_result(call, result, wants_structured=self._settings.answer == "structured")
        try:
            await self._check_result(call.tool, result, schema, ends_at=ends_at)
        except ProviderError as error:
            raise ProviderError(error.failure, partial=response) from None
        if result.get("isError") and not self._settings.judge_errors:
            raise ProviderError(Failure("target_exit", tool_error_text(response, call.tool)), partial=response)
        return response

    async def _check_result(self, tool: str, result: JsonObject, schema: JsonValue, *, ends_at: float) -> None:
        """Raise ProviderError unless the structured content of a result matches the tool's output schema."""
        if schema is None:
            return
        if "structuredContent" not in result:
            message = f"tool {tool!r} has an outputSchema, but its result has no structured content"
            raise ProviderError(Failure("malformed_reply", message))
        payload: JsonObject = {"schema": schema, "value": result["structuredContent"]}
        subject = f"the structured content of tool {tool!r} and its outputSchema"
        if problems := await self._checked(payload, subject, ends_at=ends_at):
            message = f"the structured content of tool {tool!r} does not match its outputSchema: {'; '.join(problems)}"
            raise ProviderError(Failure("malformed_reply", message))

    async def _checked(self, payload: JsonObject, subject: str, *, ends_at: float) -> list[str]:
        timeout_s = max(0.0, ends_at - time.monotonic())
        return await checked(payload, self._shared, subject=subject, timeout_s=timeout_s)

    async def _with_session(self, timeout_s: float, work: "Callable[[McpSession], Awaitable[T]]") -> T:
        """Call `work` with a session. Raises ProviderError for every failure."""
        from agentv.providers.protocols.mcp_session import failure_of, timeout_failure  # noqa: PLC0415 - imports the SDK

        async with self._session() as session:
            stderr_start = 0 if session.process is None else session.process.error_bytes
            try:
                async with asyncio.timeout(timeout_s):
                    return await work(session)
            except TimeoutError:
                # The server may be stuck: the next call starts a new one.
                session.is_retired = True
                failure = timeout_failure(session, timeout_s, stderr_start=stderr_start)
            except Exception as error:  # noqa: BLE001 - whatever the SDK or the server raised is a failure of the call
                failure = await failure_of(error, session, self._settings, stderr_start=stderr_start)
        raise ProviderError(failure)

    @asynccontextmanager
    async def _session(self) -> "AsyncIterator[McpSession]":
        if self._sessions is None:
            from agentv.providers.protocols.mcp_session import McpSessions  # noqa: PLC0415 - imports the SDK

            settings = self._settings
            server = settings.url or self._server_command()
            self._sessions = McpSessions(server, dict(settings.headers), is_shared=settings.session == "run")
        async with self._sessions.use() as session:
            yield session

    def _server_command(self) -> "ServerCommand":
        from agentv.providers.protocols.mcp_session import ServerCommand  # noqa: PLC0415 - imports the SDK

        settings = self._settings
        return ServerCommand(
            argv=(settings.command or "", *settings.args),
            cwd=str(Path(self._target.base_dir, settings.cwd or ".").absolute()),
            env=settings.env,
            inherit=settings.env_allow,
        )


async def _result_and_schema(call: ToolRequest, session: "McpSession") -> tuple[JsonObject, JsonValue]:
    """Return the result of a tool, and the output schema that it must match, if any."""
    client = await session.client()
    result = _json(await client.call_tool(call.tool, dict(call.arguments)))
    if result.get("isError"):
        return result, None
    if call.tool not in session.output_schemas:
        listed = {str(tool.get("name")): tool.get("outputSchema") for tool in await _list_tools(session)}
        session.output_schemas.update({call.tool: None, **listed})
    return result, session.output_schemas[call.tool]


async def _list_tools(session: "McpSession") -> list[JsonObject]:
    client = await session.client()
    tools: list[JsonObject] = []
    cursor: str | None = None
    size = 0
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        listed = [_json(tool) for tool in page.tools]
        size += len(compact_json(listed))
        if size > MAX_BODY_BYTES:
            limit = f"{MAX_BODY_BYTES / 2**20:g} MiB"
            raise ProviderError(Failure("too_large", f"the list of tools is larger than {limit}; it was discarded"))
        tools += listed
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise ProviderError(Failure("malformed_reply", f"the list of tools has more than {MAX_PAGES} pages"))


def _json(model: "BaseModel") -> JsonObject:
    return cast(JsonObject, model.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _unhealthy(target: str, why: str) -> Failure:
    return Failure("healthcheck", f"the healthcheck of target {target!r} failed: {why}", stage="healthcheck")
