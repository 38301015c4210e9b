"""A receiver of OTLP in its own thread, and plain HTTP requests to it."""

import http.client
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from tests.support.served import serving_in_thread

from agentv.execution.otlp_receiver import OtlpReceiver
from agentv.telemetry.otlp.spans import Span

JSON = {"Content-Type": "application/json"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Reply(Struct, frozen=True):
    """A response; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Inbox(Struct):
    """What a receiver delivered and reported; only the listed prefixes exist."""

    prefixes: tuple[str, ...] = ("",)
    delivered: list[tuple[str, Sequence[Span]]] = []
    problems: list[str] = []
    is_full: bool = False

    def deliver(self, prefix: str, spans: Sequence[Span]) -> bool:
        if prefix not in self.prefixes:
            return False
        self.delivered.append((prefix, spans))
        return True


@contextmanager
def receiving(inbox: Inbox, **options: Any) -> Iterator[OtlpReceiver]:
    """Receive into an inbox until the end of the block."""
    receiver = OtlpReceiver(inbox.deliver, is_full=lambda: inbox.is_full, on_problem=inbox.problems.append, **options)
    with serving_in_thread(receiver):
        yield receiver


def post(port: int, path: str, body: bytes, headers: Mapping[str, str], *, method: str = "POST") -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, named, response.read())
    finally:
        connection.close()


def exchange(port: int, data: bytes) -> bytes:
    """Send bytes, and return all that comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer
