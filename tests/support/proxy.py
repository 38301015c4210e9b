"""An HTTP proxy in a process of its own, to which every host is the same server on loopback."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from msgspec import Struct


class Proxy(Struct):
    """A running proxy."""

    address: str
    process: "subprocess.Popen[str]"

    def requests(self) -> list[str]:
        """End the proxy, and return the first line of each request with the credentials that it had."""
        self.process.terminate()
        return cast(IO[str], self.process.stdout).read().splitlines()


@contextmanager
def proxying(port: int, *, refuses: str = "") -> Iterator[Proxy]:
    """Start a proxy that passes everything on to a port of this machine, or refuses it with a status."""
    with subprocess.Popen([sys.executable, __file__, str(port), refuses], stdout=subprocess.PIPE, text=True) as process:
        address = cast(IO[str], process.stdout).readline().strip()
        try:
            yield Proxy(address, process)
        finally:
            process.kill()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _serve(port: int, refuses: str) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *headers = head.split("\r\n")
        given = next((text.split()[-1] for text in headers if text.lower().startswith("proxy-authorization:")), "-")
        print(line, given, flush=True)
        if refuses:
            writer.write(f"HTTP/1.1 {refuses}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()
            return
        there, out = await asyncio.open_connection("127.0.0.1", port)
        if line.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            method, url, version = line.split()
            path = "/" + url.split("/", 3)[3]
            out.write("\r\n".join([f"{method} {path} {version}", *headers]).encode())
        await asyncio.gather(_copy(reader, out), _copy(there, writer), return_exceptions=True)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2]))
