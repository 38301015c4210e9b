"""Commands are started by a thread of their own, one after another.

Whoever starts a process waits till its program is loaded, and a new process often queues behind one that runs. Were
the event loop to wait there, its processor would stand idle; this thread waits while the loop does what is ready. The
loop is not woken when a command has started: it only hears of its end.
"""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

from agentv.execution.exchange import Exchange
from agentv.execution.exits import Exits, Watched
from agentv.execution.live_trees import STARTING
from agentv.execution.tree import ProcessTree, start_tree

_queue: "queue.SimpleQueue[Start]" = queue.SimpleQueue()
_threads: list[threading.Thread] = []


class Start:
    """A command on its way. `tree` is there once it runs; `error` when it could not be started."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str] | None,
        exchange: Exchange,
        exits: Exits,
    ) -> None:
        self.tree: ProcessTree | None = None
        self.error: Exception | None = None
        self._words, self._cwd, self._env = words, cwd, env
        self._exchange = exchange
        self._exits = exits
        self._watched: Watched | None = None
        self._is_done = False
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] | None = None

    def is_done(self) -> bool:
        """Whether it runs, has run, or could not be started."""
        return self._is_done

    def begin(self) -> None:
        """Have it started."""
        if not _threads:
            _threads.append(threading.Thread(target=_start_all, daemon=True, name="agentv-start"))
            _threads[0].start()
        STARTING.add(self)
        _queue.put(self)

    def start(self) -> None:
        """Start it now; in the thread. The loop hears of its end, of nothing before."""
        tree: ProcessTree | None = None
        pipes = self._exchange
        try:
            tree = start_tree(
                self._words,
                cwd=self._cwd,
                env=self._env,
                stdin=pipes.stdin,
                stdout=pipes.stdout,
                stderr=pipes.stderr,
            )
            self._watched = self._exits.watch(tree.process, pipes.exited)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to who asked for the command
            self.error = error
            self._tell(pipes.exited)
        self.tree = tree
        self._is_done = True
        STARTING.discard(self)
        if self._done is not None:
            self._tell(self._settle)

    def _tell(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(what)

    def _settle(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    @property
    def exit_code(self) -> int | None:
        """How the command ended; -N when signal N did it."""
        return self.tree.process.returncode if self.tree is not None else None

    def let_go(self) -> bool:
        """Forget the command when it is over and left nobody behind; False when there is somebody to end."""
        return self._is_done and (self.tree is None or (self._exchange.has_exited and self.tree.let_go()))

    async def end(self) -> None:
        """Leave nobody behind, as `ProcessTree.end` does; what is about to start is waited for."""
        self._done = self._loop.create_future()
        if not self._is_done:  # if it is by now, nobody might tell
            await self._done
        if self.tree is not None:
            await self.tree.end()

    def kill(self) -> bool:
        """Send SIGKILL to whoever runs by now; True when nobody does, and nobody is about to."""
        return self._is_done and (self.tree is None or self.tree.kill())

    def close(self) -> None:
        """Wait for its end no more."""
        self._exits.forget(self._watched)


def _start_all() -> None:
    while True:
        _queue.get().start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.clear)
