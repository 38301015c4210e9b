"""Connections to one MCP server, each in a task of its own: who enters the SDK's scopes must leave them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import httpx2
from mcp import Client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from agentv.execution.processes.tree import finish
from agentv.providers.protocols.mcp_stdio import ServerCommand, ServerProcess
from agentv.version import __version__

for _name in ("mcp", "client"):  # what they log, a failure says; without a handler it would go to standard error
    logging.getLogger(_name).addHandler(logging.NullHandler())

_CONNECT_S = 30.0
_EXCERPT = 500


class McpSession:
    """One connection. `process` is None for a server at a URL, `status` its last HTTP status that was an error.

    `users` counts the calls in progress. A session that is `retired` serves no further call and is closed after the
    last of these.
    """

    def __init__(self, server: ServerCommand | str, headers: dict[str, str]) -> None:
        self.process = ServerProcess(server) if isinstance(server, ServerCommand) else None
        self.status: int | None = None
        self.excerpt = ""
        self.users = 0
        self.is_retired = False
        self._server = server
        self._headers = headers
        self._closing = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def client(self) -> Client:
        """Connect, the first time, and return the SDK's client. Raises what the connection failed with."""
        if self._task is None:
            self._task = asyncio.create_task(self._live())
        return await asyncio.shield(self._client)

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(Client(await self._transport(stack)))
                self._client.set_result(client)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - it is raised by whoever waits for the client
            if not self._client.done():
                self._client.set_exception(error)
        finally:
            self.is_retired = True
            self._client.cancel()

    async def _transport(self, stack: AsyncExitStack) -> Transport:
        if self.process is not None:
            return self.process
        http = await stack.enter_async_context(
            httpx2.AsyncClient(
                headers={"User-Agent": f"agentv/{__version__}", **self._headers},
                timeout=httpx2.Timeout(None, connect=_CONNECT_S),
                event_hooks={"response": [self._note_status]},
            )
        )
        return streamable_http_client(str(self._server), http_client=http)

    async def _note_status(self, response: httpx2.Response) -> None:
        if response.is_error and response.request.method == "POST":  # a server need not have streams (GET)
            self.status = response.status_code
            self.excerpt = (await response.aread()).decode(errors="replace")[:_EXCERPT].strip()

    async def close(self) -> None:
        """Close the connection; a server that is a process has ended afterwards."""
        self._closing.set()
        if self._task is None:
            return
        if not self._client.done():
            self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task
        if self._client.done() and not self._client.cancelled():
            self._client.exception()  # it may be that nothing waits for it any more


class McpSessions:
    """The sessions of a target: one for all calls at a time, or one for each."""

    def __init__(self, server: ServerCommand | str, headers: dict[str, str], *, is_shared: bool) -> None:
        self._server = server
        self._headers = headers
        self._is_shared = is_shared
        self._current: McpSession | None = None
        self._open: set[McpSession] = set()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[McpSession]:
        """Yield a session for one call. It is closed afterwards if it is retired and no other call uses it."""
        session = self._next()
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            if session.is_retired and self._current is session:
                self._current = None
            if not session.users and (session.is_retired or not self._is_shared):
                await finish(self._close(session))

    def _next(self) -> McpSession:
        if self._is_shared and self._current is not None and not self._current.is_retired:
            return self._current
        session = McpSession(self._server, self._headers)
        self._open.add(session)
        if self._is_shared:
            self._current = session
        return session

    async def _close(self, session: McpSession) -> None:
        await session.close()
        self._open.discard(session)

    async def aclose(self) -> None:
        """Close all sessions."""
        await asyncio.gather(*(self._close(session) for session in tuple(self._open)))
