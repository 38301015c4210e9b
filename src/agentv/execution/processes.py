"""Run a command to its end, whatever it does: hang, flood, fork, close its pipes, or never read its input.

The event loop moves the bytes and hears of the end; a thread does nothing but start commands. asyncio's own subprocess
support is not used: its wait lasts as long as any grandchild holds the pipe.
"""

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct

from agentv.execution.exchange import STDERR_TAIL, Exchange, Listener
from agentv.execution.exits import Exits
from agentv.execution.starting import Start
from agentv.execution.tree import finish

__all__ = ["MAX_OUTPUT_BYTES", "STDERR_TAIL", "Command", "Listener", "Outcome", "run_process"]

MAX_OUTPUT_BYTES = 10 * 2**20


class Command(Struct, frozen=True):
    """What to run: `argv` directly, or `shell` as a text for sh; exactly one of the two.

    `env` is added to our environment. `stdin` is written while the command runs; one that never reads it is fine.
    """

    argv: tuple[str, ...] = ()
    shell: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    stdin: bytes = b""

    def __post_init__(self) -> None:
        """Refuse a command with no program, or with two."""
        if bool(self.argv) == (self.shell is not None):
            raise ValueError("a Command has either argv or shell")

    @property
    def words(self) -> tuple[str, ...]:
        """The argument list that is executed."""
        return self.argv or ("/bin/sh", "-c", self.shell or "")


class Outcome(Struct, frozen=True):
    """How a command ended. `exit_code` is None when we ended it; -N when signal N did.

    `stdout` is whole unless `too_large`, and empty when a listener took it. `stderr` holds its last 2,000 characters,
    bad bytes replaced.
    """

    exit_code: int | None
    stdout: bytes
    stderr: str
    timed_out: bool = False
    too_large: bool = False
    duration_s: float = 0.0


async def run_process(
    command: Command,
    *,
    timeout_s: float | None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    listener: Listener | None = None,
) -> Outcome:
    """Run a command in a session of its own and return how it ended; none of its descendants outlives the call.

    A `listener` gets standard output chunk by chunk while the command runs, and decides instead of `max_output_bytes`
    what is too large. Past `timeout_s`, past `max_output_bytes` of standard output, and on cancellation the whole tree
    gets SIGTERM, after two seconds SIGKILL; what a successful command left in the background likewise. Raises OSError
    when it cannot be started (no such program or folder, arguments too long), ValueError when an argument holds a NUL.
    """
    started = time.monotonic()
    exits = Exits.of(asyncio.get_running_loop())
    try:
        exchange = Exchange(command.stdin, exits.nothing, max_output_bytes, listener)
        start = Start(command.words, cwd=command.cwd, env=command.env, exchange=exchange, exits=exits)
        try:
            exchange.begin(timeout_s, start.is_done)
            start.begin()
            await exchange.over
        finally:
            try:
                if not start.let_go():
                    await finish(start.end())
            finally:
                start.close()
                exchange.close()
    finally:
        exits.leave()
    error = start.error or exchange.error
    if error is not None:
        raise error
    return Outcome(
        exit_code=None if exchange.timed_out or exchange.too_large else start.exit_code,
        stdout=bytes(exchange.output),
        stderr=exchange.errors.decode(errors="replace")[-STDERR_TAIL:],
        timed_out=exchange.timed_out,
        too_large=exchange.too_large,
        duration_s=time.monotonic() - started,
    )
