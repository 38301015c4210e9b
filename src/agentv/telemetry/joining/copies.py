"""Calls of a model that two instrumentations record in traces of their own: each counts once."""

from collections import OrderedDict

from msgspec import Struct, field

from agentv.telemetry.joining.history import is_over
from agentv.telemetry.otlp.spans import Span

_MOST_RESPONSES = 10_000
_MOST_WITH_ONE_ID = 8


class _Recorded(Struct, frozen=True, gc=False):
    instrumentation: tuple[str, str]
    start_ns: int
    end_ns: int

    def is_during(self, other: "_Recorded") -> bool:
        return is_over(other.start_ns, self.start_ns) and is_over(self.end_ns, other.end_ns)


class RecordedCalls(Struct):
    """The newest calls outside of agents, by the id and the text of their response."""

    _calls: OrderedDict[tuple[str, str], list[_Recorded]] = field(default_factory=OrderedDict)

    def is_copy(self, span: Span, response_id: str | None, text: str) -> bool:
        """Return True for a call that another instrumentation has recorded, by its response and its time.

        A response that a cache gives again has the same id, but comes from the same instrumentation. The text tells
        calls apart to which a server gives one id.
        """
        if response_id is None:
            return False
        made = _Recorded((span.scope, span.name), span.start_ns, span.end_ns)
        known = self._calls.setdefault((response_id, text), [])
        for other in known:
            if other.instrumentation != made.instrumentation and (made.is_during(other) or other.is_during(made)):
                known.remove(other)
                return True
        known.append(made)
        del known[:-_MOST_WITH_ONE_ID]
        if len(self._calls) > _MOST_RESPONSES:
            self._calls.popitem(last=False)
        return False
