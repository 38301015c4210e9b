"""Copies and log records of spans, merged into one span each."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from agentv.telemetry.otlp.spans import Span, SpanEvent, is_placeholder
from agentv.types.messages_json import compact_json


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """Return each span once, in order of time, with its log events; of several copies the most complete one."""
    best: dict[tuple[str, str], Span] = {}
    logs: dict[tuple[str, str], dict[str, Span]] = {}
    for span in spans:
        if is_placeholder(span):
            continue
        if span.is_log:
            event = span.events[0]
            content = compact_json([event.name, event.attributes, event.body, span.start_ns])
            logs.setdefault(span.key, {})[content] = span
        elif span.key not in best or _rank(span) > _rank(best[span.key]):
            best[span.key] = span
    for key, records in logs.items():
        # Programs in JavaScript round times to milliseconds: within one, the order is that in which the records came.
        ordered = sorted(records.values(), key=lambda each: (each.start_ns, each.file_number, each.line))
        events = tuple(record.events[0] for record in ordered)
        # Log records of a span whose trace is not exported stand for the span.
        base = best.get(key) or replace(ordered[0], is_log=False, events=(), end_ns=ordered[-1].end_ns)
        best[key] = replace(base, events=_distinct((*base.events, *events)))
    return sorted(best.values(), key=lambda span: (span.start_ns, -span.end_ns, span.span_id))


def _distinct(events: Iterable[SpanEvent]) -> tuple[SpanEvent, ...]:
    """Return events in order, without those that are in the span and in the logs."""
    made: dict[str, SpanEvent] = {}
    for number, event in enumerate(events):
        body = event.body if isinstance(event.body, Mapping) else {}
        name = event.name if event.name == "gen_ai.client.inference.operation.details" else f"{number} {event.name}"
        made.setdefault(compact_json([name, {**body, **event.attributes}]), event)
    return tuple(made.values())


def _rank(span: Span) -> tuple[int, int, int, str]:
    return span.end_ns, len(span.attributes), -span.file_number, compact_json([span.attributes, -span.line])
