"""A stored result as scores of the trace that was judged, for services that store scores with traces."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.telemetry.otlp.wire_out import AttributeValue
from agentv.telemetry.sending.destination import Omitted
from agentv.telemetry.sending.evaluations import (
    RunContent,
    cut,
    explanation_of,
    judgement_attributes,
    known_ids,
    row_attributes,
    stable_id,
)
from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.records.result import CaseResult

Judge: TypeAlias = Literal["model", "code", "person"]

NO_TRACE = Omitted("no trace id")
NO_SCORE = Omitted("no score")
_HEX_ID = re.compile(r"[0-9A-Fa-f]{16}|[0-9A-Fa-f]{32}")


class Score(Struct, frozen=True, kw_only=True):
    """The score of one evaluator for one answer, or for one criterion of it."""

    id: str
    """Follows from run, case, target, trial, evaluator and name: a judgement made again replaces the earlier one."""
    trace_id: str
    span_id: str
    """"" if only the trace is known."""
    name: str
    value: float
    """From 0 to 1."""
    label: str | None
    """The verdict."""
    reasons: str | None
    judge: Judge
    judged_at: str
    """The time in ISO 8601, with its offset."""
    about: dict[str, AttributeValue]
    """The case, the run and the evaluator, by the names of the attributes."""


def scores_of(row: CaseResult, run: RunContent) -> tuple[Score, ...] | Omitted:
    """Return the scores of a result; why it has none if it was not judged or its trace is not known."""
    trace_id, span_id = map(_as_sent, known_ids(row))
    judged = [
        (each, part)
        for each in row.evaluator_results
        if each.status != "skipped" and each.error is None
        for part in _parts(each)
    ]
    if not judged:
        return NO_SCORE
    if not trace_id:
        return NO_TRACE
    about = row_attributes(row, run)
    # A row that was judged again has the time of the first one, and of two equal times the first may win.
    judged_at = row.timestamp + timedelta(milliseconds=row.rescored)
    return tuple(
        Score(
            id=stable_id(16, "score", row, each.name, part.name).hex(),
            trace_id=trace_id,
            span_id=span_id,
            name=part.name,
            value=part.value,
            label=part.label,
            reasons=cut(part.reasons).replace("\0", "") or None if run.with_content else None,
            judge=_judge_of(each),
            judged_at=judged_at.isoformat(),
            about={**_without_score(judgement_attributes(row, each, run)), **about},
        )
        for each, part in judged
    )


class _Part(Struct, frozen=True):
    name: str
    value: float
    label: str | None
    reasons: str


def _parts(result: EvaluatorResult) -> Iterator[_Part]:
    """Yield the scores of the criteria if an evaluator has judged several at once, else its one score."""
    by_criterion = {each.criterion_name: each for each in result.results}
    if len(by_criterion) < 2 or len(by_criterion) < len(result.results):  # noqa: PLR2004 - several
        yield _Part(result.name, float(result.score), result.verdict, explanation_of(result))
        return
    for name, each in by_criterion.items():
        if each.value is not None and each.error is None:
            yield _Part(name, float(each.value), verdict_of(each.value), each.reasoning or "")


def _as_sent(known_id: str) -> str:
    """Return an id as OpenTelemetry writes it; one that is not of OpenTelemetry is returned as it is."""
    return known_id.lower() if _HEX_ID.fullmatch(known_id) else known_id


def _without_score(attributes: dict[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {key: value for key, value in attributes.items() if not key.startswith("gen_ai.evaluation.")}


def _judge_of(result: EvaluatorResult) -> Judge:
    if result.type == "human":
        return "person"
    return "model" if _asks_model(result) else "code"


def _asks_model(result: EvaluatorResult) -> bool:
    return any(call.role != "embedding" for call in result.judge_calls) or any(
        map(_asks_model, result.evaluator_results)
    )
