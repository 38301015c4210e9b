"""The faults of the fake server, chosen by a model's name: by what follows the last @, or by the whole name."""

import asyncio
import json
import math
import re
import socket
import struct
import zlib
from collections.abc import Callable, Coroutine, Mapping
from typing import NoReturn, TypeAlias

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from agentv.fake.api import Problem, Reply, refused
from agentv.types.json_value import JsonValue

PLACEHOLDER_TEXT = "REPLACED-BY-A-FAULT"
"""The text of the model's reply under `FAULTS_WITH_PLACEHOLDER`; those faults replace it in the body."""

HUGE_MIB = 600
DRIP_S = 0.05
_MIB = 2**20
_LINGER = struct.pack("ii", 1, 0)
"""The value of SO_LINGER that makes closing a connection reset it."""


class Outgoing(Struct, frozen=True):
    """A reply that is ready to be sent."""

    request: web.Request
    body: bytes
    content_type: str

    async def open(self, **headers: str) -> web.StreamResponse:
        """Send the head of a reply with status 200; underscores in the names of `headers` become hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = web.StreamResponse(headers={"Content-Type": self.content_type, **named})
        await response.prepare(self.request)
        return response

    @property
    def half(self) -> bytes:
        """The first half of the body."""
        return self.body[: len(self.body) // 2]


Send: TypeAlias = Callable[[Outgoing], Coroutine[None, None, web.StreamResponse]]


def _drop(out: Outgoing, *, reset: bool) -> None:
    transport = out.request.transport
    if transport is None:
        return
    if reset:
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        transport.abort()
    else:
        transport.close()


async def reset(out: Outgoing) -> web.StreamResponse:
    """Reset the connection."""
    _drop(out, reset=True)
    return web.Response()


async def hang_up(out: Outgoing) -> web.StreamResponse:
    """Close the connection normally, without a reply."""
    _drop(out, reset=False)
    return web.Response()


async def hang(_: Outgoing) -> NoReturn:
    """Send nothing for as long as the server runs."""
    await asyncio.Future()
    raise AssertionError("a future without a result cannot end")


async def stall(out: Outgoing) -> NoReturn:
    """Send half of the reply, then nothing for as long as the server runs."""
    response = await out.open(Content_Length=str(len(out.body)))
    await response.write(out.half)
    await hang(out)


async def cut(out: Outgoing) -> web.StreamResponse:
    """Announce the length of the whole reply, send half of it and close the connection."""
    response = await out.open(Content_Length=str(len(out.body)))
    await response.write(out.half)
    _drop(out, reset=False)
    return response


async def drip(out: Outgoing) -> NoReturn:
    """Send one space after another (valid at the start of JSON) for as long as the server runs."""
    response = await out.open()
    while True:
        await response.write(b" ")
        await asyncio.sleep(DRIP_S)


async def huge(out: Outgoing) -> web.StreamResponse:
    """Send a reply whose text has 600 MiB."""
    before, after = _split_at_placeholder(out.body)
    response = await out.open()
    await response.write(before)
    chunk = b"a" * _MIB
    for _ in range(HUGE_MIB):
        await response.write(chunk)
    await response.write(after)
    return response


async def gzip_bomb(out: Outgoing) -> web.StreamResponse:
    """Send the reply of `huge` compressed: its text is one compressed block of 1 MiB, repeated."""
    before, after = _split_at_placeholder(out.body)
    block_text = b"a" * _MIB
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    # After a full flush a block does not depend on earlier data, so it can be repeated.
    opening = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(block_text) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum, size = zlib.crc32(before), len(before) + HUGE_MIB * _MIB + len(after)
    response = await out.open(Content_Encoding="gzip")
    await response.write(b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + opening)
    for _ in range(HUGE_MIB):
        checksum = zlib.crc32(block_text, checksum)
        await response.write(block)
    checksum = zlib.crc32(after, checksum)
    await response.write(packer.compress(after) + packer.flush() + struct.pack("<II", checksum, size))
    return response


async def bad_gzip(out: Outgoing) -> web.StreamResponse:
    """Send an uncompressed reply with `Content-Encoding: gzip`."""
    response = await out.open(Content_Encoding="gzip")
    await response.write(out.body)
    return response


async def redirect(_: Outgoing) -> web.StreamResponse:
    """Redirect to `/redirected`. The log shows whether a client follows, and whether it sends its key."""
    return web.Response(status=307, headers={"Location": "/redirected"})


def _split_at_placeholder(body: bytes) -> tuple[bytes, bytes]:
    """Return the body before and after the first placeholder; the whole body and b"" if there is none."""
    before, _, after = body.partition(PLACEHOLDER_TEXT.encode())
    return before, after


_NAME = re.compile(r"([a-z0-9-]+?)(?:-x(\d+))?")


class Refusal(Struct, frozen=True):
    """The request is refused with an error status.

    `retry_after` is the form of the header with the time to wait: `seconds`, `date` or `ms`; "" for no header.
    """

    summary: str
    problem: Problem
    retry_after: str = ""


class OddReply(Struct, frozen=True):
    """The model's reply is changed."""

    summary: str
    change: Callable[[Reply], Reply]


