"""`mcp`: a tool of an MCP server, called once for each case, or the list of its tools."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from agentv.execution.cancelled_calls import keep_call
from agentv.providers.local.http_template import value_of
from agentv.providers.protocols.mcp_results import (
    ToolRequest,
    parse_question,
    read_result,
    read_tools,
    text_of_error,
)
from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.types.errors import MissingExtraError, ProviderError, nearest
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:  # the SDK takes a second to import, and is an extra
    from mcp import Client

    from agentv.providers.protocols.mcp_session import McpSession, McpSessions
    from agentv.providers.protocols.mcp_stdio import ServerCommand

T = TypeVar("T")

MAX_PAGES = 1_000
"""The most pages of a list of tools."""


class McpProvider:
    """Calls a tool of the server with the arguments of a case.

    One session serves the whole run, or each case has its own (`session`).
    """

    kind = "mcp"
    keeps_deadlines = True

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:  # noqa: ARG002 - the factory's signature
        if find_spec("mcp") is None:
            raise MissingExtraError("provider mcp", "mcp")
        self._target = target
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
        """Connect, and look for the tool if it is the same in all cases. Raises ProviderError of kind `healthcheck`."""
        settings = self._settings
        try:
            tools = await self._connected(self._target.try_timeout_s, _list_tools)
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
        response, problems = read_tools(await self._connected(timeout_s, _list_tools))
        if problems and not self._settings.judge_errors:
            message = f"the server's list of tools is wrong: {'; '.join(problems)}"
            raise ProviderError(Failure("malformed_reply", message), partial=response)
        return response

    async def _call(self, call: ToolRequest, timeout_s: float) -> ProviderResponse:
        async def work(client: "Client") -> JsonObject:
            result = await client.call_tool(call.tool, dict(call.arguments))
            return cast(JsonObject, result.model_dump(mode="json", by_alias=True, exclude_unset=True))

        made = ProviderResponse("", request=call.to_json())
        try:
            result = await self._connected(timeout_s, work)
        except ProviderError as error:
            raise ProviderError(error.failure, partial=made) from None
        except asyncio.CancelledError as error:
            keep_call(error, made)
            raise
        response = read_result(call, result, structured=self._settings.answer == "structured")
        if result.get("isError") and not self._settings.judge_errors:
            raise ProviderError(Failure("target_exit", text_of_error(response, call.tool)), partial=response)
        return response

    async def _connected(self, timeout_s: float, work: "Callable[[Client], Awaitable[T]]") -> T:
        """Do work with the client of a session. Raises ProviderError for everything that goes wrong."""
        from agentv.providers.protocols.mcp_session import failure_of, timed_out  # noqa: PLC0415 - imports the SDK

        async with self._session() as session:
            start = 0 if session.process is None else session.process.error_bytes
            try:
                async with asyncio.timeout(timeout_s):
                    return await work(await session.client())
            except TimeoutError:
                # The server may be stuck: the next call gets a fresh one.
                session.is_retired = True
                failure = timed_out(session, timeout_s, start=start)
            except Exception as error:  # noqa: BLE001 - whatever the SDK or the server raised is a failure of the call
                failure = await failure_of(error, session, self._settings, start=start)
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
        from agentv.providers.protocols.mcp_stdio import ServerCommand  # noqa: PLC0415 - imports the SDK

        settings = self._settings
        return ServerCommand(
            argv=(settings.command or "", *settings.args),
            cwd=str(Path(self._target.base_dir, settings.cwd or ".").absolute()),
            env=settings.env,
            inherit=settings.env_allow,
        )


async def _list_tools(client: "Client") -> list[JsonObject]:
    tools: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += (
            cast(JsonObject, tool.model_dump(mode="json", by_alias=True, exclude_unset=True)) for tool in page.tools
        )
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise ProviderError(Failure("malformed_reply", f"the list of tools has more than {MAX_PAGES} pages"))


def _unhealthy(target: str, why: str) -> Failure:
    return Failure("healthcheck", f"the healthcheck of target {target!r} failed: {why}", stage="healthcheck")
