"""Connections to one MCP server, at a URL or over the pipes of a process, and the failures of calls.

The SDK's own transport for processes is not used: agentv must end every process of a run (execution/processes), and
reports output that a server wrote to the wrong stream.

Each connection has its own task, since the SDK's cancel scopes must be entered and left by the same task.
"""

import asyncio
import logging
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc
from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from agentv.execution.processes.tree import ProcessTree, finish, start_tree
from agentv.providers.agents.commands import start_failure
from agentv.providers.apis.response_body import MAX_BODY_BYTES
from agentv.providers.apis.streamed_response import MAX_EVENT_BYTES
from agentv.providers.protocols.bounded_http import ACCEPT_ENCODING, BoundedBody, check_reply, check_values, json_rpc_id
from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonValue
from agentv.types.provider import ProviderError
from agentv.version import __version__

_STDERR_TAIL = 2_000
"""The number of characters that messages quote from the end of standard error."""

_GRACE_S = 2.0
"""The time that a server gets to end by itself once its input is closed, or to confirm the end of a session."""

_MAX_STRAY_CHARACTERS = 200

Received: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]
"""The stream of messages from the server, and the stream of messages to it."""


class ServerCommand(Struct, frozen=True):
    """The command of a server.

    `inherit` names the only variables that the server inherits besides PATH; None passes on all.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    inherit: tuple[str, ...] | None


class ServerProcess:
    """A server's process, started and ended as an asynchronous context, which yields streams for the SDK.

    `stray_lines` counts the lines on standard output that are not messages, `first_stray` is the first of them.
    `refusal` is the failure of a message that is too large; no further message is read then. `error_bytes` is the
    number of bytes that the server has written to standard error.
    """

    def __init__(self, command: ServerCommand) -> None:
        self.stray_lines = 0
        self.first_stray = ""
        self.refusal: Failure | None = None
        self._command = command
        self.error_bytes = 0
        self._errors = b""
        self._tree: ProcessTree | None = None
        self._exit_code: int | None = None
        self._messages_ended = asyncio.Event()

    @property
    def cwd(self) -> str:
        """The working folder of the server."""
        return self._command.cwd

    def errors_since(self, stderr_start: int) -> str:
        """Return the end of what the server wrote to standard error after its first `stderr_start` bytes."""
        length = min(self.error_bytes - stderr_start, len(self._errors))
        return self._errors[len(self._errors) - length :].decode(errors="replace")[-_STDERR_TAIL:].strip()

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server, known once the connection is closed.

        None if agentv was still reading messages two seconds after it closed the server's input, and ended the server.
        """
        return self._exit_code

    async def __aenter__(self) -> Streams:
        """Start the server and return the streams. Raises OSError if it cannot start, ValueError for a NUL byte."""
        command = self._command
        self._tree = start_tree(command.argv, cwd=command.cwd, env=command.env, inherit=command.inherit)
        try:
            return await self._connect(self._tree.process)
        except BaseException:
            await finish(self._tree.end())
            raise

    async def __aexit__(self, *_error: object) -> None:
        """Close the server's input, give it two seconds to end by itself, then end it and its child processes."""
        await finish(self._end())

    async def _connect(self, process: "subprocess.Popen[bytes]") -> Streams:
        loop = asyncio.get_running_loop()
        output = asyncio.StreamReader(limit=MAX_BODY_BYTES)
        errors = asyncio.StreamReader()
        self._pipes = [
            (await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(output), process.stdout))[0],
            (await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), process.stderr))[0],
        ]
        pipe, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        self._input = asyncio.StreamWriter(pipe, protocol, None, loop)
        to_sdk, read_stream = anyio.create_memory_object_stream[Received](0)
        write_stream, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (to_sdk, read_stream, write_stream, from_sdk)
        self._reading = loop.create_task(self._read(output, to_sdk))
        self._reading_errors = loop.create_task(self._read_errors(errors))
        self._tasks = [self._reading, loop.create_task(self._write(from_sdk)), self._reading_errors]
        return read_stream, write_stream

    async def _read(self, output: asyncio.StreamReader, to_sdk: MemoryObjectSendStream[Received]) -> None:
        """Pass the server's messages to the SDK until the output ends, a line is too long, or the SDK stops reading."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with to_sdk:
                while line := await self._line(output):
                    if not line.strip():
                        continue
                    try:
                        check_values(line)
                        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ProviderError as error:
                        self.refusal = error.failure
                        break
                    except ValueError:
                        self._count_stray(line)
                        continue
                    await to_sdk.send(SessionMessage(message))
        self._messages_ended.set()
        with suppress(ConnectionError):  # read on, so that the server does not block on further output
            while await output.read(2**16):
                pass

    async def _line(self, output: asyncio.StreamReader) -> bytes:
        """Return the next line; b"" at the end of the output, and for a line that is too long."""
        try:
            return await output.readline()
        except ValueError:
            limit = f"{MAX_BODY_BYTES / 2**20:g} MiB"
            self.refusal = Failure("too_large", f"a message of the server is larger than {limit}")
            return b""

    def _count_stray(self, line: bytes) -> None:
        self.stray_lines += 1
        if self.stray_lines == 1:
            self.first_stray = line.decode(errors="replace").strip()[:_MAX_STRAY_CHARACTERS]

    async def _write(self, from_sdk: MemoryObjectReceiveStream[SessionMessage]) -> None:
        with suppress(anyio.ClosedResourceError, OSError):
            async with from_sdk:
                async for message in from_sdk:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._input.write(line.encode() + b"\n")
                    await self._input.drain()

    async def _read_errors(self, errors: asyncio.StreamReader) -> None:
        while piece := await errors.read(2**16):
            self.error_bytes += len(piece)
            self._errors = (self._errors + piece)[-4 * _STDERR_TAIL :]

    async def _end(self) -> None:
        tree = self._tree
        if tree is None:
            return
        self._input.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._messages_ended.wait()
                await asyncio.shield(self._reading_errors)
        had_ended = self._messages_ended.is_set()
        await tree.end()
        self._exit_code = tree.process.returncode if had_ended else None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pipe in self._pipes:
            pipe.close()
        for stream in self._streams:
            stream.close()


for _name in ("mcp", "client"):  # the SDK logs errors that become failures; without a handler, logging prints them
    logging.getLogger(_name).addHandler(logging.NullHandler())

_CONNECT_S = 30.0
_EXCERPT = 500
_KINDS_BY_CODE: Mapping[int, FailureKind] = {
    jsonrpc.INVALID_PARAMS: "bad_request",
    jsonrpc.METHOD_NOT_FOUND: "bad_request",
    jsonrpc.INVALID_REQUEST: "bad_request",
    jsonrpc.PARSE_ERROR: "bad_request",
}
_MESSAGES_FOR_A_STATUS = ("Not Found", "Session terminated", "Server returned an error response")
"""The SDK's error messages for a response with an HTTP error status."""
_UNREADABLE_RESPONSE_STARTS = ("Unexpected content type", "Failed to parse")
"""The starts of the SDK's error messages for a response that is not an MCP message."""
_KINDS_BY_STATUS: Mapping[int, FailureKind] = {401: "auth", 403: "auth", 429: "rate_limited"}
_SERVER_ERRORS = 500


