"""Connections to one MCP server, and every way in which a call can fail, as a Failure.

Each connection is in a task of its own: who enters the SDK's scopes must leave them.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import jsonrpc
from msgspec.structs import replace
from pydantic import ValidationError

from agentv.execution.processes.tree import finish
from agentv.providers.agents.commands import start_failure
from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.providers.protocols.mcp_stdio import ServerCommand, ServerProcess
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure, FailureKind
from agentv.version import __version__

for _name in ("mcp", "client"):  # what they log, a failure says; without a handler it would go to standard error
    logging.getLogger(_name).addHandler(logging.NullHandler())

_CONNECT_S = 30.0
_EXCERPT = 500
_CODES: Mapping[int, FailureKind] = {
    jsonrpc.INVALID_PARAMS: "bad_request",
    jsonrpc.METHOD_NOT_FOUND: "bad_request",
    jsonrpc.INVALID_REQUEST: "bad_request",
    jsonrpc.PARSE_ERROR: "bad_request",
}
_FOR_A_STATUS = ("Not Found", "Session terminated", "Server returned an error response")
"""What the SDK says of a response with an HTTP status that is an error."""
_UNREADABLE = ("Unexpected content type", "Failed to parse")
"""How the SDK begins to say that a response is not one of MCP."""
_STATUSES: Mapping[int, FailureKind] = {401: "auth", 403: "auth", 429: "rate_limited"}
_SERVER_ERRORS = 500


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


def timed_out(session: McpSession, timeout_s: float, *, start: int) -> Failure:
    """Return the failure of a call that took too long."""
    when = "" if session.users <= 1 else " after its other calls"
    what = f"; the server is ended{when}" if session.process is not None else ""
    message = f"no answer of the server within {timeout_s:g} s{what}"
    return _described(Failure("target_timeout", message), session, start)


async def failure_of(error: Exception, session: McpSession, settings: McpSettings, *, start: int) -> Failure:
    """Return the failure that an exception of a call stands for; a session that cannot go on is retired.

    `start` is how much its server had written to standard error before the call.
    """
    cause = next(_leaves(error))
    if isinstance(cause, ProviderError):
        return cause.failure
    if isinstance(cause, OSError) and session.process is not None:
        return _not_started(cause, settings, session.process.cwd)
    is_closed = isinstance(cause, MCPError) and cause.code == jsonrpc.CONNECTION_CLOSED
    if is_closed and session.process is not None:
        session.is_retired = True
        await session.close()
        return _described(_ended(session), session, start)
    return _described(_failure(cause, session), session, start)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _not_started(error: OSError, settings: McpSettings, cwd: str) -> Failure:
    argv = (settings.command or "", *settings.args)
    failure = start_failure(error, argv, Path(cwd), too_long="shorten `args`")
    if failure.kind == "target_missing" and " " in argv[0] and not settings.args:
        return replace(failure, message=f"{failure.message}; write its arguments in `args`")
    return failure


def _ended(session: McpSession) -> Failure:
    process = session.process
    if process is not None and process.is_too_large:
        return Failure("too_large", "the server sent a message of more than 32 MiB; it was ended")
    code = None if process is None else process.exit_code
    how = "" if code is None else f" by signal {-code}" if code < 0 else f" with exit code {code}"
    return Failure("target_exit", f"the server ended{how} before it answered", details={"exit_code": code})


def _failure(error: BaseException, session: McpSession) -> Failure:
    if isinstance(error, MCPError) and (status := _status_of(error, session)) is not None:
        session.is_retired = True
        kind = _STATUSES.get(status, "server_error" if status >= _SERVER_ERRORS else "bad_request")
        said = f": {session.excerpt}" if session.excerpt else ""
        return Failure(kind, f"the server answered with HTTP status {status}{said}", http_status=status)
    if isinstance(error, MCPError):
        if error.code == jsonrpc.CONNECTION_CLOSED:
            session.is_retired = True
            return Failure("transport", "the server closed the connection before it answered", retryable=False)
        if error.message.startswith(_UNREADABLE):
            return Failure("malformed_reply", f"the server's response cannot be read: {error.message.splitlines()[0]}")
        kind = _CODES.get(error.code, "server_error")
        return Failure(kind, f"the server refused the request: {error.message} (code {error.code})")
    if isinstance(error, httpx2.TransportError):
        session.is_retired = True
        host = urlsplit(str(error.request.url)).netloc.rpartition("@")[2]
        is_new = isinstance(error, httpx2.ConnectError)
        what = f"no connection to {host}" if is_new else f"the connection to {host} was lost"
        return Failure("transport", f"{what} ({error})", retryable=is_new)
    if isinstance(error, ValidationError):
        return Failure("unexpected_shape", f"the server's result is not one of MCP: {_first_problem(error)}")
    return Failure("malformed_reply", str(error) or type(error).__name__)


def _status_of(error: MCPError, session: McpSession) -> int | None:
    """Return the HTTP status that an error stands for, and forget it; None for an error of the protocol."""
    if error.message not in _FOR_A_STATUS and session.status not in _STATUSES:
        return None
    status, session.status = session.status, None
    return status


def _first_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    # The alternatives of a union are listed one by one; the deepest has the place.
    problem = max(problems, key=lambda each: len(each["loc"]))
    at = ".".join(str(part) for part in problem["loc"])
    return f"{at}: {problem['msg']}, got {str(problem['input'])[:200]!r}"


def _described(failure: Failure, session: McpSession, start: int) -> Failure:
    """Add to a failure what the server wrote to standard error, and to standard output where only messages may be."""
    process = session.process
    if process is None:
        return failure
    message = failure.message
    if process.stray_lines:
        message += (
            f"; it wrote {process.stray_lines} lines to standard output that are not MCP messages, the first: "
            f"{process.stray!r} (a server must write its logs to standard error)"
        )
    if errors := process.errors_since(start):
        message += f"; its standard error ends with:\n{errors}"
    return replace(failure, message=message)
