"""The spans that a target sent during one call, as what they add to its response."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.hints import content_hint
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.joining.merging import merged_spans
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.joining.traces import Invocation, Trace, usage_of
from agentv.telemetry.otlp.spans import Span
from agentv.types.messages import Message
from agentv.types.usage import Usage


class CallTrace(Struct, frozen=True, kw_only=True):
    """What the spans of one call of a target say."""

    messages: tuple[Message, ...] | None = None
    """What the target did in this call, with its calls of tools; None if no span has messages."""
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    """The model of all calls; None if there are several, whose tokens have no common price."""
    trace_id: str = ""
    """`trace_id` and `span_id` are those of the span that gave the answer; empty without such a span."""
    span_id: str = ""
    notes: tuple[str, ...] = ()
    is_complete: bool = False
    """True if no span is missing that others name, and no call of a tool waits to be continued."""


def read_call(spans: Sequence[Span], *, parent_id: str = "", text: str = "") -> CallTrace:
    """Return what the spans of one call say.

    `parent_id` is the span that the target got as the parent of its own; `text` is the answer that it returned.
    """
    answers, report = join_spans(spans)
    invocations = list(_invocations(spans))
    usage, cost_usd = usage_of(invocations)
    models = {call.facts.model for each in invocations for call in each.calls if call.facts and call.facts.model}
    judged = _answer_with(text, answers)
    has_messages = any(answer.messages for answer in answers)
    return CallTrace(
        messages=tuple(message for answer in answers for message in answer.output) if has_messages else None,
        usage=usage,
        cost_usd=cost_usd,
        model=models.pop() if len(models) == 1 else None,
        trace_id="" if judged is None else judged.trace_id,
        span_id="" if judged is None else judged.span_id,
        notes=tuple(_notes(spans, invocations, report)),
        is_complete=has_messages and not report.open and has_all_parents(spans, parent_id),
    )


def has_all_parents(spans: Sequence[Span], parent_id: str = "") -> bool:
    """Return True if a root has ended, and every span that another span or a log record names is there.

    A root has no parent, or the one that the target got.
    """
    ended = [span for span in spans if not span.is_log]
    ids = {span.span_id for span in ended}
    known = {*ids, "", parent_id}
    has_root = any(span.parent_id in ("", parent_id) for span in ended)
    logged = {span.span_id for span in spans if span.is_log and span.span_id}
    return has_root and all(span.parent_id in known for span in ended) and logged <= ids


def _invocations(spans: Sequence[Span]) -> Iterator[Invocation]:
    """Yield the invocations in all traces; a call that two instrumentations record is one."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    responses: set[str] = set()
    for members in traces.values():
        for each in Trace(merged_spans(members)).invocations():
            response_id = each.facts.response_id if each.is_call else None
            if response_id is None or response_id not in responses:
                yield each
            responses.add(response_id or "")


def _answer_with(text: str, answers: Sequence[TracedAnswer]) -> TracedAnswer | None:
    """Return the last answer with a text, else the last answer of all."""
    same = [answer for answer in answers if text.strip() and answer.text.strip() == text.strip()]
    return max(same or answers, key=lambda answer: answer.end_ns, default=None)


def _notes(spans: Sequence[Span], invocations: Sequence[Invocation], report: JoinReport) -> Iterator[str]:
    """Yield what a user should know. The same notes on many calls have the same text, so that they are shown once."""
    if spans and not invocations:
        yield "its spans have no agent and no call of a model, so its tool calls are unknown"
    for scope in sorted(report.without_content):
        name = scope or "an instrumentation without a name"
        yield f"spans of {name} have no messages, so tool calls may be missing: {content_hint(scope)}"
    if report.open:
        yield "its spans end with a call of a tool that nothing continues, so tool calls may be missing"
    if report.ambiguous or report.guessed:
        yield "its spans have several conversations with the same messages, or with models; the last one was taken"
    for problem in sorted({each.problem for each in invocations if each.problem is not None}):
        yield f"a span was not read, so tool calls may be missing: {problem}"
