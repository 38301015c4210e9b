"""Traces that were joined already, and what of the spans that arrive for them later is new."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from agentv.telemetry.joining.traces import Invocation, Trace
from agentv.telemetry.otlp.spans import Span

_MOST_ENTRIES = 1_500_000
_MOST_SPANS = 10_000
"""Of one trace."""
_ENTRIES_PER_TRACE = 32
"""An empty record takes about as much memory as this many entries of 8 bytes."""


class _Closed(Struct):
    judged: "array[int]"
    """Spans of answers."""
    others: "array[int]"
    above: "array[int]"
    """Spans above those of answers that had not arrived."""

    def __len__(self) -> int:
        return len(self.judged) + len(self.others) + len(self.above) + _ENTRIES_PER_TRACE


class ClosedTraces:
    """The spans of the newest traces that were joined, as hashes, in about 20 MB: 700,000 in traces of 30 spans."""

    def __init__(self) -> None:
        self._traces: OrderedDict[str, _Closed] = OrderedDict()
        self._size = 0

    def __contains__(self, trace_id: object) -> bool:
        return trace_id in self._traces

    def new_spans(self, trace_id: str, spans: Sequence[Span]) -> list[Span]:
        """Return the spans that were not joined before."""
        closed = self._traces.get(trace_id)
        if closed is None:
            return list(spans)
        return [span for span in spans if (key := _key(span.span_id)) not in closed.judged and key not in closed.others]

    def completing(self, trace_id: str, trace: Trace, found: Sequence[Invocation]) -> set[str]:
        """Return the ids of the outermost spans of invocations that complete an earlier one.

        They are around it, because the outermost span came late, or inside of it.
        """
        closed = self._traces.get(trace_id)
        if closed is None:
            return set()
        awaited = [read for read in trace.spans if _key(read.span.span_id) in closed.above]
        around = {each.span.span_id for read in awaited for each in (read, *trace.ancestors(read.span))}
        inside = {
            each.root.span_id
            for each in found
            if (parent := trace.top(each.root).parent_id) and _key(parent) in closed.judged
        }
        return inside | {each.root.span_id for each in found if each.root.span_id in around}

    def add(self, trace_id: str, trace: Trace) -> None:
        """Remember the spans of a trace that was joined."""
        closed = self._traces.pop(trace_id, None)
        if closed is None:
            closed = _Closed(array("Q"), array("Q"), array("Q"))
        else:
            self._size -= len(closed)
        ids, judged = {read.span.span_id for read in trace.spans}, trace.judged_ids()
        for span in (read.span for read in trace.spans):
            (closed.judged if span.span_id in judged else closed.others).append(_key(span.span_id))
            if span.span_id in judged and span.parent_id and span.parent_id not in ids:
                closed.above.append(_key(span.parent_id))
        for each in (closed.judged, closed.others, closed.above):
            del each[:-_MOST_SPANS]
        self._traces[trace_id] = closed
        self._size += len(closed)
        while self._size > _MOST_ENTRIES:
            self._size -= len(self._traces.popitem(last=False)[1])


def _key(span_id: str) -> int:
    return int.from_bytes(blake2b(span_id.encode(errors="replace"), digest_size=8).digest(), "big")
