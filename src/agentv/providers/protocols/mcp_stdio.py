"""The pipes of an MCP server that runs as a process: JSON-RPC messages, one per line.

The SDK's own transport is not used: its processes would not be known to agentv, which ends every command of a run
(execution/processes), and what a server wrote to the wrong stream would be lost.
"""

import asyncio
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeAlias

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from msgspec import Struct

from agentv.execution.processes.tree import ProcessTree, finish, start_tree

MAX_MESSAGE_BYTES = 32 * 2**20
_STDERR_TAIL = 2_000
_GRACE_S = 2.0
_SHOWN = 200

Received: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]
"""What the server sends, and where to write what it is sent."""


class ServerCommand(Struct, frozen=True):
    """The command of a server. `inherit` None passes on all variables of our environment, else only these and PATH."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    inherit: tuple[str, ...] | None


class ServerProcess:
    """A server's process, started and ended as an asynchronous context, which yields streams for the SDK.

    `stray_lines` counts the lines on standard output that are not messages, of which `stray` is the first.
    `error_bytes` is how much it wrote to standard error so far.
    """

    def __init__(self, command: ServerCommand) -> None:
        self.stray_lines = 0
        self.stray = ""
        self.is_too_large = False
        self._command = command
        self.error_bytes = 0
        self._errors = b""
        self._tree: ProcessTree | None = None
        self._exit_code: int | None = None
        self._ended = asyncio.Event()

    @property
    def cwd(self) -> str:
        """The working folder of the server."""
        return self._command.cwd

    def errors_since(self, start: int) -> str:
        """Return the end of what it wrote to standard error after the first `start` bytes."""
        length = min(self.error_bytes - start, len(self._errors))
        return self._errors[len(self._errors) - length :].decode(errors="replace")[-_STDERR_TAIL:].strip()

    @property
    def exit_code(self) -> int | None:
        """The exit code of a server that ended by itself; None while it runs, and if it was ended here."""
        return self._exit_code

    async def __aenter__(self) -> Streams:
        """Start the server. Raises OSError if it cannot start, ValueError for a NUL byte."""
        command = self._command
        self._tree = start_tree(command.argv, cwd=command.cwd, env=command.env, inherit=command.inherit)
        try:
            return await self._connect(self._tree.process)
        except BaseException:
            await finish(self._tree.end())
            raise

    async def __aexit__(self, *_error: object) -> None:
        """Close the server's input, give it two seconds to end by itself, and end what is left of it."""
        await finish(self._end())

    async def _connect(self, process: "subprocess.Popen[bytes]") -> Streams:
        loop = asyncio.get_running_loop()
        output = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        errors = asyncio.StreamReader()
        self._pipes = [
            (await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(output), process.stdout))[0],
            (await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), process.stderr))[0],
        ]
        pipe, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        self._input = asyncio.StreamWriter(pipe, protocol, None, loop)
        received, read_stream = anyio.create_memory_object_stream[Received](0)
        write_stream, sent = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (received, read_stream, write_stream, sent)
        self._reading = loop.create_task(self._read(output, received))
        self._tasks = [self._reading, loop.create_task(self._write(sent)), loop.create_task(self._drain(errors))]
        return read_stream, write_stream

    async def _read(self, output: asyncio.StreamReader, received: MemoryObjectSendStream[Received]) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with received:
                while line := await self._line(output):
                    if not line.strip():
                        continue
                    try:
                        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        self._stray(line)
                        continue
                    await received.send(SessionMessage(message))
        self._ended.set()
        with suppress(ConnectionError):  # a server must not block on output that is not read any more
            while await output.read(2**16):
                pass

    async def _line(self, output: asyncio.StreamReader) -> bytes:
        try:
            return await output.readline()
        except ValueError:
            self.is_too_large = True
            return b""

    def _stray(self, line: bytes) -> None:
        self.stray_lines += 1
        if self.stray_lines == 1:
            self.stray = line.decode(errors="replace").strip()[:_SHOWN]

    async def _write(self, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
        with suppress(anyio.ClosedResourceError, OSError):
            async with sent:
                async for message in sent:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._input.write(line.encode() + b"\n")
                    await self._input.drain()

    async def _drain(self, errors: asyncio.StreamReader) -> None:
        while piece := await errors.read(2**16):
            self.error_bytes += len(piece)
            self._errors = (self._errors + piece)[-4 * _STDERR_TAIL :]

    async def _end(self) -> None:
        tree = self._tree
        if tree is None:
            return
        self._input.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._ended.wait()
                await asyncio.shield(self._tasks[2])
        has_ended = self._ended.is_set()
        await tree.end()
        self._exit_code = tree.process.returncode if has_ended else None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pipe in self._pipes:
            pipe.close()
        for stream in self._streams:
            stream.close()
