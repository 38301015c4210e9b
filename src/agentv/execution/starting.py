"""Commands are started by a thread of their own, one after another.

Whoever starts a process waits till its program is loaded, and a new process often queues behind one that runs. Were
the event loop to wait there, its processor would stand idle; this thread waits while the loop does what is ready. The
loop is not woken when a command has started: it only hears of its end.
"""

import asyncio
import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping, Sequence

from agentv.execution.exchange import Exchange
from agentv.execution.exits import Exits, Watched
from agentv.execution.live_trees import STARTING
from agentv.execution.tree import ProcessTree, finish, start_tree

_queue: "queue.SimpleQueue[Start]" = queue.SimpleQueue()
_threads: list[threading.Thread] = []
_lock = threading.Lock()


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
        self._turn = threading.Lock()
        self._is_done = False
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] | None = None

    def is_done(self) -> bool:
        """Whether it runs, has run, could not be started, or never will be."""
        return self._is_done

    def begin(self) -> None:
        """Have it started."""
        _have_a_thread()
        STARTING.add(self)
        _queue.put(self)

    def start(self) -> None:
        """Start it now; in the thread. The loop hears of its end, of nothing before."""
        pipes = self._exchange
        if not self._take_turn():
            self._tell(pipes.end)
            return
        try:
            stdin, stdout, stderr = pipes.open()
            self.tree = start_tree(self._words, cwd=self._cwd, env=self._env, stdin=stdin, stdout=stdout, stderr=stderr)
            pipes.started()
            self._watched = self._exits.watch(self.tree.process, pipes.exited)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to who asked for the command
            self.error = error
        self._is_done = True
        STARTING.discard(self)
        if self.error is not None:
            self._tell(pipes.end)
        if self._done is not None:
            self._tell(self._settle)

    def _take_turn(self) -> bool:
        """Whether nobody did before: the thread, which starts it then, or who gives it up, so that nobody does."""
        return self._turn.acquire(blocking=False)

    def _give_up(self) -> bool:
        """Have it never started; False when it is too late for that."""
        if self._take_turn():
            self._is_done = True
            STARTING.discard(self)
        return self._is_done and self.tree is None

    def _tell(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(what)

    def _settle(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    @property
    def exit_code(self) -> int | None:
        """How the command ended; -N when signal N did it, or would have, had it not been given up before."""
        return self.tree.process.returncode if self.tree is not None else -signal.SIGKILL

    def let_go(self) -> bool:
        """Forget the command when it is over and left nobody behind; False when there is somebody to end."""
        if self.tree is None:
            return self._give_up()
        return self._is_done and self._exchange.has_exited and self.tree.let_go()

    async def end(self) -> None:
        """Leave nobody behind, as `ProcessTree.end` does; what is being started is waited for, come what may."""
        self._done = self._loop.create_future()
        try:
            if not self._is_done:  # if it is by now, nobody might tell
                await finish(self._done)
        except asyncio.CancelledError:
            self.kill()
            raise
        finally:
            if self.tree is not None:
                await self.tree.end()

    def kill(self) -> bool:
        """Send SIGKILL to whoever runs by now; True when nobody does, and nobody is about to."""
        return self._give_up() or (self.tree is not None and self.tree.kill())

    def close(self) -> None:
        """Wait for its end no more."""
        self._exits.forget(self._watched)


def _start_all() -> None:
    while True:
        _queue.get().start()


def _have_a_thread() -> None:
    if _threads:
        return
    with _lock:
        if not _threads:
            thread = threading.Thread(target=_start_all, daemon=True, name="agentv-start")
            thread.start()
            _threads.append(thread)


def _start_afresh() -> None:
    """Have a thread of our own, and leave what is in the queue to the process that we are a copy of."""
    global _queue, _lock
    _queue, _lock = queue.SimpleQueue(), threading.Lock()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
