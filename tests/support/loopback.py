"""A real HTTP server on loopback, in its own thread, with given answers."""

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Writer = asyncio.StreamWriter
Answer = Callable[[Writer], Awaitable[None]]


@dataclass
class ReceivedRequest:
    """One request as received. Header names are in lower case."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Server:
    """A server's port, its received requests, and its answers: one per request, the last one repeatedly."""

    answers: list[Answer]
    requests: list[ReceivedRequest] = field(default_factory=list)
    port: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            line, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            named = {
                name.lower(): value.strip() for name, _, value in (text.partition(":") for text in headers if text)
            }
            body = await reader.readexactly(int(named.get("content-length", 0)))
            self.requests.append(ReceivedRequest(line, named, body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            await answer(writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@contextmanager
def serving(*answers: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve until the end of the block. Each connection is closed after one request."""
    server, ready = Server(list(answers), tls=tls), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
        server.port = listener.sockets[0].getsockname()[1]
        ready.set()
        async with listener:
            await stop.wait()
            await turns(50)  # a connection that was just taken reaches `serve`, which closes it
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await turns(5)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        ready.wait()
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def reply(
    body: bytes | str, *, status: str = "200 OK", headers: Mapping[str, str] | None = None, length: int | None = None
) -> Answer:
    """Answer with a status, headers and a body; `length` may lie."""
    content = body.encode() if isinstance(body, str) else body
    all_headers = {
        "Content-Length": str(len(content) if length is None else length),
        "Connection": "close",
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())

    async def answer(writer: Writer) -> None:
        writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content)
        await writer.drain()

    return answer


def reply_with_id(servers: list[Server], body: str, **about: Any) -> Answer:
    """Answer as `reply` does, with the id of the JSON-RPC request to the first server in place of "ID" in the body."""

    async def answer(writer: Writer) -> None:
        request = servers[0].requests[-1].body
        asked = json.loads(request) if request.startswith(b"{") else {}
        await reply(body.replace('"ID"', json.dumps(asked.get("id"))), **about)(writer)

    return answer


def endless(chunk: bytes, *, head: str = "", times: int = 1_000_000, pause_s: float = 0.0) -> Answer:
    """Answer with the same bytes again and again, as fast as they are read or with a pause between."""

    async def answer(writer: Writer) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
        for _ in range(times):
            writer.write(chunk)
            await writer.drain()
            if pause_s:
                over = asyncio.Event()
                asyncio.get_running_loop().call_later(pause_s, over.set)
                await over.wait()

    return answer


async def never_answer(_: Writer) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def hang_up(writer: Writer) -> None:
    """Close the connection without a word."""
    writer.close()
