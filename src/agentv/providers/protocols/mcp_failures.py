"""Every way in which a call of an MCP server can fail, as a Failure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import jsonrpc
from msgspec.structs import replace
from pydantic import ValidationError

from agentv.providers.agents.commands import start_failure
from agentv.providers.protocols.mcp_session import McpSession
from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure, FailureKind

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
