"""Faulty ways of sending a reply."""

import asyncio
import socket
import struct
import zlib
from collections.abc import Callable, Coroutine
from typing import NoReturn, TypeAlias

from aiohttp import web
from msgspec import Struct

FILLING = "FILLED-BY-A-FAULT"
"""The placeholder text of a reply, which a fault replaces."""

HUGE_MIB = 600
DRIP_S = 0.05
_MIB = 2**20
_LINGER = struct.pack("ii", 1, 0)


class Outgoing(Struct, frozen=True):
    """A reply that is ready to be sent."""

    request: web.Request
    body: bytes
    content_type: str

    async def open(self, **headers: str) -> web.StreamResponse:
        """Send the head of a reply with status 200."""
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
        held: socket.socket = transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
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
    """Send a valid reply with a text of 600 MiB."""
    before, after = _around(out.body)
    response = await out.open()
    await response.write(before)
    chunk = b"a" * _MIB
    for _ in range(HUGE_MIB):
        await response.write(chunk)
    await response.write(after)
    return response


async def gzip_bomb(out: Outgoing) -> web.StreamResponse:
    """Send the same reply compressed: one block of 1 MiB, repeated."""
    before, after = _around(out.body)
    filling = b"a" * _MIB
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    # After a full flush a block does not depend on earlier data, so it can be repeated.
    opening = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(filling) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum, size = zlib.crc32(before), len(before) + HUGE_MIB * _MIB + len(after)
    response = await out.open(Content_Encoding="gzip")
    await response.write(b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + opening)
    for _ in range(HUGE_MIB):
        checksum = zlib.crc32(filling, checksum)
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
    """Redirect the client; a call of `/redirected` in the log shows that it followed, and with which key."""
    return web.Response(status=307, headers={"Location": "/redirected"})


def _around(body: bytes) -> tuple[bytes, bytes]:
    before, _, after = body.partition(FILLING.encode())
    return before, after
