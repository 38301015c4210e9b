"""Which commands have exited: one descriptor tells an event loop of all of its commands.

A reader of the loop for each command costs several times as much, and only the loop's own thread could add it.
"""

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable

from msgspec import Struct

_by_loop: dict[asyncio.AbstractEventLoop, "Exits"] = {}


class Watched(Struct, frozen=True):
    """A command whose end is waited for; the number of its pidfd is another's when it is closed."""

    pidfd: int
    exited: Callable[[], None]


class Exits:
    """The commands of one event loop. Nothing is held open while there are none.

    `nothing` is a descriptor of the null device, for commands that get no input.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._commands = 0
        self._watched: dict[int, Watched] = {}
        self._epoll = select.epoll() if sys.platform == "linux" else None
        self.nothing = os.open(os.devnull, os.O_RDWR)
        if self._epoll is not None:
            try:
                loop.add_reader(self._epoll.fileno(), self._report)
            except OSError:
                os.close(self.nothing)
                raise

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "Exits":
        """Return the loop's own, for one command more; give it back with `leave`."""
        exits = _by_loop.get(loop)
        if exits is None:
            exits = _by_loop[loop] = cls(loop)
        exits._commands += 1
        return exits

    def leave(self) -> None:
        """Say that one of the commands is over and done with."""
        self._commands -= 1
        if self._commands:
            return
        _by_loop.pop(self._loop, None)
        os.close(self.nothing)
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def watch(self, process: "subprocess.Popen[bytes]", exited: Callable[[], None]) -> Watched | None:
        """Have `exited` called in the loop when a process is over, and return what to `forget`; from any thread.

        Where there is no pidfd, a thread waits for the process.
        """
        if self._epoll is not None:
            with contextlib.suppress(AttributeError, OSError):  # a Python or kernel without, or no descriptor left
                return self._add(self._epoll, Watched(os.pidfd_open(process.pid), exited))
        threading.Thread(target=self._wait, args=(process, exited), daemon=True, name="agentv-wait").start()
        return None

    def _add(self, epoll: "select.epoll", watched: Watched) -> Watched:
        self._watched[watched.pidfd] = watched
        try:
            epoll.register(watched.pidfd, select.EPOLLIN)
        except (OSError, ValueError):  # ValueError: there is no epoll any more
            del self._watched[watched.pidfd]
            os.close(watched.pidfd)
            raise
        return watched

    def forget(self, watched: Watched | None) -> None:
        """Wait no more for the end of a command, unless it has been told."""
        if self._epoll is not None and watched is not None and self._watched.get(watched.pidfd) is watched:
            del self._watched[watched.pidfd]
            self._epoll.unregister(watched.pidfd)  # to close it is not enough: a command that starts now has a copy
            os.close(watched.pidfd)

    def _report(self) -> None:
        if self._epoll is not None:
            for pidfd, _ in self._epoll.poll(0):
                watched = self._watched.get(pidfd)
                if watched is None:
                    with contextlib.suppress(OSError):
                        self._epoll.unregister(pidfd)
                else:
                    self.forget(watched)
                    watched.exited()

    def _wait(self, process: "subprocess.Popen[bytes]", exited: Callable[[], None]) -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(exited)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_by_loop.clear)