class OddBody(Struct, frozen=True):
    """The reply's bytes are changed, and its content type unless `content_type` is ""."""

    summary: str
    change: Callable[[bytes], bytes]
    content_type: str = ""


class OddSending(Struct, frozen=True):
    """The reply is sent in an unusual way, or not at all. `status` is the status that is sent, 0 for none."""

    summary: str
    send: Send
    status: int = 200


class OddBatch(Struct, frozen=True):
    """A fault of a request in a batch; it has no effect outside of batches."""

    summary: str


class OddStream(Struct, frozen=True):
    """A stream ends after half of its events, with a report of `problem`; other replies are unchanged."""

    summary: str
    problem: Problem


Fault: TypeAlias = Refusal | OddReply | OddBody | OddSending | OddBatch | OddStream


def with_placeholder(reply: Reply) -> Reply:
    """Return a reply with `PLACEHOLDER_TEXT` as its text and without tool calls."""
    return replace(reply, text=PLACEHOLDER_TEXT, tool_uses=(), finish="stop")


def _wrong_type(value: JsonValue) -> JsonValue:
    """Return a value of a type other than that of `value`."""
    if isinstance(value, str | Mapping):
        return 7
    return "many" if value is None or isinstance(value, int | float) else {}


def _number_to_nan(value: JsonValue) -> JsonValue:
    return math.nan if isinstance(value, int | float) and not isinstance(value, bool) else value


def _map_leaves(change: Callable[[JsonValue], JsonValue]) -> Callable[[JsonValue], JsonValue]:
    """Return a function that applies `change` to all values in a JSON value that are not objects or lists."""

    def change_value(value: JsonValue) -> JsonValue:
        if isinstance(value, Mapping):
            return {key: change_value(item) for key, item in value.items()}
        return [change_value(item) for item in value] if isinstance(value, list) else change(value)

    return change_value


def _map_json(change: Callable[[JsonValue], JsonValue]) -> Callable[[bytes], bytes]:
    """Return a function that applies `change` to a JSON body, or to every JSON object in a stream of events."""

    def change_line(line: bytes) -> bytes:
        head = b"data: " if line.startswith(b"data: {") else b""
        data = line.removeprefix(head)
        return head + json.dumps(change(json.loads(data))).encode() if data.startswith(b"{") else line

    return lambda body: b"\n".join(map(change_line, body.split(b"\n")))


def _wrong_top_level(value: JsonValue) -> JsonValue:
    return {key: _wrong_type(item) for key, item in value.items()} if isinstance(value, Mapping) else value


_HTML = b"<!DOCTYPE html><html><body><h1>Sign in</h1></body></html>"
_BUSY = "Too many requests. Slow down."
_NESTED = b"[" * 200_000

