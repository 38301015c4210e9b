"""A stored result as OpenTelemetry: a span and an event for each judgement, below the span of the judged answer."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec
from msgspec import Struct

from agentv.telemetry.otlp.requests import LogOut, SpanOut
from agentv.telemetry.otlp.wire_out import AttributeValue
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import ORIGIN, CaseResult
from agentv.types.records.run import CaseRecord

EVENT_NAME = "gen_ai.evaluation.result"
"""https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/"""

MAX_CHARS = 32_768
"""Longer texts are cut, so that one answer cannot exceed what a collector accepts."""

_TRACE_ID, _SPAN_ID = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")


class Exported(Struct, frozen=True):
    """What one result is for a collector."""

    spans: tuple[SpanOut, ...]
    logs: tuple[LogOut, ...]


class RunContent(Struct, frozen=True):
    """What the result of a run is sent with."""

    name: str | None = None
    """The name of the run."""
    with_content: bool = False
    """True if questions, answers and explanations are sent."""


class JudgedSpan(Struct, frozen=True):
    """The span of the answer that was judged."""

    trace_id: bytes
    span_id: bytes
    is_own: bool
    """True if it is one that agentv sends, because the answer has none that is known."""


def exported_result(row: CaseResult, run: RunContent, case: CaseRecord | None = None) -> Exported:
    """Return the spans and events of a result. The same result always has the same ids.

    `case` gives the question if content is sent.
    """
    judged = judged_span(row)
    about = row_attributes(row, run)
    spans: list[SpanOut] = []
    logs: list[LogOut] = []
    # A result that was judged again has the span of its answer already.
    if judged.is_own and not row.rescored:
        spans.append(_answer_span(row, judged, about, run, case))
    for index, result in enumerate(row.evaluator_results):
        if result.status == "skipped":
            continue
        values = {**judgement_attributes(row, result, run), **about}
        name = f"evaluation {result.name}"
        end_ns = _nanoseconds(row.timestamp)
        spans.append(
            SpanOut(
                trace_id=judged.trace_id,
                span_id=stable_id(8, "evaluation", row, row.rescored, index, result.name),
                parent_id=judged.span_id,
                name=name,
                start_ns=end_ns - _milliseconds_ns(result.duration_ms),
                end_ns=end_ns,
                attributes=values,
                error=None if result.error is None else cut(result.error.message) if run.with_content else "",
            )
        )
        logs.append(
            LogOut(name=EVENT_NAME, time_ns=end_ns, trace_id=judged.trace_id, span_id=judged.span_id, attributes=values)
        )
    return Exported(tuple(spans), tuple(logs))


def judged_span(row: CaseResult) -> JudgedSpan:
    """Return the span that the answer was read from or that its metadata names, else one made from run and slot."""
    trace_id, span_id = (each.lower() for each in known_ids(row))
    is_known = _TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id) and int(trace_id, 16) and int(span_id, 16)
    if is_known:
        return JudgedSpan(bytes.fromhex(trace_id), bytes.fromhex(span_id), is_own=False)
    return JudgedSpan(stable_id(16, "trace", row), stable_id(8, "answer", row), is_own=True)


def known_ids(row: CaseResult) -> tuple[str, str]:
    """Return the ids of trace and span that the answer was read from or that its metadata names; "" if unknown.

    In the metadata of a case that was made from an earlier answer, they are those of that answer, and not of this one.
    """
    named = {} if ORIGIN in row.metadata else row.metadata
    trace_id, span_id = (getattr(row, key) or named.get(key) or "" for key in ("trace_id", "span_id"))
    return str(trace_id), str(span_id)


def stable_id(size: int, kind: str, row: CaseResult, *parts: str | int) -> bytes:
    """Return an id that follows from run, slot and answer, so that what is sent twice is the same."""
    slot = row.slot
    answer = row.generation - row.rescored  # judging an answer again counts in both
    key = [kind, row.run_id, slot.suite, slot.eval_id, slot.target, slot.trial, slot.prompt, answer, *parts]
    return sha256(msgspec.json.encode(key)).digest()[:size]


def _answer_span(
    row: CaseResult,
    judged: JudgedSpan,
    about: Mapping[str, AttributeValue],
    run: RunContent,
    case: CaseRecord | None,
) -> SpanOut:
    values = dict(about)
    if row.score is not None:
        values["agentv.score"] = float(row.score)
    if row.error is not None:
        values["error.type"] = row.error.kind
    if run.with_content:
        values |= _content(row, case)
    end_ns = _nanoseconds(row.timestamp)
    judging_ms = max((each.duration_ms or 0.0 for each in row.evaluator_results), default=0.0)
    return SpanOut(
        trace_id=judged.trace_id,
        span_id=judged.span_id,
        name=f"case {row.eval_id}",
        start_ns=end_ns - _milliseconds_ns((row.duration_ms or 0.0) + judging_ms),
        end_ns=end_ns,
        attributes=values,
        error=None if row.error is None else cut(row.error.message) if run.with_content else "",
    )


def _content(row: CaseResult, case: CaseRecord | None) -> Iterator[tuple[str, str]]:
    """Yield the messages of question and answer as the conventions have them from version 1.37."""
    if case is not None and case.question:
        yield "gen_ai.input.messages", _message("user", case.question)
    if row.candidate_answer:
        yield "gen_ai.output.messages", _message("assistant", row.candidate_answer)


def _message(role: str, text: str) -> str:
    part = {"type": "text", "content": cut(text)}
    return msgspec.json.encode([{"role": role, "parts": [part]}]).decode()


def row_attributes(row: CaseResult, run: RunContent) -> dict[str, AttributeValue]:
    """Return the attributes that name a result: its case, run and target, and what became of it."""
    slot = row.slot
    values: dict[str, AttributeValue | None] = {
        "test.suite.name": slot.suite,
        "test.case.name": slot.eval_id,
        "test.case.result.status": _status(row),
        "gen_ai.conversation.id": row.session,
        "gen_ai.response.id": _named_id(row, "response_id", "gen_ai.response.id"),
        "agentv.run.id": row.run_id,
        "agentv.run.name": run.name,
        "agentv.target": slot.target,
        "agentv.trial": slot.trial,
        "agentv.prompt": slot.prompt,
        "agentv.verdict": row.verdict,
        "agentv.generation": row.generation or None,
        "agentv.rescored": row.rescored or None,
        "agentv.rerun": row.rerun,
        "agentv.tags": row.tags or None,
    }
    return {key: value for key, value in values.items() if value is not None}


def _named_id(row: CaseResult, *keys: str) -> str | None:
    """Return the first text in the metadata under one of the keys."""
    found = (row.metadata.get(key) for key in keys)
    return next((each for each in found if isinstance(each, str) and each), None)


def _status(row: CaseResult) -> str:
    """Return `pass` or `fail` as the conventions have them; `error` or `skipped` for a result without a verdict."""
    if row.status in ("error", "skipped"):
        return row.status
    return "pass" if row.verdict == "pass" else "fail"


def judgement_attributes(row: CaseResult, result: EvaluatorResult, run: RunContent) -> dict[str, AttributeValue]:
    """Return the attributes of one judgement."""
    has_score = result.error is None
    values: dict[str, AttributeValue | None] = {
        "gen_ai.evaluation.name": result.name,
        "gen_ai.evaluation.score.value": float(result.score) if has_score else None,
        "gen_ai.evaluation.score.label": result.verdict if has_score else None,
        "gen_ai.evaluation.explanation": cut(explanation_of(result)) or None if run.with_content else None,
        "error.type": None if result.error is None else result.error.kind,
        "agentv.evaluator.type": result.type,
        "agentv.evaluator.revision": row.score_keys.get(result.name),
        "agentv.evaluator.weight": float(result.weight),
        "agentv.evaluator.cost_usd": result.cost_usd,
    }
    return {key: value for key, value in values.items() if value is not None}


def explanation_of(result: EvaluatorResult) -> str:
    """Return a judge's reasoning; for other evaluators what they missed, else what they found."""
    return result.reasoning or "; ".join(result.misses or result.hits)


def cut(text: str) -> str:
    """Return the first MAX_CHARS characters of a text, the last one an ellipsis if there are more."""
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


def _nanoseconds(moment: datetime) -> int:
    """Return a time as whole nanoseconds since 1970; times before are 0, for which OTLP has no number."""
    since = moment - datetime.fromtimestamp(0, tz=moment.tzinfo)
    return max(0, since // timedelta(microseconds=1)) * 1000


def _milliseconds_ns(duration_ms: float | None) -> int:
    return 0 if duration_ms is None else round(max(0.0, duration_ms) * 1e6)
