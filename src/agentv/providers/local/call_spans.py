"""The spans that a target sends while it is called, collected by call, and added to its response (`otel: true`)."""

import asyncio
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from msgspec.structs import replace

from agentv.execution.cancelled_calls import attach_call, attached_partial
from agentv.execution.retry import OVERTIME_S
from agentv.execution.threads import call_in_thread
from agentv.execution.user_code import off_the_clock
from agentv.messages.shapes.reading import read_messages
from agentv.scoring.tools.tool_calls import calls_of
from agentv.telemetry.joining.call_trace import CallTrace, has_all_parents, read_call
from agentv.telemetry.otlp.spans import Span
from agentv.types.errors import MessageError
from agentv.types.provider import ProviderError, ProviderResponse, ReceivedSpans

MOST_SPANS = 20_000
"""The maximum number of spans of one call; further ones are counted, and not read."""
_MOST_CLOSED = 10_000
_FEW_SPANS = 500
"""More spans are read in a thread, so that other calls go on."""
_DELAY_ADVICE = "raise `otel_wait_s`, or set OTEL_BSP_SCHEDULE_DELAY=200 where the target runs"


class CallSpans:
    """The spans of one attempt to call a target. `add` may be called in any thread."""

    def __init__(self) -> None:
        self.trace_id = secrets.token_hex(16)
        self.span_id = secrets.token_hex(8)
        self.token = secrets.token_urlsafe(16)
        self.dropped = 0
        self._spans: list[Span] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._read: tuple[int, str, CallTrace] | None = None
        """The number of spans that were read last, for which answer, and what they said."""

    @property
    def traceparent(self) -> str:
        """The parent of the target's spans, as the header and the variable of this name have it."""
        return f"00-{self.trace_id}-{self.span_id}-01"

    def add(self, spans: Sequence[Span]) -> None:
        """Add spans that arrived."""
        room = max(0, MOST_SPANS - len(self._spans))
        self._spans += spans[:room]
        self.dropped += len(spans[room:])
        self.notify()

    def notify(self) -> None:
        """Continue the wait for spans, in the event loop of the call."""
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(self._changed.set)

    async def settle(self, text: str, wait_s: float) -> float:
        """Wait for late spans of a call that returned `text`, at most `wait_s`, and return the seconds waited.

        No deadline of the call includes the wait.
        """
        now = asyncio.get_running_loop().time
        began = now()
        with off_the_clock(), suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not await self.is_settled(text):
                    await self._changed.wait()
                    self._changed.clear()
        return now() - began

    async def is_settled(self, text: str) -> bool:
        """Return True if no more spans are to be expected."""
        return has_all_parents(self._spans, self.span_id) and (await self.read(text)).is_complete

    async def read(self, text: str) -> CallTrace:
        """Return what the spans say of a call that returned `text`."""
        spans = tuple(self._spans)
        known = self._read
        if known is None or known[:2] != (len(spans), text):
            arguments = partial(read_call, spans, parent_id=self.span_id, text=text)
            trace = arguments() if len(spans) < _FEW_SPANS else await call_in_thread(arguments, timeout_s=None)
            known = self._read = (len(spans), text, trace)
        return known[2]

    def read_now(self, text: str) -> CallTrace:
        """Return the same without a thread, for a call that ends now."""
        return read_call(tuple(self._spans), parent_id=self.span_id, text=text)

    @property
    def has_spans(self) -> bool:
        """True if spans arrived."""
        return bool(self._spans)


