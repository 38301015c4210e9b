"""The one way to the network: aiohttp with a deadline, a size limit, no redirects. Import it only when needed."""

import asyncio
import functools
import ipaddress
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from msgspec import Struct

from agentv.execution.sharing import TurnQueue
from agentv.providers.apis.http import HttpRequest, HttpResponse, status_failure
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import Clock, SharedParts

MAX_BODY_BYTES = 10 * 2**20
NETWORK = "http network"


def utc_now() -> datetime:
    """Return the present moment; only a date in Retry-After needs it."""
    return datetime.now(UTC)


class Network(Struct, frozen=True):
    """What all requests of a process share: connections, and the order in which replies are gone on with."""

    session: aiohttp.ClientSession
    replies: TurnQueue


@asynccontextmanager
async def open_network() -> AsyncIterator[Network]:
    """Open the connections of a process; nothing in them passes from one request to another.

    Their number is not limited here: workers and rate limits do that.
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
) -> HttpResponse:
    """Send a request and return the whole reply, which has a status of 2xx.

    Raises ProviderError with one kind for everything else that a network or a server can do.
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
            ) as response,
        ):
            body = await _read(response, max_bytes)
            reply = HttpResponse(response.status, {key.lower(): text for key, text in response.headers.items()}, body)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if deadline.expired():
            message = f"no whole reply from {_host(request)} within {round(timeout_s, 2):g} s"
            raise ProviderError(Failure("deadline", message, retryable=True)) from None
        raise ProviderError(_network_failure(error, request)) from None
    await network.replies.turn()
    failure = status_failure(reply, now=clock())
    if failure is not None:
        raise ProviderError(failure)
    return reply


async def check_url(url: str, shared: SharedParts, *, timeout_s: float) -> None:
    """Raise ProviderError unless the URL answers with 2xx."""
    await send(HttpRequest(url, {}, method="GET"), shared, timeout_s=timeout_s)


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read a body, unpacked as it comes, and stop as soon as it is too large either way."""
    packed = _unpacker(response.headers.get("Content-Encoding", "identity").lower())
    body, on_the_wire = bytearray(), 0
    while chunk := await response.content.readany():
        on_the_wire += len(chunk)
        try:
            body += packed.decompress(chunk, max_bytes + 1 - len(body)) if packed else chunk
        except zlib.error as error:
            raise ProviderError(Failure("malformed_reply", f"the reply cannot be unpacked: {error}")) from None
        if max(len(body), on_the_wire) > max_bytes:
            message = f"the reply is larger than {max_bytes / 2**20:g} MiB; the answer was not kept"
            raise ProviderError(Failure("too_large", message))
    if packed and on_the_wire and not packed.eof:
        raise ProviderError(Failure("malformed_reply", "the packed reply ends too early"))
    return bytes(body)


def _unpacker(encoding: str) -> "zlib._Decompress | None":
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)
    if encoding == "identity":
        return None
    raise ProviderError(Failure("malformed_reply", f"the reply is packed as {encoding!r}, which was not asked for"))


def _network_failure(error: Exception, request: HttpRequest) -> Failure:
    said = _said(error)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Failure("transport", f"the connection to {_host(request)} broke in mid-reply ({said})", retryable=True)
    if isinstance(error, aiohttp.InvalidURL) or not isinstance(error, aiohttp.ClientError | OSError):
        return Failure("config_error", f"{request.url!r} or its headers cannot be used in a request ({said})")
    return Failure("transport", f"no connection to {_host(request)} ({said})", retryable=True)


def _said(error: Exception) -> str:
    """Return what the system said about a connection, else the error with its name."""
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"proxy {error.host}:{error.port}: {_said(error.os_error)}"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if not isinstance(cause, OSError) or cause.errno is None:
        return f"{type(cause).__name__}: {cause}".removesuffix(": ")
    if isinstance(cause, socket.gaierror | ssl.SSLError):  # their numbers are not the system's
        return cause.strerror or str(cause)
    return os.strerror(cause.errno)


def _host(request: HttpRequest) -> str:
    return urlsplit(request.url).netloc.rpartition("@")[2]


@functools.lru_cache(maxsize=256)
def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names; aiohttp's own reading of it costs two thread hops a request."""
    parts = urlsplit(url)
    return _environment_proxy(parts.scheme, parts.hostname or "")


@functools.cache
def _environment_proxy(scheme: str, host: str) -> str | None:
    proxies = getproxies()
    if host == "localhost" or _is_loopback(host) or proxy_bypass(host):
        return None
    return proxies.get(scheme) or proxies.get("all")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