class McpSession:
    """One connection. `process` is None for a server at a URL.

    `status` is the last HTTP error status of a server at a URL, None once a failure has reported it; `excerpt` is the
    beginning of that response. `refusal` is the failure of a response that was not read to its end, None once it is
    reported. `output_schemas` are those of the tools that were listed. `users` counts the calls in progress. A retired
    session is used for no further call. It is closed after the last call in progress, or earlier if its process has
    ended.
    """

    def __init__(self, server: ServerCommand | str, headers: dict[str, str]) -> None:
        self.process = ServerProcess(server) if isinstance(server, ServerCommand) else None
        self.status: int | None = None
        self.excerpt = ""
        self.refusal: Failure | None = None
        self.output_schemas: dict[str, JsonValue] = {}
        self.users = 0
        self.is_retired = False
        self._server = server
        self._headers = headers
        self._closing = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def client(self) -> Client:
        """Return the SDK's client, connected on first use. Raises the exception with which connecting failed."""
        if self._task is None:
            self._task = asyncio.create_task(self._hold_open())
        return await asyncio.shield(self._client)

    async def _hold_open(self) -> None:
        """Connect, set the result of `_client`, and hold the connection open until `close`."""
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(Client(await self._transport(stack), cache=None))
                # The SDK checks results by the server's schemas in the event loop, which such a check can block for
                # ever; see mcp_schemas.py.
                client.session.validate_tool_result = _accept_result  # type: ignore[method-assign]
                self._client.set_result(client)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - `client` raises it if connecting failed
            # If the connection fails later, the calls in progress raise errors of their own.
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
                headers={"User-Agent": f"agentv/{__version__}", **ACCEPT_ENCODING, **self._headers},
                timeout=httpx2.Timeout(None, connect=_CONNECT_S),
                event_hooks={"response": [self._limit_body, self._note_error_status]},
            )
        )
        return streamable_http_client(str(self._server), http_client=http, max_sse_event_size=MAX_EVENT_BYTES)

    async def _limit_body(self, response: httpx2.Response) -> None:
        try:
            response.stream = _Body(response, self)
        except ProviderError as error:
            self.refusal = error.failure
            await response.aclose()
            raise httpx2.StreamError(error.failure.message) from error

    async def _note_error_status(self, response: httpx2.Response) -> None:
        if response.is_error and response.request.method == "POST":  # a failed GET is harmless: its stream is optional
            self.status = response.status_code
            self.excerpt = (await response.aread()).decode(errors="replace")[:_EXCERPT].strip()

    async def close(self) -> None:
        """Close the connection, and end the server if it is a process."""
        self._closing.set()
        if self._task is None:
            return
        if not self._client.done():
            self._task.cancel()
        if self.process is None:  # closing sends a request, which the server may never answer
            asyncio.get_running_loop().call_later(_GRACE_S, self._task.cancel)
        with suppress(asyncio.CancelledError, Exception):
            await self._task
        if self._client.done() and not self._client.cancelled():
            self._client.exception()  # retrieved, so that asyncio does not log it as never retrieved


