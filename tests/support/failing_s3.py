"""A server that speaks as much of S3 as segments need, and fails as it is told to: with a status, or in mid-answer."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Fault = int | str
"""A status of HTTP; `half` sends half of an object as if it were the whole; `lost` acknowledges an upload only."""


@dataclass
class FailingS3:
    """The objects of a server, by path, and `fault`, which returns the failure of a request (its method and path).

    `message` is the text of its errors.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    fault: Callable[[str, str], Fault | None] = lambda _method, _path: None
    address: str = ""
    message: str = "set to fail"

    def respond(self, method: str, target: str, given: str | None, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the answer to a request; `given` is the header Range."""
        path, query = unquote(urlsplit(target).path).lstrip("/"), parse_qs(urlsplit(target).query)
        fault = self.fault(method, path)
        if isinstance(fault, int):
            message = escape(self.message)
            return fault, f"<Error><Code>Failing</Code><Message>{message}</Message></Error>".encode(), {}
        if method == "PUT":
            if fault != "lost":
                self.objects[path] = body
            return 200, b"", {"ETag": '"x"'}
        if method == "GET" and "list-type" in query:
            return 200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>", {}
        if method not in ("GET", "HEAD") or path not in self.objects:
            return 404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>", {}
        data, status, headers = self.objects[path], 200, {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        headers["ETag"] = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        if given is not None and method == "GET":
            first, _, last = given.removeprefix("bytes=").partition("-")
            headers["Content-Range"] = f"bytes {given.removeprefix('bytes=')}/{len(data)}"
            status, data = 206, data[int(first) : int(last or len(data)) + 1]
        return status, data[: len(data) // 2] if fault == "half" and method == "GET" else data, headers


@contextmanager
def failing_s3() -> Iterator[FailingS3]:
    """Run such a server on the loopback interface until the end of the block."""
    store = FailingS3()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, data, headers = store.respond(self.command, self.path, self.headers.get("Range"), body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_HEAD = do_PUT = do_DELETE = answer  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    store.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