class SpanInbox:
    """The open calls of targets, by token and by trace id; receivers pass the spans on to them."""

    def __init__(self, *, make: Callable[[], CallSpans] = CallSpans) -> None:
        self._make = make
        self._open: dict[str, CallSpans] = {}
        self._closed: OrderedDict[str, None] = OrderedDict()
        self.late = 0
        """The number of spans that arrived after the end of their call."""
        self.foreign = 0
        """The number of spans of no call."""
        self.problems: list[str] = []
        """What was wrong with the requests of exporters."""

    @contextmanager
    def opened(self) -> Iterator[CallSpans]:
        """Collect the spans of a call until the end of the block."""
        call = self._make()
        keys = (call.trace_id, call.token)
        self._open.update(dict.fromkeys(keys, call))
        try:
            yield call
        finally:
            for key in keys:
                del self._open[key]
                self._closed[key] = None
            while len(self._closed) > _MOST_CLOSED:
                self._closed.popitem(last=False)

    def call_of(self, key: str) -> CallSpans | None:
        """Return the open call with a token or trace id."""
        return self._open.get(key)

    def deliver(self, prefix: str, spans: Sequence[Span]) -> bool:
        """Add spans to their calls: by the token in the path `row/TOKEN`, else by their trace ids.

        Return False for a path that no call ever had.
        """
        if prefix:
            token = prefix.removeprefix("row/")
            return self._add(token, spans)
        for span in spans:
            if not self._add(span.trace_id, (span,)):
                self.foreign += 1
        return True

    def _add(self, key: str, spans: Sequence[Span]) -> bool:
        call = self._open.get(key)
        if call is not None:
            call.add(spans)
        elif key in self._closed:
            self.late += len(spans)
        return call is not None or key in self._closed

    def take_notes(self) -> Iterator[str]:
        """Yield what was wrong with what arrived so far, each once."""
        yield from self.problems
        self.problems.clear()
        if self.late:
            yield f"spans arrived after the answer was judged, so tool calls may be missing: {_DELAY_ADVICE}"
            self.late = 0


async def call_with_spans(
    inbox: SpanInbox,
    call: Callable[[CallSpans], Awaitable[ProviderResponse]],
    *,
    wait_s: float,
    timeout_s: float | None,
    why_none: Callable[[], str],
) -> ProviderResponse:
    """Return the response of one attempt, completed by its spans. `why_none` returns what to do if none arrives.

    Late spans are waited for at most `wait_s`, and not much longer than `timeout_s` after the start. A failed attempt
    has the spans that arrived until then, in its incomplete response. Raises as `call` does.
    """
    now = asyncio.get_running_loop().time
    ends_at = math.inf if timeout_s is None else now() + timeout_s + OVERTIME_S / 2
    with inbox.opened() as spans:
        try:
            response = await call(spans)
        except ProviderError as error:
            raise ProviderError(
                error.failure, calls=error.calls, partial=_partial(spans, error.partial), partials=error.partials
            ) from error
        except asyncio.CancelledError as error:
            attach_call(error, _partial(spans, attached_partial(error)))
            raise
        try:
            waited_s = await spans.settle(response.text, max(0.0, min(wait_s, ends_at - now())))
            trace = await spans.read(response.text)
        except asyncio.CancelledError as error:
            attach_call(error, _partial(spans, response))
            raise
        notes = [*_notes(spans, trace, why_none, wait_s=wait_s), *inbox.take_notes()]
        return with_trace(response, trace, waited_s=waited_s, notes=notes)


def _partial(spans: CallSpans, partial: ProviderResponse | None) -> ProviderResponse | None:
    """Return the incomplete response of a failed attempt, completed by its spans."""
    if not spans.has_spans:
        return partial
    response = partial or ProviderResponse("")
    return with_trace(response, spans.read_now(response.text))


def _notes(spans: CallSpans, trace: CallTrace, why_none: Callable[[], str], *, wait_s: float) -> Iterator[str]:
    if not spans.has_spans:
        yield f"no spans arrived, so its tool calls are unknown: {why_none()}"
        return
    yield from trace.notes
    if spans.dropped:
        yield f"a call has more than {MOST_SPANS:,} spans; further ones were not read"
    if not trace.is_complete and not trace.notes:
        yield f"spans were missing {wait_s:g} s after its answers, so tool calls may be missing: {_DELAY_ADVICE}"


def with_trace(
    response: ProviderResponse, trace: CallTrace, *, waited_s: float = 0.0, notes: Sequence[str] = ()
) -> ProviderResponse:
    """Return a response with what it lacks: the messages with tool calls, the tokens, the cost and the model."""
    messages = response.output_messages
    if trace.messages is not None and not _has_calls(response):
        messages = trace.messages
    return replace(
        response,
        output_messages=messages,
        usage=response.usage or trace.usage,
        cost_usd=trace.cost_usd if response.cost_usd is None else response.cost_usd,
        model=response.model or trace.model,
        notes=(*response.notes, *notes),
        spans=ReceivedSpans(trace.trace_id, trace.span_id, waited_s=waited_s, is_complete=trace.is_complete),
    )


def _has_calls(response: ProviderResponse) -> bool:
    """Return True if a target itself reported tool calls, or messages that cannot be read, which is an error later."""
    if response.trace is not None:
        return True
    given: object = response.output_messages
    if given is None:
        return False
    try:
        return any(map(calls_of, read_messages(given, "output_messages")))
    except MessageError:
        return True
