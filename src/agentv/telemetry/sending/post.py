"""One request to a collector or a web API: sent, and its answer read, within a time limit.

The standard library's client is used from a thread of its own: a name server or a collector that hangs then blocks
neither the event loop of a run nor the end of the process.
"""

import gzip
import http.client
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event, Timer
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from agentv.telemetry.sending.endpoint import Endpoint
from agentv.telemetry.sending.proxies import basic_credentials, proxy_for, proxy_headers
from agentv.version import __version__

_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
_UNSUPPORTED = frozenset({404, 405, 415, 501})
_MAX_RESPONSE = 1 << 20
_TOO_LARGE = 413
_HTTP_PORT = 80
_OK = range(200, 300)
_USER_AGENT = f"agentv/{__version__}"


class Accepted(Struct, frozen=True):
    """The receiver has taken a request, except perhaps a part of it, which the body of its answer names."""

    body: bytes = b""


class Refused(Struct, frozen=True):
    """The receiver has not taken a request."""

    reason: str
    status: int | None = None
    """None if there was no answer."""
    retry_after_s: float | None = None
    body: bytes = b""

    @property
    def is_retryable(self) -> bool:
        """True if the same request may be taken later."""
        return self.status is None or self.status in _RETRYABLE

    @property
    def is_unsupported(self) -> bool:
        """True if the receiver does not take this kind of request."""
        return self.status in _UNSUPPORTED

    @property
    def is_too_large(self) -> bool:
        """True if a smaller request may be taken."""
        return self.status == _TOO_LARGE

    def with_advice(self, *, keys: str, url: str) -> "Refused":
        """Return the same with the variables to check: those with the keys, or the one with the URL."""
        match self.status:
            case 401 | 403:
                return replace(self, reason=f"{self.reason}: check {keys}")
            case 200 | 301 | 302 | 307 | 308 | 404 | 405:
                return replace(self, reason=f"{self.reason}: check {url}")
        return self


def post(endpoint: Endpoint, body: bytes, *, content_type: str) -> Accepted | Refused:
    """Send a request. No redirect is followed, as it would take the headers elsewhere."""
    expired = Event()
    connection, via = None, ""
    try:
        proxy = proxy_for(endpoint.url)
        via = "" if proxy is None else f"proxy {urlsplit(proxy).netloc.rpartition('@')[2]}: "
        connection = _connection(endpoint, proxy)
        # The client's own time limit is for each read: a collector that drips bytes would never exceed it.
        timer = Timer(endpoint.timeout_s, _abort, (connection, expired))
        timer.daemon = True
        timer.start()
        try:
            connection.connect()
            via = ""
            return _exchange(connection, endpoint, body, content_type=content_type, proxy=proxy, expired=expired)
        finally:
            timer.cancel()
    except (OSError, http.client.HTTPException, ValueError) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            return Refused(f"{via}no answer within {endpoint.timeout_s:g} s")
        return Refused(f"{via}{_reason(error)}")
    finally:
        if connection is not None:
            connection.close()


def _reason(error: OSError | http.client.HTTPException | ValueError) -> str:
    match error:
        case _UnknownProxyError():
            return str(error)
        case http.client.RemoteDisconnected():
            return "the connection was closed without an answer"
        case ssl.SSLError():
            return f"TLS: {error.reason or 'failed'}"
        case OSError():
            return (error.strerror or str(error) or type(error).__name__).lower()
        case _:
            return f"no valid HTTP response ({type(error).__name__})"


def _exchange(
    connection: http.client.HTTPConnection,
    endpoint: Endpoint,
    body: bytes,
    *,
    content_type: str,
    proxy: str | None,
    expired: Event,
) -> Accepted | Refused:
    parts = urlsplit(endpoint.url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Content-Type": content_type, "User-Agent": _USER_AGENT}
    if proxy is not None and parts.scheme == "http":
        path = f"http://{parts.netloc.rpartition('@')[2]}{path}"
        headers.update(proxy_headers(proxy))
    if (basic := basic_credentials(endpoint.url)) is not None:
        headers["Authorization"] = basic
    if endpoint.is_compressed:
        body = gzip.compress(body, compresslevel=6, mtime=0)
        headers["Content-Encoding"] = "gzip"
    connection.request("POST", path, body, {**headers, **endpoint.headers})
    response = connection.getresponse()
    if expired.is_set():  # the headers were cut off, which the client takes for their end
        raise TimeoutError
    answer = response.read(_MAX_RESPONSE)
    if response.status in _OK:
        if response.getheader("Content-Type", "").lower().startswith("text/html"):
            return Refused("answered with a web page", 200)
        return Accepted(answer)
    retry_after_s = _retry_after_s(response.getheader("Retry-After", ""))
    return Refused(f"HTTP {response.status}", response.status, retry_after_s, answer)


def _connection(endpoint: Endpoint, proxy: str | None) -> http.client.HTTPConnection:
    """Return a connection to the endpoint or to its proxy, through which one with TLS goes as a tunnel."""
    parts, via = urlsplit(endpoint.url), urlsplit(proxy or endpoint.url)
    if proxy is not None and via.scheme != "http":
        raise _UnknownProxyError(f"it has the scheme {via.scheme!r}; only http:// is supported")
    host, port = via.hostname or "", via.port
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=endpoint.timeout_s)
    context = ssl.create_default_context(cafile=endpoint.certificate)
    if endpoint.client_certificate is not None:
        context.load_cert_chain(endpoint.client_certificate, endpoint.client_key)
    connection = http.client.HTTPSConnection(
        host, port or (None if proxy is None else _HTTP_PORT), timeout=endpoint.timeout_s, context=context
    )
    if proxy is not None:
        connection.set_tunnel(parts.hostname or "", parts.port, dict(proxy_headers(proxy)))
    return connection


class _UnknownProxyError(ValueError):
    """A proxy of a kind that cannot be used."""


def _abort(connection: http.client.HTTPConnection, expired: Event) -> None:
    """End a request that takes too long, in the middle of whatever it waits for."""
    expired.set()
    with suppress(OSError, AttributeError):  # it is closed already, or not connected yet
        connection.sock.shutdown(socket.SHUT_RDWR)


def _retry_after_s(header: str) -> float | None:
    """Return the seconds of a Retry-After header, which has a number or a date; None without a valid one."""
    value = header.strip()
    if value.isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
