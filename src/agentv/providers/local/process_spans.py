"""The spans that functions make in this process while they are called. Import it only where OpenTelemetry is installed.

A call runs in a context with a trace of its own. A processor, added to the global providers of traces and logs, passes
what ends in such a trace on to its call. Other spans and the exporters of the user are not touched.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from opentelemetry import _logs as logs_api
from opentelemetry import context as context_api
from opentelemetry import trace as trace_api
from opentelemetry.sdk import _logs as logs_sdk
from opentelemetry.sdk import trace as trace_sdk

from agentv.providers.local.call_spans import CallSpans, SpanInbox, call_with_spans
from agentv.telemetry.otlp.spans import Span, SpanEvent
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import ProviderResponse

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class ProcessCall(CallSpans):
    """The spans of a call in this process, of which the open ones are known."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._open = 0

    def begin(self) -> None:
        """Count a span that began."""
        with self._lock:
            self._open += 1

    def end(self, span: Span) -> None:
        """Add a span that ended."""
        with self._lock:
            self._open -= 1
        self.add((span,))

    async def is_settled(self, text: str) -> bool:  # noqa: ARG002 - the signature of the base
        """Return True if no span is open."""
        return self._open <= 0

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Make the spans that code begins in this block, also in its tasks and threads, spans of this call."""
        parent = trace_api.SpanContext(
            int(self.trace_id, 16),
            int(self.span_id, 16),
            is_remote=True,
            trace_flags=trace_api.TraceFlags(trace_api.TraceFlags.SAMPLED),
        )
        attached = context_api.attach(trace_api.set_span_in_context(trace_api.NonRecordingSpan(parent)))
        try:
            yield
        finally:
            context_api.detach(attached)


class _Processor(trace_sdk.SpanProcessor, logs_sdk.LogRecordProcessor):
    """Passes spans and log records on to the calls that they belong to."""

    def __init__(self, inbox: SpanInbox) -> None:
        self._inbox = inbox

    def on_start(self, span: "trace_sdk.Span", parent_context: context_api.Context | None = None) -> None:  # noqa: ARG002 - the interface
        call = self._call_of(span.context.trace_id if span.context else 0)
        if call is not None:
            call.begin()

    def on_end(self, span: "ReadableSpan") -> None:
        call = self._call_of(span.context.trace_id if span.context else 0)
        if call is None:
            self._inbox.foreign += 1
        else:
            call.end(_span(span))

    def on_emit(self, log_record: Any) -> None:
        record = log_record.log_record
        call = self._call_of(record.trace_id or 0)
        if call is not None:
            call.add((_log_event(record, log_record.instrumentation_scope),))

    emit = on_emit  # its name before 1.35

    def shutdown(self) -> None:
        """Do nothing: nothing is buffered."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the interface
        return True

    def _call_of(self, trace_id: int) -> ProcessCall | None:
        return cast(ProcessCall | None, self._inbox.call_of(f"{trace_id:032x}"))


INBOX = SpanInbox(make=ProcessCall)
"""The calls of this process: its providers of traces are global, too."""
_PROCESSOR = _Processor(INBOX)
_known: WeakSet[Any] = WeakSet()


def _watch_providers() -> None:
    """Add the processor to the global providers of traces and logs; where there is none, set one."""
    if isinstance(trace_api.get_tracer_provider(), trace_api.ProxyTracerProvider):
        trace_api.set_tracer_provider(trace_sdk.TracerProvider())
    if type(logs_api.get_logger_provider()).__name__ == "ProxyLoggerProvider":  # the API does not export it
        logs_api.set_logger_provider(logs_sdk.LoggerProvider())
    providers = (trace_api.get_tracer_provider(), logs_api.get_logger_provider())
    for provider, name in zip(providers, ("add_span_processor", "add_log_record_processor"), strict=True):
        add = getattr(provider, name, None)
        if add is not None and provider not in _known:
            add(_PROCESSOR)
            _known.add(provider)


async def call_in_process(
    call: Callable[[], Awaitable[ProviderResponse]], *, wait_s: float, timeout_s: float | None
) -> ProviderResponse:
    """Return the response of a call to code in this process, completed by the spans that it made."""
    _watch_providers()

    async def attached(spans: CallSpans) -> ProviderResponse:
        with cast(ProcessCall, spans).attached():
            return await call()

    return await call_with_spans(INBOX, attached, wait_s=wait_s, timeout_s=timeout_s, why_none=_why_no_spans)


def _why_no_spans() -> str:
    """Return what makes a function's spans known."""
    provider = trace_api.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        return f"the global tracer provider is a {type(provider).__name__}; use that of opentelemetry-sdk"
    if INBOX.foreign:
        return (
            "spans began outside of the context of a call; pass the context on to threads of your own, for example "
            "with opentelemetry-instrumentation-threading"
        )
    return (
        "instrument its framework when the module is imported, with the global tracer provider (without a "
        "`tracer_provider` of its own)"
    )


def _span(span: "ReadableSpan") -> Span:
    context, status, scope = span.get_span_context(), span.status, span.instrumentation_scope
    is_failed = status.status_code is trace_api.StatusCode.ERROR
    return Span(
        trace_id=f"{context.trace_id:032x}" if context else "",
        span_id=f"{context.span_id:016x}" if context else "",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else "",
        name=span.name,
        kind=span.kind.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        attributes=_json_object(span.attributes),
        events=tuple(SpanEvent(each.name, _json_object(each.attributes)) for each in span.events),
        error=(status.description or "status ERROR") if is_failed else None,
        service=str(span.resource.attributes.get("service.name", "")),
        scope=scope.name if scope else "",
    )


def _log_event(record: Any, scope: Any) -> Span:
    attributes = _json_object(record.attributes)
    name = getattr(record, "event_name", None) or attributes.get("event.name") or ""
    moment = record.timestamp or record.observed_timestamp or 0
    return Span(
        trace_id=f"{record.trace_id:032x}",
        span_id=f"{record.span_id:016x}",
        is_log=True,
        start_ns=moment,
        end_ns=moment,
        events=(SpanEvent(str(name), attributes, _json(record.body)),),
        scope=scope.name if scope else "",
    )


def _json_object(attributes: Mapping[str, Any] | None) -> JsonObject:
    return {key: _json(value) for key, value in (attributes or {}).items()}


def _json(value: Any) -> JsonValue:
    if isinstance(value, Mapping):
        return _json_object(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_json(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