FAULTS: Mapping[str, Fault] = {
    "429": Refusal("HTTP 429 with Retry-After in seconds", Problem(429, _BUSY), "seconds"),
    "429-date": Refusal("HTTP 429 with Retry-After as a date", Problem(429, _BUSY), "date"),
    "429-ms": Refusal("HTTP 429 with retry-after-ms", Problem(429, _BUSY), "ms"),
    "429-bare": Refusal("HTTP 429 without a time to wait", Problem(429, _BUSY)),
    "no-credit": Refusal("HTTP 429, code insufficient_quota", Problem(429, "Out of credit.", "insufficient_quota")),
    "400": Refusal("HTTP 400", Problem(400, "The request is wrong.")),
    "401": Refusal("HTTP 401", Problem(401, "Incorrect API key provided.")),
    "403": Refusal("HTTP 403", Problem(403, "Not allowed to use this model.")),
    "404": Refusal("HTTP 404", Problem(404, "The model does not exist.")),
    "408": Refusal("HTTP 408", Problem(408, "The request took too long.")),
    "500": Refusal("HTTP 500", Problem(500, "The server had an error.")),
    "502": Refusal("HTTP 502", Problem(502, "Bad gateway.")),
    "503": Refusal("HTTP 503", Problem(503, "The service is unavailable.")),
    "504": Refusal("HTTP 504", Problem(504, "The gateway timed out.")),
    "529": Refusal("HTTP 529", Problem(529, "Overloaded.")),
    "content-filter": OddReply("a reply stopped by the content filter", lambda _: Reply(finish="filter")),
    "blocked-prompt": OddReply("a prompt refused by the content filter", lambda _: Reply(finish="blocked")),
    "length": OddReply("a reply cut off at the token limit", lambda reply: replace(reply, finish="length")),
    "empty-text": OddReply("a reply with an empty text", lambda _: Reply()),
    "prose": OddReply("prose instead of JSON", lambda _: Reply("Well, it depends on how you look at it.")),
    "half-character": OddReply("a string with half a character (a lone surrogate)", lambda _: Reply("half \ud83d one")),
    "empty": OddBody("an empty body", lambda _: b""),
    "null": OddBody("the body `null`", lambda _: b"null"),
    "truncated": OddBody("JSON that ends in the middle", lambda body: body[: len(body) // 2]),
    "wrong-types": OddBody("top-level values of wrong types", _map_json(_wrong_top_level)),
    "wrong-leaves": OddBody("strings and numbers mixed up", _map_json(_map_leaves(_wrong_type))),
    "nan": OddBody("NaN instead of every number", _map_json(_map_leaves(_number_to_nan))),
    "not-utf8": OddBody(
        "invalid UTF-8 in the text", lambda body: body.replace(PLACEHOLDER_TEXT.encode(), b"\xff\xfe\xfa")
    ),
    "nested": OddBody("200,000 nested brackets", lambda _: _NESTED),
    "html": OddBody("an HTML page instead of JSON", lambda _: _HTML, "text/html"),
    "error-in-200": OddBody("an error with HTTP 200", lambda _: b'{"error": {"message": "It broke.", "code": 500}}'),
    "reset": OddSending("the connection is reset", reset, 0),
    "hang-up": OddSending("the connection is closed without a reply", hang_up, 0),
    "hang": OddSending("no reply, ever", hang, 0),
    "stall": OddSending("half a reply, then nothing", stall),
    "cut": OddSending("half a reply, then the connection is closed", cut),
    "drip": OddSending("a space every 50 ms, for ever", drip),
    "huge": OddSending("a reply of 600 MiB", huge),
    "gzip-bomb": OddSending("600 MiB packed into about 600 KiB", gzip_bomb),
    "bad-gzip": OddSending("a body declared as gzip that is not gzip", bad_gzip),
    "redirect": OddSending("HTTP 307 to another path", redirect, 307),
    "error-event": OddStream("in a stream: half a reply, then an error event", Problem(503, "Overloaded.")),
    "batch-lost": OddBatch("in a batch: the request has no result"),
    "batch-expired": OddBatch("in a batch: the request is not answered in time"),
    "batch-failed": OddBatch("in a batch: the whole batch fails"),
}
"""Every fault by name.

`NAME-xN` (`429-x2`) applies to the first N attempts of a request; later attempts are answered. `OddBatch` ignores N.
"""

FAULTS_WITH_PLACEHOLDER: frozenset[str] = frozenset({"not-utf8", "huge", "gzip-bomb"})
"""The faults that replace `PLACEHOLDER_TEXT` in the body of a reply."""


class ChosenFault(Struct, frozen=True):
    """A fault, and the number of attempts of each request to which it applies: `times` is None for all."""

    name: str
    fault: Fault
    times: int | None = None


def choose_fault(model: str) -> ChosenFault | None:
    """Return the fault that a model's name selects: by what follows the last @, or without an @ by the whole name.

    A name without an @ that is not a fault gives None. Raises RefusedError for an unknown fault after the @.
    """
    _, at, suffix = model.rpartition("@")
    match = _NAME.fullmatch(suffix)
    fault = FAULTS.get(match[1]) if match else None
    if match is None or fault is None:
        if at:
            known = ", ".join(FAULTS)
            raise refused(
                f"Unknown fault {suffix!r}; known: {known}, each also as NAME-xN for the first N attempts.", status=404
            )
        return None
    return ChosenFault(match[1], fault, int(match[2]) if match[2] else None)
