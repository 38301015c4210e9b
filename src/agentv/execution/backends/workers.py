"""Warm worker processes for a user's function: started on demand, reused, and replaced when broken."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self, cast

from agentv.execution.processes.process import MAX_OUTPUT_BYTES, STDERR_TAIL
from agentv.execution.processes.tree import ProcessTree, finish, start_tree
from agentv.types.errors import EvaluatorError
from agentv.types.failures import FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json


class WorkerPool:
    """Calls one function in processes of its own, one per concurrent call.

    `reference` is `path/file.py:function` or `package.module:function`, searched from `base_dir`. Use the pool as an
    async context manager: its processes end with it.
    """

    def __init__(self, reference: str, base_dir: str) -> None:
        self.reference = reference
        self._base_dir = base_dir
        self._idle: list[_Worker] = []

    async def __aenter__(self) -> Self:
        """Return the pool; the first process starts with the first call."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(worker.end() for worker in idle))

    async def call(self, payload: JsonObject, *, timeout_s: float | None) -> JsonValue:
        """Call the function with `payload` and return what it returns, as JSON.

        Raises EvaluatorError when the function raises, does not return in time (its process is killed), or crashes its
        process; the next call is not affected.
        """
        worker = self._idle.pop() if self._idle else await _Worker.start(self.reference, self._base_dir)
        healthy = False
        try:
            async with asyncio.timeout(timeout_s):
                message = await worker.call(compact_json(payload).encode("utf-8", "surrogatepass") + b"\n")
            healthy = message.get("kind") != "plugin_error"  # the process could not load the function, and ends
        except TimeoutError:
            raise self._error(f"did not return within {timeout_s:g} s; its process was ended", "deadline") from None
        except _BrokenError as error:
            raise self._error(str(error)) from None
        finally:
            if healthy:
                self._idle.append(worker)
            else:
                await worker.end()
        if "value" in message:
            return message["value"]
        raise self._error(str(message.get("error")), cast(FailureKind, message.get("kind")))

    def _error(self, what: str, kind: FailureKind = "evaluator_error") -> EvaluatorError:
        return EvaluatorError(f"{self.reference} {what}", kind=kind)


class _BrokenError(Exception):
    """A worker cannot continue. The message is a predicate of the function, such as `crashed its process`."""


class _Worker:
    """One process and the three pipes to it."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._responses = asyncio.StreamReader(limit=MAX_OUTPUT_BYTES)
        self._stderr = _Tail()
        self._transports: list[asyncio.BaseTransport] = []
        self._requests: asyncio.WriteTransport | None = None

    @classmethod
    async def start(cls, reference: str, base_dir: str) -> Self:
        """Start a process; it loads the function before it answers the first call."""
        argv = (sys.executable, "-P", "-m", "agentv.execution.processes.worker_process", reference, base_dir)
        worker = cls(start_tree(argv, cwd=base_dir, env=None, stdin=subprocess.PIPE))
        try:
            await worker._connect()
        except BaseException:
            await worker.end()
            raise
        return worker

    async def _connect(self) -> None:
        loop, process = asyncio.get_running_loop(), self._tree.process
        responses, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._responses), process.stdout
        )
        stderr, _ = await loop.connect_read_pipe(lambda: self._stderr, process.stderr)
        self._requests, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        self._transports = [responses, stderr, self._requests]

    async def call(self, line: bytes) -> Mapping[str, JsonValue]:
        """Send a request and return the response. Raises _BrokenError when there is none."""
        if self._requests is not None:
            self._requests.write(line)
        try:
            response = await self._responses.readline()
        except ValueError:
            raise _BrokenError(f"returned more than {MAX_OUTPUT_BYTES // 2**20} MiB") from None
        if not response.endswith(b"\n"):
            raise _BrokenError(f"crashed its process{self._stderr.text()}")
        message: Mapping[str, JsonValue] = json.loads(response)
        return message

    async def end(self) -> None:
        """End the process and all its descendants."""
        for transport in self._transports:
            transport.close()
        await finish(self._tree.end())


class _Tail(asyncio.Protocol):
    """Stores the end of a worker's standard error, to which the user's function prints."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def data_received(self, data: bytes) -> None:
        """Store the last bytes."""
        self._bytes += data
        del self._bytes[: -4 * STDERR_TAIL]

    def text(self) -> str:
        """Return the stored output as the end of a message; empty when there is none."""
        text = self._bytes.decode(errors="replace")[-STDERR_TAIL:].strip()
        return f"; standard error: {text}" if text else ""
