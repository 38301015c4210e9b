"""Traces that arrive while their agents are running: the time at which each is complete."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.telemetry.otlp.spans import Span, is_placeholder

SETTLE_S = 2.0
"""How long after its last span a trace is waited for that lacks nothing."""
PATIENCE_S = 10.0
"""How long one is waited for that other exporters may complete: processes with spans above it, or its log records."""
AT_WORK_S = 30.0
"""How long after its last span an agent is taken to be at work if the span around that one has not arrived."""

Gap: TypeAlias = Literal["none", "remote", "local", "unknown"]
"""What a trace lacks: nothing; a span of another process; one of the same process; one of which that is not known."""


def gap_of(spans: Sequence[Span]) -> Gap:
    """Return what the spans of one trace lack. A parent is exported after its children, because it ends later."""
    ids = {span.span_id for span in spans if not span.is_log and not is_placeholder(span)}
    # A log record and a placeholder arrive while their span is open.
    ahead = {
        span.parent_id if is_placeholder(span) else span.span_id
        for span in spans
        if span.is_log or is_placeholder(span)
    }
    orphans = [
        span
        for span in spans
        if span.parent_id and span.parent_id not in ids and not span.is_log and not is_placeholder(span)
    ]
    if any(span.is_parent_remote is False for span in orphans):
        return "local"
    if ahead - ids - {""} or any(span.is_parent_remote is None for span in orphans):
        return "unknown"
    return "remote" if orphans else "none"


class Arrival(Struct, frozen=True):
    """A trace of which no span has arrived for a while."""

    trace_id: str
    last_s: float
    """The moment of its last span."""
    waited_s: float
    has_outermost: bool = False


class Arrivals:
    """The open traces by the time until which more spans are awaited. All times are seconds of any one clock.

    Traces with their outermost span are due in the order in which that arrived: one may continue the conversation of
    another, for which log records are still awaited.
    """

    def __init__(self, idle_s: float) -> None:
        self._waits: dict[float, OrderedDict[str, float]] = {
            min(wait_s, idle_s): OrderedDict() for wait_s in (SETTLE_S, PATIENCE_S, idle_s)
        }
        self._shortest, self._longest = min(self._waits), max(self._waits)
        self._wait_of: dict[str, float] = {}
        self._order: OrderedDict[str, None] = OrderedDict()
        """Traces with their outermost span that are not waited for until they are idle."""

    def add(self, trace_id: str, now_s: float, *, is_outermost: bool) -> None:
        """Note that a span of a trace has arrived."""
        self._put(trace_id, now_s, self._shortest)
        if is_outermost:
            self._order.setdefault(trace_id)

    def due(self, now_s: float) -> Iterator[Arrival]:
        """Yield the traces that have been waited for long enough, and forget them."""
        while found := [arrival for arrival in self._quiet() if self._due_s(arrival) <= now_s]:
            for arrival in found:
                self.forget(arrival.trace_id)
                yield arrival

    def _quiet(self) -> Iterator[Arrival]:
        """Yield the traces of each wait, up to the first that no other delays."""
        for wait_s, traces in self._waits.items():
            for trace_id, last_s in traces.items():
                arrival = Arrival(trace_id, last_s, wait_s, trace_id in self._order)
                yield arrival
                if not self._is_delayed(trace_id):
                    break

    def _is_delayed(self, trace_id: str) -> bool:
        return trace_id in self._order and next(iter(self._order)) != trace_id

    def _due_s(self, arrival: Arrival) -> float:
        return arrival.last_s + arrival.waited_s + (PATIENCE_S if self._is_delayed(arrival.trace_id) else 0.0)

    def wait(self, arrival: Arrival, wait_s: float) -> bool:
        """Wait for a trace until this long after its last span; return False if that time is over."""
        allowed_s = min(wait_s, self._longest)
        if allowed_s <= arrival.waited_s:
            return False
        self._put(arrival.trace_id, arrival.last_s, allowed_s)
        if arrival.has_outermost and wait_s <= PATIENCE_S:
            self._order[arrival.trace_id] = None
            self._order.move_to_end(arrival.trace_id, last=False)
        return True

    def _put(self, trace_id: str, last_s: float, wait_s: float) -> None:
        self._take(trace_id)
        self._wait_of[trace_id] = wait_s
        self._waits[wait_s][trace_id] = last_s

    def _take(self, trace_id: str) -> None:
        wait_s = self._wait_of.pop(trace_id, None)
        if wait_s is not None:
            del self._waits[wait_s][trace_id]

    def last_s(self, trace_id: str) -> float:
        """Return the moment of the last span of an open trace."""
        return self._waits[self._wait_of[trace_id]][trace_id]

    def forget(self, trace_id: str) -> None:
        """Wait for a trace no more."""
        self._take(trace_id)
        self._order.pop(trace_id, None)

    def next_due_s(self) -> float | None:
        """Return the moment at which a trace is due next, None if no trace is open."""
        return min(map(self._due_s, self._quiet()), default=None)
