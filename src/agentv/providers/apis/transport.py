"""The HTTP transport: aiohttp with a deadline, a size limit and no redirects. Import it only when needed."""

import asyncio
import functools
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TypeAlias
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

from agentv.execution.sharing import TurnQueue
from agentv.providers.apis.http import HttpRequest, HttpResponse, is_event_stream, status_failure
from agentv.providers.apis.response_body import MAX_BODY_BYTES, MAX_STREAM_BYTES, ResponseBody
from agentv.telemetry.sending.proxies import proxy_for
from agentv.types.failures import Failure
from agentv.types.protocols import Clock, SharedParts
from agentv.types.provider import ProviderError

NETWORK = "http network"
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
"""The codes of OpenSSL for a certificate whose authority is not known, or that is signed by itself."""
_AUTHORITY_ADVICE = "if you trust its authority, set SSL_CERT_FILE to a file with the authority's certificate"
_REST_S = 1.0
"""The time to wait for the end of a response after its last event, so that the connection can be used again."""

Listener: TypeAlias = Callable[[bytes], bool]
"""Called with the next bytes of an event stream; returns True if the response is complete."""

MakeListener: TypeAlias = Callable[[], Listener]
"""Called when the response turns out to be an event stream."""


def utc_now() -> datetime:
    """Return the current time, for dates in Retry-After."""
    return datetime.now(UTC)


class Network(Struct, frozen=True):
    """The state shared by all requests of a process: connections, and the queue that spreads out responses."""

    session: aiohttp.ClientSession
    queue: TurnQueue


@asynccontextmanager
async def open_network() -> AsyncIterator[Network]:
    """Open the network of a process; requests share no cookies.

    The number of connections is limited by workers and rate limits, not here.
    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
    ) as session:
        yield Network(session, TurnQueue())


async def send(
    request: HttpRequest,
    shared: SharedParts,
    *,
    timeout_s: float,
    max_bytes: int = MAX_BODY_BYTES,
    clock: Clock = utc_now,
    make_listener: MakeListener | None = None,
) -> HttpResponse:
    """Send a request and return the complete response, which has a status of 2xx.

    If the response is an event stream and `make_listener` is given, the listener gets the bytes as they come, and the
    response has no body. Raises ProviderError for any other status and for every failure of the network. A
    ProviderError of the listener is passed on.
    """
    network = await shared.get(NETWORK, open_network)
    headers = {"Accept-Encoding": "gzip, deflate", **request.headers}
    deadline = asyncio.timeout(timeout_s)
    try:
        async with (
            deadline,
            network.session.request(
                request.method,
                request.url,
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
                proxy=_proxy_for(request.url),
            ) as raw,
        ):
            response_headers = {key.lower(): text for key, text in raw.headers.items()}
            body = b""
            if make_listener is not None and raw.ok and is_event_stream(response_headers):
                await _listen(raw, make_listener())
            else:
                body = await _read(raw, max_bytes)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if deadline.expired():
            message = f"no complete response from {_host(request)} within {round(timeout_s, 2):g} s"
            raise ProviderError(Failure("deadline", message, retryable=True)) from None
        raise ProviderError(_network_failure(error, request)) from None
    await network.queue.turn()
    response = HttpResponse(raw.status, response_headers, body)
    failure = None if response.is_success else status_failure(response, now=clock())
    if failure is not None:
        raise ProviderError(failure)
    return response


async def check_url(url: str, shared: SharedParts, *, timeout_s: float) -> None:
    """Raise ProviderError unless the URL responds with 2xx."""
    await send(HttpRequest(url, {}, method="GET"), shared, timeout_s=timeout_s)


async def _listen(response: aiohttp.ClientResponse, listener: Listener) -> None:
    # Truncated compression is not an error here: the listener detects an incomplete stream.
    body, is_over = _body_of(response, MAX_STREAM_BYTES), False
    while not is_over and (chunk := await response.content.readany()):
        is_over = any(listener(piece) for piece in body.pieces(chunk))
    with suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(_REST_S):
            while await response.content.readany():
                pass


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body, pieces = _body_of(response, max_bytes), list[bytes]()
    while chunk := await response.content.readany():
        pieces += body.pieces(chunk)
    if body.is_truncated:
        raise ProviderError(Failure("malformed_reply", "the compressed response is truncated"))
    return b"".join(pieces)


def _body_of(response: aiohttp.ClientResponse, max_bytes: int) -> ResponseBody:
    return ResponseBody(response.headers.get("Content-Encoding", "identity"), max_bytes)


def _network_failure(error: Exception, request: HttpRequest) -> Failure:
    reason = _reason(error)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Failure(
            "transport", f"the connection to {_host(request)} was lost during the response ({reason})", retryable=True
        )
    if isinstance(error, aiohttp.InvalidURL) or not isinstance(error, aiohttp.ClientError | OSError):
        return Failure("config_error", f"{request.url!r} or its headers cannot be used in a request ({reason})")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        is_unknown = getattr(error.certificate_error, "verify_code", None) in _UNKNOWN_AUTHORITY
        advice = f"; {_AUTHORITY_ADVICE}" if is_unknown else ""
        return Failure("transport", f"the certificate of {_host(request)} is not accepted: {reason}{advice}")
    return Failure("transport", f"no connection to {_host(request)} ({reason})", retryable=True)


def _reason(error: Exception) -> str:
    """Return the system's message about a connection, else the error with its name."""
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"proxy {error.host}:{error.port}: {_reason(error.os_error)}"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if not isinstance(cause, OSError) or cause.errno is None:
        return f"{type(cause).__name__}: {cause}".removesuffix(": ")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return getattr(error.certificate_error, "verify_message", str(error.certificate_error)).rstrip(".")
    if isinstance(cause, socket.gaierror | ssl.SSLError):  # their numbers are not errno values
        return cause.strerror or str(cause)
    return os.strerror(cause.errno)


def _host(request: HttpRequest) -> str:
    return urlsplit(request.url).netloc.rpartition("@")[2]


_proxy_for = functools.lru_cache(maxsize=256)(proxy_for)
"""Reads the environment once for each address; aiohttp's own lookup uses two threads per request."""
