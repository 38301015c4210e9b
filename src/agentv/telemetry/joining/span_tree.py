"""The spans of one trace as a tree, in which each says what its conventions and its place tell of it."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.conventions.reading import read_facts
from agentv.telemetry.otlp.spans import Span
from agentv.types.usage import total_usage


class ReadSpan(Struct, frozen=True):
    """A span with what it says; `facts` is None if no convention is known in it."""

    span: Span
    facts: Facts | None

    @property
    def error(self) -> str | None:
        """Why the span failed; None if it did not."""
        return self.span.error or (None if self.facts is None else self.facts.error)

    @property
    def kind(self) -> str | None:
        """The kind of the span, None if no convention names it."""
        return None if self.facts is None else self.facts.kind


_MOST_ADOPTING = 100
"""The number of agents in a trace up to which a span without its parent is looked for in each of them."""


class SpanTree:
    """The spans of one trace, each below its parent, with what they say."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = [ReadSpan(span, read_facts(span)) for span in spans]
        self._by_id = {each.span.span_id: each for each in self.spans}
        self._adopt_orphans()
        self._correct_guesses()
        self._complete_calls()

    def ancestors(self, span: Span) -> Iterator[ReadSpan]:
        """Yield the spans above a span, the nearest first."""
        seen = {span.span_id}
        parent = self._by_id.get(span.parent_id)
        while parent is not None and parent.span.span_id not in seen:
            seen.add(parent.span.span_id)
            yield parent
            parent = self._by_id.get(parent.span.parent_id)

    def top(self, span: Span) -> Span:
        """Return the outermost span above a span, or itself."""
        return [span, *(each.span for each in self.ancestors(span))][-1]

    def _adopt_orphans(self) -> None:
        """Let the call of a model or of a tool whose parent is missing follow the only agent around it in time."""
        agents = [each for each in self.spans if each.kind == "agent"]
        for read in self.spans if len(agents) <= _MOST_ADOPTING else ():
            span = read.span
            if read.kind not in ("model", "tool") or not span.parent_id or span.parent_id in self._by_id:
                continue
            around = [
                each for each in agents if each.span.start_ns <= span.start_ns and span.end_ns <= each.span.end_ns
            ]
            outer = [each for each in around if not any(above in around for above in self.ancestors(each.span))]
            if len(outer) == 1 and outer[0].span.parent_id != span.parent_id:
                self._by_id[span.parent_id] = outer[0]

    def _correct_guesses(self) -> None:
        """Let spans that seem to be calls of models be agents or steps if there are such calls below them."""
        outer = {
            above.span.span_id
            for each in self.spans
            if each.kind == "model"
            for above in self.ancestors(each.span)
            if above.kind == "model" and above.facts is not None and above.facts.is_guess
        }
        for place, each in enumerate(self.spans):
            if each.span.span_id in outer and each.facts is not None:
                kind: Kind = "agent" if each.facts.agent else "step"
                corrected = ReadSpan(each.span, replace(each.facts, kind=kind))
                self.spans[place] = self._by_id[each.span.span_id] = corrected

    def _complete_calls(self) -> None:
        """Give each call of a model what only the calls inside it say, which another instrumentation records."""
        inner: dict[str, list[Facts]] = {}
        for read in self.spans:
            if read.kind == "model" and read.facts is not None and read.span.parent_id:
                above = [each.span.span_id for each in self.ancestors(read.span) if each.kind == "model"]
                if above:
                    inner.setdefault(above[-1], []).append(read.facts)
        for span_id, facts in inner.items():
            outer = self._by_id[span_id]
            self._by_id[span_id] = replace(outer, facts=_completed(outer.facts or Facts(), facts))
        if inner:
            self.spans = [self._by_id[each.span.span_id] for each in self.spans]


def _completed(facts: Facts, inner: Sequence[Facts]) -> Facts:
    """Return what a call says; tokens, model and instructions that it lacks are those of the calls inside it."""
    return replace(
        facts,
        usage=facts.usage or total_usage(each.usage for each in inner),
        model=facts.model or next((each.model for each in inner if each.model), None),
        system=facts.system or next((each.system for each in inner if each.system), ()),
    )
