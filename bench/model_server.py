"""A very fast model server in a process of its own: fixed replies after a fixed time.

It implements the part of OpenAI's chat API that harnesses need, and recognizes judges' requests by their prompts. A
request takes less CPU time than a bare client needs; agentv's own fake server does more and takes longer.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from urllib.request import urlopen

from bench.cores import core_of_its_own
from bench.harness import ROOT
from bench.harnesses.job import RUBRIC

HOST = "127.0.0.1"
ANSWER = "Say what you like"
_GET_FIRST = b"GET /first "
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NONCE = re.compile(rb'\\"nonce\\" \(\\"([^"\\]+)\\", copied exactly\)')
_TOOL = re.compile(rb'"function": ?\{"name": ?"([^"]+)"')
_VERDICT = {
    "score": 1.0,
    "pass": True,
    "reason": "It does.",
    "hits": ["says it"],
    "misses": [],
    "reasoning": "It does.",
}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def reply_to(body: bytes) -> bytes:
    """Return the body of the reply: a verdict for a judge's request, else a fixed answer."""
    if nonce := _NONCE.search(body):
        return _with_text(json.dumps({"nonce": nonce[1].decode(), **_VERDICT}))
    if tool := _TOOL.search(body):
        verdict = {key: _VERDICT[key] for key in ("reason", "pass", "score")}
        call = {"name": tool[1].decode(), "arguments": json.dumps(verdict)}
        calls = [{"id": "call-1", "type": "function", "function": call}]
        return _completion({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls")
    return _GRADED if RUBRIC.encode() in body else _PLAIN


def _with_text(text: str) -> bytes:
    return _completion({"role": "assistant", "content": text}, "stop")


def _completion(message: dict[str, object], finish: str) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    named = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_767_225_600, "model": "fake"}
    return json.dumps({**named, "choices": [choice], "usage": _USAGE}).encode()


_PLAIN = _with_text(ANSWER)
_GRADED = _with_text('{"score": 10, "pass": true, "reason": "GRADE: C"}')
"""The verdict for other tools' judges: JSON with a grade in the text."""


class _FirstRequest:
    """The arrival time of the first request, in seconds of the monotonic clock, for those who wait for it."""

    def __init__(self) -> None:
        self._came: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def note(self) -> None:
        if not self._came.done():
            self._came.set_result(time.monotonic())

    def send_to(self, send: Callable[[bytes], None]) -> None:
        self._came.add_done_callback(lambda came: send(json.dumps(came.result()).encode()))


_OK = b"200 OK"
_REFUSED = b"429 Too Many Requests\r\nRetry-After: 0"
_NUMBER = re.compile(rb"Say (\d+)")
RESET, HANG = b"reset", b"hang"
_FILTERED = _completion({"role": "assistant", "content": None}, "content_filter")
FAULTS: dict[str, tuple[bytes, bytes]] = {
    "rate_limited": (_REFUSED, b'{"error": {"message": "Slow down."}}'),
    "server_error": (b"500 Internal Server Error", b'{"error": {"message": "It broke."}}'),
    "bad_request": (b"400 Bad Request", b'{"error": {"message": "It is wrong."}}'),
    "content_filter": (_OK, _FILTERED),
    "malformed_reply": (_OK, _PLAIN[: len(_PLAIN) // 2]),
    "unexpected_shape": (_OK, b'{"choices": "none"}'),
    "transport": (RESET, b""),
    "deadline": (HANG, b""),
}
"""The faults of a faulty server by the kind of failure that each should become: status and body of the reply."""


def fault_of(body: bytes) -> tuple[bytes, bytes] | None:
    """Return the fault of a request: of a hundred questions by number, each fault has one."""
    found = _NUMBER.search(body)
    place = int(found[1]) % 100 if found else len(FAULTS)
    return list(FAULTS.values())[place] if place < len(FAULTS) else None


class _Connection(asyncio.Protocol):
    """One client connection. Requests are handled one after the other; later data waits in the buffer."""

    def __init__(self, first: _FirstRequest, delay_s: float) -> None:
        self._first, self._delay_s = first, delay_s
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, gap, rest = self._buffer.partition(b"\r\n\r\n")
        if not gap:
            return
        found = _LENGTH.search(head)
        length = int(found[1]) if found else 0
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        if head.startswith(_GET_FIRST):
            self._first.send_to(self._send)
            return
        self._first.note()
        self._answer(rest[:length])

    def _answer(self, body: bytes) -> None:
        self._send_later(reply_to(body))

    def _send_later(self, reply: bytes, status: bytes = _OK) -> None:
        if self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, self._send, reply, status)
        else:
            self._send(reply, status)

    def _send(self, reply: bytes, status: bytes = _OK) -> None:
        if self._transport is not None and not self._transport.is_closing():
            head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            self._transport.write(head % (status, len(reply)) + reply)


class _FailingConnection(_Connection):
    """A connection that refuses some requests and, if it is `faulty`, answers some with a fault."""

    def __init__(self, first: _FirstRequest, delay_s: float, *, refusals: Iterator[bool], faulty: bool) -> None:
        super().__init__(first, delay_s)
        self._refusals, self._faulty = refusals, faulty

    def _answer(self, body: bytes) -> None:
        if next(self._refusals):
            self._send(b'{"error": {"message": "Slow down."}}', _REFUSED)
            return
        fault = fault_of(body) if self._faulty else None
        if fault is None:
            super()._answer(body)
            return
        status, reply = fault
        if status == RESET and self._transport is not None:
            self._transport.abort()
        elif status != HANG:
            self._send_later(reply, status)


REFUSALS_SEED = 56
"""With it, three of the first fifty requests are refused at a share of 1 %, and 19 of 1,500."""


def random_refusals(share: float) -> Iterator[bool]:
    """Yield for each request, in the order of arrival, whether it is refused: the same ones every time."""
    rng = random.Random(REFUSALS_SEED)  # noqa: S311 - a pattern, no secret
    while True:
        yield rng.random() < share


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A running server; `url` is its base URL with /v1."""

    url: str

    def first_request_at(self, *, patience_s: float) -> float:
        """Wait for the first request; return its arrival time in seconds of the monotonic clock."""
        with urlopen(self.url.removesuffix("/v1") + "/first", timeout=patience_s) as reply:  # noqa: S310 - on this machine
            return float(json.load(reply))


@contextmanager
def serving(
    *, delay_s: float = 0.0, refused_share: float = 0.0, faulty: bool = False, own_core: bool = True
) -> Iterator[ModelServer]:
    """Serve in another process, on a core of its own, until the end of the block; every reply takes `delay_s`.

    A random `refused_share` of the requests gets HTTP 429 with `Retry-After: 0` at once. A faulty
    server answers eight of a hundred questions with a fault each (`FAULTS`), at every attempt.
    Without `own_core` the measured program may use all cores: for benchmarks with little load on the server.
    """
    command = (
        sys.executable,
        "-m",
        "bench.model_server",
        str(delay_s),
        str(refused_share),
        *(["--faulty"] if faulty else []),
    )
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        assert process.stdin is not None  # noqa: S101 - for the type checker
        assert process.stdout is not None  # noqa: S101 - for the type checker
        port = int(process.stdout.readline())
        try:
            with core_of_its_own(process.pid) if own_core else nullcontext():
                yield ModelServer(f"http://{HOST}:{port}/v1")
        finally:
            process.stdin.close()  # the server ends with its input


async def _serve(delay_s: float, refused_share: float, *, faulty: bool) -> None:
    first, loop = _FirstRequest(), asyncio.get_running_loop()
    connect: Callable[[], _Connection] = partial(_Connection, first, delay_s)
    if refused_share or faulty:
        refusals = random_refusals(refused_share)
        connect = partial(_FailingConnection, first, delay_s, refusals=refusals, faulty=faulty)
    server = await loop.create_server(connect, HOST, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("delay_s", type=float, help="seconds until a reply")
    parser.add_argument("refused_share", type=float, help="share of the requests that are refused")
    parser.add_argument("--faulty", action="store_true", help="answer eight of a hundred questions with a fault each")
    given = parser.parse_args()
    asyncio.run(_serve(given.delay_s, given.refused_share, faulty=given.faulty))