async def _accept_result(name: str, result: mcp_types.CallToolResult) -> None:
    """Check nothing."""


class _Body(BoundedBody, httpx2.AsyncByteStream):
    """A limited body of a session's responses, which must belong to its request: the SDK takes a response for any.

    A failure is raised as an error that the SDK handles.
    """

    def __init__(self, response: httpx2.Response, session: McpSession) -> None:
        super().__init__(response.stream, response.headers)
        self._request_id = json_rpc_id(response.request.content) if response.is_success else None
        self._session = session

    def check_message(self, message: bytes) -> None:
        """Raise ProviderError for the response to another request."""
        super().check_message(message)
        with suppress(msgspec.DecodeError, RecursionError):  # the SDK reports it
            reply = msgspec.json.decode(message)
            if isinstance(reply, dict):
                check_reply(reply, self._request_id, "the server")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body. Raises StreamError, with the failure in the session's `refusal`."""
        try:
            async for piece in super().__aiter__():
                yield piece
        except ProviderError as error:
            self._session.refusal = error.failure
            raise httpx2.StreamError(error.failure.message) from error


class McpSessions:
    """The sessions of a target: one for all calls, which is replaced when it is retired, or one for each call."""

    def __init__(self, server: ServerCommand | str, headers: dict[str, str], *, is_shared: bool) -> None:
        self._server = server
        self._headers = headers
        self._is_shared = is_shared
        self._current: McpSession | None = None
        self._open: set[McpSession] = set()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[McpSession]:
        """Yield a session for one call.

        Afterwards a session that is not shared is closed. A shared one is closed if it is retired and no other call
        uses it.
        """
        session = self._session()
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            if session.is_retired and self._current is session:
                self._current = None
            if not session.users and (session.is_retired or not self._is_shared):
                await finish(self._close(session))

    def _session(self) -> McpSession:
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


def timeout_failure(session: McpSession, timeout_s: float, *, stderr_start: int) -> Failure:
    """Return the failure of a call that took longer than `timeout_s`; `stderr_start` is as for `failure_of`."""
    when = "" if session.users <= 1 else " after its other calls have ended"
    consequence = f"; the server will be stopped{when}" if session.process is not None else ""
    message = f"no answer from the server within {timeout_s:g} s{consequence}"
    return _with_server_output(Failure("target_timeout", message), session, stderr_start)


async def failure_of(error: Exception, session: McpSession, settings: McpSettings, *, stderr_start: int) -> Failure:
    """Return the failure for an exception of a call; retire a session that cannot be used any more.

    `stderr_start` is the number of bytes that the server had written to standard error before the call.
    """
    cause = next(_leaves(error))
    if isinstance(cause, ProviderError):
        return cause.failure
    if session.refusal is not None:
        refusal, session.refusal = session.refusal, None
        return refusal
    if isinstance(cause, OSError) and session.process is not None:
        return _not_started(cause, settings, session.process.cwd)
    is_closed = isinstance(cause, MCPError) and cause.code == jsonrpc.CONNECTION_CLOSED
    if is_closed and session.process is not None:
        session.is_retired = True
        await session.close()  # the exit code is known only afterwards
        return _with_server_output(_ended_failure(session), session, stderr_start)
    return _with_server_output(_failure(cause, session), session, stderr_start)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group and in its inner groups; any other exception yields itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _not_started(error: OSError, settings: McpSettings, cwd: str) -> Failure:
    argv = (settings.command or "", *settings.args)
    failure = start_failure(error, argv, Path(cwd), too_long="shorten `args`")
    if failure.kind == "target_missing" and " " in argv[0] and not settings.args:
        return replace(failure, message=f"{failure.message}; write the command's arguments in `args`")
    return failure


def _ended_failure(session: McpSession) -> Failure:
    process = session.process
    if process is not None and process.refusal is not None:
        return replace(process.refusal, message=f"{process.refusal.message}; the server was stopped")
    code = None if process is None else process.exit_code
    how = ""
    if code is not None:
        how = f" by signal {-code}" if code < 0 else f" with exit code {code}"
    return Failure("target_exit", f"the server ended{how} before it answered", details={"exit_code": code})


def _failure(error: BaseException, session: McpSession) -> Failure:
    """Return the failure for the cause of an exception; retire a session whose connection failed."""
    if isinstance(error, MCPError) and (status := _status_of(error, session)) is not None:
        session.is_retired = True
        kind = _KINDS_BY_STATUS.get(status, "server_error" if status >= _SERVER_ERRORS else "bad_request")
        excerpt = f": {session.excerpt}" if session.excerpt else ""
        return Failure(kind, f"the server answered with HTTP status {status}{excerpt}", http_status=status)
    if isinstance(error, MCPError):
        if error.code == jsonrpc.CONNECTION_CLOSED:
            session.is_retired = True
            return Failure("transport", "the server closed the connection before it answered", retryable=False)
        message = error.message[:_EXCERPT]
        if error.message.startswith(_UNREADABLE_RESPONSE_STARTS):
            return Failure("malformed_reply", f"the server's response cannot be read: {message.splitlines()[0]}")
        kind = _KINDS_BY_CODE.get(error.code, "server_error")
        return Failure(kind, f"the server refused the request: {message} (code {error.code})")
    if isinstance(error, httpx2.TransportError):
        session.is_retired = True
        host = urlsplit(str(error.request.url)).netloc.rpartition("@")[2]
        is_unconnected = isinstance(error, httpx2.ConnectError)
        what = f"no connection to {host}" if is_unconnected else f"the connection to {host} was lost"
        return Failure("transport", f"{what} ({error})", retryable=is_unconnected)
    if isinstance(error, ValidationError):
        return Failure("unexpected_shape", f"the server's result is not a valid MCP result: {_main_problem(error)}")
    return Failure("malformed_reply", str(error)[:_EXCERPT] or type(error).__name__)


def _status_of(error: MCPError, session: McpSession) -> int | None:
    """Return the HTTP status that caused an error, and clear it in the session; None for an error of the protocol."""
    is_caused_by_status = error.message in _MESSAGES_FOR_A_STATUS or session.status in _KINDS_BY_STATUS
    if not is_caused_by_status:
        return None
    status, session.status = session.status, None
    return status


def _main_problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    # Each branch of a union gives an error; the one with the longest path is the most specific.
    problem = max(problems, key=lambda each: len(each["loc"]))
    at = ".".join(str(part) for part in problem["loc"])
    return f"{at}: {problem['msg']}, got {str(problem['input'])[:200]!r}"


def _with_server_output(failure: Failure, session: McpSession, stderr_start: int) -> Failure:
    """Add the end of the server's standard error to a failure, and the stray lines on its standard output."""
    process = session.process
    if process is None:
        return failure
    message = failure.message
    if process.stray_lines:
        message += (
            f"; it wrote {process.stray_lines} lines to standard output that are not MCP messages, the first: "
            f"{process.first_stray!r} (a server must write its logs to standard error)"
        )
    if errors := process.errors_since(stderr_start):
        message += f"; its standard error ends with:\n{errors}"
    return replace(failure, message=message)
