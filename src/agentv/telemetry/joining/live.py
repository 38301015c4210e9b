"""Join the spans of running agents: an answer is given some seconds after its last span has arrived."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from agentv.telemetry.conventions.reading import read_facts
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.arrivals import AT_WORK_S, PATIENCE_S, SETTLE_S, Arrivals, gap_of
from agentv.telemetry.joining.joining import NS_PER_S, Joiner, JoinOptions, ReadTrace
from agentv.telemetry.joining.shelf import key_of
from agentv.telemetry.otlp.spans import Span

_MOST_BYTES = 2**30
_MOST_BYTES_OF_TRACE = 64 * 2**20


class LiveJoiner(Joiner):
    """Collects spans as they arrive, and yields answers when their traces are complete.

    All times are seconds of any one clock, which never goes back. Above `most_bytes` of spans that wait, the oldest
    traces are joined before their end, as is a trace of more than `most_bytes_of_trace`.
    """

    def __init__(
        self,
        options: JoinOptions | None = None,
        *,
        most_bytes: int = _MOST_BYTES,
        most_bytes_of_trace: int = _MOST_BYTES_OF_TRACE,
    ) -> None:
        super().__init__(replace(options or JoinOptions(), is_endless=True))
        self._most_bytes, self._most_bytes_of_trace = most_bytes, most_bytes_of_trace
        self._arrivals = Arrivals(self._options.idle_s)
        self._large: set[str] = set()
        self._last_ns = 0
        """The moment of the last span of the trace that is being joined."""
        self._just_read: ReadTrace | None = None

    @property
    def is_full(self) -> bool:
        """True if too many spans wait, so that no more should be received."""
        return self._shelf.size >= self._most_bytes

    def receive(self, spans: Iterable[Span], *, file: str, line: int, now_s: float) -> None:
        """Add the spans of a request, which counts as a line of a file."""
        for span in spans:
            self.report.spans += 1
            placed = replace(span, file=file, line=line)
            if self._agents.take(placed, int(now_s * NS_PER_S)):
                continue
            if not span.trace_id and read_facts(span) is None:
                self.report.untraced += 1
                continue
            trace_id = key_of(span)
            self._shelf.add(placed)
            is_outermost = not span.parent_id and not span.is_log
            self._arrivals.add(trace_id, now_s, is_outermost=is_outermost)
            if self._shelf.size_of(trace_id) > self._most_bytes_of_trace:
                self._large.add(trace_id)

    def due(self, now_s: float) -> Iterator[TracedAnswer]:
        """Yield the answers of the traces that are complete; spans may be received in between."""
        return self._join(self._complete(now_s), int(now_s * NS_PER_S) - self._idle_ns)

    def end(self, now_s: float) -> Iterator[TracedAnswer]:
        """Yield the remaining answers, without those of agents that are still running."""
        return self._join(self._finished(now_s), None)

    def next_due_s(self) -> float | None:
        """Return the moment of the next answer if no more spans arrive; None if nothing is waited for."""
        since = [*(each.since_ns for each in self._waiting.values()), *(each.since_ns for each in self._turns.values())]
        since += (each.since_ns for each in self._agents.sessions.values())
        moments = [self._arrivals.next_due_s(), min(since) / NS_PER_S + self._options.idle_s if since else None]
        return min((moment for moment in moments if moment is not None), default=None)

    def _complete(self, now_s: float) -> Iterator[str]:
        while self._large:
            yield self._cut(next(iter(self._large)))
        for arrival in self._arrivals.due(now_s):
            if self._arrivals.wait(arrival, self._wait_s(arrival.trace_id)):
                self._just_read = None
            else:
                self._large.discard(arrival.trace_id)
                self._last_ns = int(arrival.last_s * NS_PER_S)
                yield arrival.trace_id
        if self.is_full:  # although all complete traces are taken
            for trace_id in self._shelf.all():
                if self._shelf.size < self._most_bytes // 2:
                    break
                yield self._cut(trace_id)

    def _cut(self, trace_id: str) -> str:
        self._last_ns = int(self._arrivals.last_s(trace_id) * NS_PER_S)
        self._arrivals.forget(trace_id)
        self._large.discard(trace_id)  # it may grow while others are given
        self.report.cut += 1
        return trace_id

    def _wait_s(self, trace_id: str) -> float:
        """Return how long after its last span a trace is waited for."""
        spans = list(self._shelf.spans(trace_id))
        match gap_of(spans):
            case "none":
                self._just_read = self._read_spans(trace_id, spans)
                return PATIENCE_S if any(each.is_silent for each in self._just_read.found) else SETTLE_S
            case "remote":
                return PATIENCE_S
            case _:
                return self._options.idle_s

    def _read(self, trace_id: str) -> ReadTrace:
        read, self._just_read = self._just_read, None
        return read if read is not None and read.trace_id == trace_id else super()._read(trace_id)

    def _finished(self, now_s: float) -> Iterator[str]:
        for trace_id in self._shelf.all():
            is_recent = now_s - self._arrivals.last_s(trace_id) < AT_WORK_S
            if is_recent and gap_of(list(self._shelf.spans(trace_id))) == "local":
                self.report.unfinished += 1
            else:
                yield trace_id

    def _moment(self, end_ns: int) -> int:  # noqa: ARG002 - what counts is when the spans arrived
        return self._last_ns
