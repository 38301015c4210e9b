"""A server that receives traces and logs by OTLP over HTTP, in bounded memory. Import it only when needed."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from hmac import compare_digest
from types import TracebackType
from typing import Self, TypeAlias, cast

from aiohttp import web

from agentv.execution.gunzip import BrokenGzipError, Gunzip
from agentv.telemetry.otlp.receiving import (
    CONTENT_TYPES,
    Encoding,
    RefusedError,
    accepted_body,
    find_encoding,
    find_signal,
    read_export,
    refused_body,
)
from agentv.telemetry.otlp.spans import Span
from agentv.types.hosts import host_name, is_loopback, url_of

_LOG = logging.getLogger(__name__)
_HTTP_LOG = logging.getLogger(f"{__name__}.http")
_HTTP_LOG.setLevel(logging.CRITICAL)  # a sender's wrong request needs no traceback

Deliver: TypeAlias = Callable[[str, Sequence[Span]], bool]

MAX_BODY_BYTES = 20 * 2**20
"""The largest body, decompressed, as of the OpenTelemetry Collector."""
_MAX_HELD_BYTES = 3 * MAX_BODY_BYTES
"""The largest sum of the bodies that are being read at one time."""
_MOST_CONNECTIONS = 200
_BODY_TIMEOUT_S = 30.0
_IDLE_TIMEOUT_S = 75.0
_END_S = 1.0
_RETRY_AFTER_S = 2
_COMPRESSED = ("gzip", "x-gzip", "deflate")
_PLAIN = ("", "identity")
_NO_GRPC = "which is not supported here; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf in that program"
_GRPC_START = b"PRI * HTTP/2.0"
_TLS_START = b"\x16"


def _frame(kind: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2 for the whole connection (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes((kind, 0)) + bytes(4) + payload


_SETTINGS, _GOAWAY, _HTTP_1_1_REQUIRED = 4, 7, 13
_GRPC_REFUSAL = _frame(_SETTINGS, b"") + _frame(
    _GOAWAY, bytes(4) + _HTTP_1_1_REQUIRED.to_bytes(4, "big") + f"this is gRPC, {_NO_GRPC}".encode()
)


class OtlpReceiver:
    """Receives traces and logs until the end of the block. Use it with `async with`, which starts it and sets `port`.

    `deliver` gets the spans of each request, and the path before `/v1/traces` without slashes around it; it returns
    False for a path that does not exist. Requests are refused for the moment while `is_full` returns True: exporters
    repeat them. Without a `token`, only this machine can send: the host must be a loopback address, and requests from
    pages of a browser are refused. `on_problem` gets each kind of wrong request once, as a sentence; `on_accepted` gets
    the signal, the content type and the decompressed body of each request that was accepted.
    """

    def __init__(
        self,
        deliver: Deliver,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        is_full: Callable[[], bool] = lambda: False,
        on_problem: Callable[[str], None] = lambda _sentence: None,
        on_accepted: Callable[[str, str, bytes], None] = lambda _signal, _type, _body: None,
        max_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        if token is None and not is_loopback(host):
            raise ValueError(f"{host} can be reached from other machines, so it needs a token")
        self.host = host
        self.port = port
        self.metrics = 0
        """The number of requests with metrics, which are accepted and dropped."""
        self._deliver = deliver
        self._token = token
        self._is_full = is_full
        self._on_problem = on_problem
        self._on_accepted = on_accepted
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._problems: set[str] = set()
        self._socket: socket.socket | None = None
        self._listening: asyncio.Server | None = None
        self._http: web.Server | None = None
        self._waiting: set[asyncio.Transport] = set()

    @property
    def url(self) -> str:
        """The address for `OTEL_EXPORTER_OTLP_ENDPOINT`, without a path or trailing slash."""
        return url_of(self.host, self.port)

    def bind(self) -> socket.socket:
        """Take the port, which the start would do otherwise, and return its socket. Raises OSError."""
        if self._socket is not None:
            return self._socket
        (family, *_, address), *_ = socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self._socket = socket.create_server(address[:2], family=family)
        self.port = self._socket.getsockname()[1]
        return self._socket

    async def __aenter__(self) -> Self:
        listening = self.bind()
        # aiohttp would inflate a whole body before its size is known.
        self._http = http = web.Server(
            self._respond, auto_decompress=False, access_log=None, logger=_HTTP_LOG, keepalive_timeout=_IDLE_TIMEOUT_S
        )
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: _Connection(http, self._waiting, self._report), sock=listening
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening is not None and self._http is not None:
            self._listening.close()
            for transport in tuple(self._waiting):
                transport.abort()
            self._http.pre_shutdown()
            await self._http.shutdown(_END_S)

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        encoding = find_encoding(request.headers.get("Content-Type", ""))
        try:
            return await self._received(request, encoding)
        except RefusedError as error:
            refused = error
            if refused.retry_after_s is None:
                self._report(f"a request was refused with HTTP {refused.status}: {refused}", str(refused.status))
        except OSError:  # the sender has gone
            raise
        except Exception:  # noqa: BLE001 - the boundary of the server
            _LOG.exception("a request to %s cannot be answered", request.path)
            refused = RefusedError(500, "internal error of the receiver; its terminal shows the details")
        headers = {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
        return _response(refused_body(encoding or "json", refused), encoding, refused.status, headers)

    async def _received(self, request: web.BaseRequest, encoding: Encoding | None) -> web.Response:
        self._check_access(request)
        found = find_signal(request.path)
        if found is None:
            raise RefusedError(404, f"{request.path[:100]} is not a path of OTLP, such as /v1/traces")
        if request.method != "POST":
            raise RefusedError(405, "OTLP must be sent with POST")
        if encoding is None:
            raise RefusedError(415, "the Content-Type of OTLP is application/x-protobuf or application/json")
        prefix, signal = found
        if self._is_full():
            raise self._busy("too many spans wait to be read")
        body = await self._body(request)
        export = read_export(signal, encoding, body)
        self.metrics += signal == "metrics"
        if not self._deliver(prefix, export.spans):
            raise RefusedError(404, f"/{prefix[:100]} is not known here")
        self._on_accepted(signal, CONTENT_TYPES[encoding], body)
        return _response(accepted_body(signal, encoding, export), encoding)

    def _check_access(self, request: web.BaseRequest) -> None:
        """Refuse other machines and pages of browsers, which have no token."""
        if self._token is not None:
            given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
            if not compare_digest(given, f"Bearer {self._token}".encode()):
                raise RefusedError(401, "the header 'Authorization: Bearer TOKEN' is missing or has a wrong token")
            return
        # A name that is not this machine's means that a page had its name resolved to it (DNS rebinding).
        if not is_loopback(host_name(request.headers.get("Host")) or "") or "Origin" in request.headers:
            raise RefusedError(403, "without a token, only programs on this machine can send, to a loopback address")

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Return the body, decompressed in bounded steps. Raises RefusedError for one that is too large."""
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_TIMEOUT_S):
                if (request.content_length or 0) > self._max_bytes:
                    raise self._too_large()
                async for piece in self._pieces(request):
                    body += piece
                    self._held_bytes += len(piece)
                    if len(body) > self._max_bytes:
                        raise self._too_large()
                    if self._held_bytes > _MAX_HELD_BYTES:
                        raise self._busy("too many requests at once")
        except BrokenGzipError as error:
            raise RefusedError(400, f"the body cannot be decompressed: {error}") from None
        except TimeoutError:
            raise RefusedError(408, f"the body did not arrive within {_BODY_TIMEOUT_S:g} s") from None
        finally:
            self._held_bytes -= len(body)
        return bytes(body)

    async def _pieces(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        compression = request.headers.get("Content-Encoding", "").strip().lower()
        if compression in _PLAIN:
            async for block in request.content.iter_any():
                yield block
            return
        if compression not in _COMPRESSED:
            raise RefusedError(415, "the Content-Encoding must be gzip, deflate or identity")
        gunzip = Gunzip()
        async for block in request.content.iter_any():
            for piece in gunzip.decompress(block):
                yield piece
        gunzip.check_end()

    def _too_large(self) -> RefusedError:
        size = f"{self._max_bytes // 2**20} MiB"
        return RefusedError(413, f"the body has more than {size}, decompressed; send smaller batches")

    def _busy(self, reason: str) -> RefusedError:
        # Not 429, which the exporter of Python does not repeat.
        return RefusedError(503, reason, retry_after_s=_RETRY_AFTER_S)

    def _report(self, sentence: str, kind: str) -> None:
        if kind not in self._problems:
            self._problems.add(kind)
            self._on_problem(sentence)


class _Connection(asyncio.Protocol):
    """A connection that has not begun yet: one of gRPC is refused with a reason, any other continues as HTTP."""

    def __init__(self, http: web.Server, waiting: set[asyncio.Transport], report: Callable[[str, str], None]) -> None:
        self._http = http
        self._waiting = waiting
        self._report = report
        self._start = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes, unless there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)
        if len(self._waiting) + len(self._http.connections) >= _MOST_CONNECTIONS:
            self._transport.abort()
            return
        self._waiting.add(self._transport)
        self._timer = asyncio.get_running_loop().call_later(_IDLE_TIMEOUT_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """Decide by the first bytes."""
        self._start += data
        if self._start.startswith(_GRPC_START):
            self._transport.write(_GRPC_REFUSAL)
            self._transport.close()
            self._report(f"a program connected by gRPC, {_NO_GRPC}", "gRPC")
        elif not _GRPC_START.startswith(self._start):
            if self._start.startswith(_TLS_START):
                self._report(
                    "a program connected by HTTPS, which is not supported here; use http:// in its endpoint", "HTTPS"
                )
            self.connection_lost(None)
            http = self._http()
            self._transport.set_protocol(http)
            http.connection_made(self._transport)
            http.data_received(self._start)

    def connection_lost(self, _error: Exception | None) -> None:
        """Wait no more."""
        if self._transport in self._waiting:
            self._waiting.remove(self._transport)
            self._timer.cancel()


def _response(
    body: bytes, encoding: Encoding | None, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(body=body, status=status, content_type=CONTENT_TYPES[encoding or "json"], headers=headers)
