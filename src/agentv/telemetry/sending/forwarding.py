"""Exports that were received, passed on to a collector as they came, in a thread and in bounded memory."""

import time
from collections import deque
from threading import Condition, Thread

from msgspec import Struct

from agentv.telemetry.sending.collector import Collector
from agentv.telemetry.sending.post import Refused, post

MOST_WAITING_BYTES = 64 * 2**20
"""The size of the exports that wait; further ones are not passed on, and counted."""
END_WAIT_S = 3.0
"""How long the end waits until the last exports are passed on."""
_BACKOFF_S, _MAX_BACKOFF_S = 1.0, 30.0


class Forwarded(Struct, frozen=True):
    """What was passed on to a collector, counted in requests, and what was not."""

    shown: str
    """The address."""
    sent: int
    unsent: int
    reason: str | None = None
    """Why requests were not passed on."""


class _Waiting(Struct, frozen=True):
    signal: str
    content_type: str
    body: bytes


class Forwarder:
    """Passes received exports on to a collector. `put` never waits; it may be called in any thread.

    A collector that is silent or refuses for now is tried again; one that refuses for good loses the request. A signal
    that it does not take is left out.
    """

    def __init__(self, collector: Collector, *, most_bytes: int = MOST_WAITING_BYTES) -> None:
        self._collector, self._most_bytes = collector, most_bytes
        self._waiting: deque[_Waiting] = deque()
        self._bytes = self._sent = self._lost = 0
        self._reason: str | None = None
        self._left_out: set[str] = set()
        self._changed = Condition()
        self._ends_at: float | None = None
        self._thread: Thread | None = None

    @property
    def shown(self) -> str:
        """The address of the collector in messages."""
        return self._collector.shown

    def put(self, signal: str, content_type: str, body: bytes) -> None:
        """Pass an export on, unless the collector does not take its signal or too many wait."""
        with self._changed:
            if signal not in self._collector.endpoints or signal in self._left_out:
                return
            if self._bytes + len(body) > self._most_bytes:
                self._lost += 1
                self._reason = self._reason or f"more than {self._most_bytes // 2**20} MiB waited"
                return
            self._waiting.append(_Waiting(signal, content_type, body))
            self._bytes += len(body)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="agentv-forward", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> Forwarded:
        """Wait until all is passed on, END_WAIT_S at most, and return what was; the thread ends with the process."""
        with self._changed:
            self._ends_at = time.monotonic() + END_WAIT_S
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(END_WAIT_S)
        with self._changed:
            unsent = self._lost + len(self._waiting)
            reason = self._reason or f"not done {END_WAIT_S:g} s after the end"
            return Forwarded(self.shown, self._sent, unsent, reason if unsent else None)

    def _work(self) -> None:
        attempt = 0
        while (first := self._first()) is not None:
            is_last = self._ends_at is not None
            outcome = post(self._collector.endpoints[first.signal], first.body, content_type=first.content_type)
            refused = outcome if isinstance(outcome, Refused) else None
            with self._changed:
                if refused is None or not refused.is_retryable:
                    attempt = 0
                    self._finish(first, refused)
                    continue
                self._reason = refused.reason
                if is_last:
                    return
                pause_s = min(_BACKOFF_S * 2 ** min(attempt, 10), _MAX_BACKOFF_S)
                self._changed.wait_for(lambda: self._ends_at is not None, pause_s)  # the end cuts it short
                attempt += 1

    def _first(self) -> _Waiting | None:
        """Wait for an export and return the first one; None at the end."""
        with self._changed:
            while not self._waiting:
                if self._ends_at is not None:
                    return None
                self._changed.wait()
            return self._waiting[0]

    def _finish(self, done: _Waiting, refused: Refused | None) -> None:
        self._waiting.popleft()
        self._bytes -= len(done.body)
        if refused is None:
            self._sent += 1
        elif refused.is_unsupported and done.signal != "traces":
            self._left_out.add(done.signal)
        else:
            self._lost += 1
            self._reason = refused.reason
