"""The rows of a run: of answers that were judged, and of cases without one."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from agentv.engine.planning.plan import AnswerToScore, CaseTask
from agentv.engine.planning.prepared_case import PreparedCase
from agentv.scoring.counting.tallies import has_unpriced_call
from agentv.scoring.results.aggregation import (
    CaseFields,
    case_fields,
    case_verdict,
    evaluators_score,
    first_failed,
    row_status,
    unchecked_requirement,
)
from agentv.scoring.results.applicable import tags_of
from agentv.scoring.results.by_criterion import judges_cost_usd
from agentv.scoring.results.turns import conversation_score
from agentv.scoring.tools.trace_summary import trace_summary
from agentv.types.cases import METADATA_PREFIX, BrokenCase, EvalCase, EvalSuite, EvaluatorLike, Location
from agentv.types.evaluation import EvaluatorResult, Verdict
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import TraceSummary
from agentv.types.messages_json import compact_json
from agentv.types.records.answer import Answer, AnswerRef, Origin, ResultKey
from agentv.types.records.result import CaseResult, RowStatus, Spent, UsageBy
from agentv.types.usage import total_usage

Outcome: TypeAlias = tuple[RowStatus, float | None, Verdict | None, Failure | None]
"""The status, score, verdict and error of a row."""

_NO_LOCATION = Location("")
"""The location of a case that was created in Python."""


def broken_row(run_id: str, task: CaseTask, case: BrokenCase, *, now: datetime) -> CaseResult:
    """Return the row of a case whose line could not be read."""
    message = "; ".join(problem.render() for problem in case.problems)
    return CaseResult(
        run_id=run_id,
        timestamp=now,
        slot=task.slot,
        dataset=task.suite.dataset,
        generation=task.generation,
        rerun=task.rerun,
        status="error",
        score=None,
        verdict=None,
        tags=tuple(task.suite.tags),
        error=Failure("config_error", message, stage="load"),
        file=case.location.path,
        line=case.location.line,
    )


def unread_row(
    run_id: str, slot: ResultKey, dataset: str, origin: Origin, failure: Failure, *, now: datetime
) -> CaseResult:
    """Return the row of a line of a log that could not be read."""
    return CaseResult(
        run_id=run_id,
        timestamp=now,
        slot=slot,
        dataset=dataset,
        status="error",
        score=None,
        verdict=None,
        error=failure,
        file=origin.file,
        line=origin.line,
        part=origin.part,
        line_digest=origin.digest,
        trace_id=origin.trace_id,
        span_id=origin.span_id,
    )


def crashed_row(run_id: str, task: CaseTask, message: str, *, now: datetime) -> CaseResult:
    """Return the row of a case that failed because of a bug in agentv: an error without a score."""
    failure = Failure("plugin_error", f"internal error in agentv, please report it: {message}")
    return failed_row(run_id, task, failure, now=now)


def failed_row(run_id: str, task: CaseTask, failure: Failure, *, now: datetime) -> CaseResult:
    """Return the row of a case that ended with a failure before there was an answer, or before it was judged again."""
    case = task.case
    if isinstance(case, BrokenCase):
        return broken_row(run_id, task, case, now=now)
    row = replace(skipped_row(run_id, task, case, now=now), status="error", error=failure)
    answer = None if task.stored is None else task.stored.answer
    if answer is None or answer.seq is None:
        return row
    error = replace(failure, stage="evaluator")
    return replace(row, error=error, answer_key=answer.answer_key, answer_ref=AnswerRef(answer.seq))


def not_begun_row(run_id: str, task: CaseTask, *, now: datetime) -> CaseResult:
    """Return the row of a case that was waiting when the run was stopped; it is not stored: a resume runs it."""
    return failed_row(run_id, task, Failure("budget", "the run was stopped before this case began"), now=now)


def skipped_row(run_id: str, task: CaseTask, case: EvalCase, *, now: datetime) -> CaseResult:
    """Return the row of a case whose target was not called.

    The case has `skip`, or no selected evaluator would score the answer.
    """
    return CaseResult(
        run_id=run_id,
        timestamp=now,
        slot=task.slot,
        dataset=task.suite.dataset,
        generation=task.generation,
        rerun=task.rerun,
        status="skipped",
        score=None,
        verdict=None,
        conversation_id=case.conversation_id,
        session_id=_cluster_of(case, task.suite),
        tags=tags_of(case, task.suite),
        metadata=case.metadata,
        reasoning=case.skip,
        file=case.location.path if case.location else "",
        line=case.location.line if case.location else 0,
    )


def _cluster_of(case: EvalCase, suite: EvalSuite) -> str | None:
    """Return the cluster of a case: its value of the metadata that the suite's `cluster` names; None without one."""
    if suite.cluster is None:
        return None
    value = case.metadata.get(suite.cluster.removeprefix(METADATA_PREFIX))
    return None if value is None else f"{suite.cluster}={compact_json(value)}"


def unanswered_row(run_id: str, prepared: PreparedCase, answer: Answer, *, is_model: bool) -> CaseResult:
    """Return the row of a call that failed: without score and verdict, and not part of any mean."""
    summary = trace_summary(answer.output_messages, answer.trace)
    return judged_row(run_id, prepared, answer, (), score_keys={}, summary=summary, is_model=is_model)


def is_dry(task: CaseTask, answered_by: str | None, request: JsonObject | None = None) -> bool:
    """Return True if a target calls nothing (`dry_run` of an editor), or did not when it gave the answer to `request`.

    Only the settings of a target can say so: what a target returns must not keep its answer from being judged.
    """
    target = task.target if answered_by is None else task.known.get(answered_by)
    setting = getattr(target.settings, "dry_run", None)
    return setting is True or (setting is not None and request is not None and request.get("dry_run") is True)


def dry_row(run_id: str, prepared: PreparedCase, answer: Answer) -> CaseResult:
    """Return the row of a dry run, which shows the request and names no answer: there is none."""
    row = unanswered_row(run_id, prepared, answer, is_model=False)
    return replace(row, status="skipped", score=None, verdict=None, answer_key="", answer_ref=None)


def judged_row(
    run_id: str,
    prepared: PreparedCase,
    answer: Answer,
    results: tuple[EvaluatorResult, ...],
    *,
    score_keys: Mapping[str, str],
    summary: TraceSummary | None,
    is_model: bool = False,
    outcome: Outcome | None = None,
) -> CaseResult:
    """Return the row of a scored answer; if an evaluator failed, the row has a score but no verdict.

    `outcome` is that of criteria; None if the evaluators of the case decide.
    """
    task, case, fields = prepared.task, prepared.case, case_fields(results)
    location = case.location or _NO_LOCATION
    pass_score = task.suite.pass_score if case.pass_score is None else case.pass_score
    status, score, verdict, error = outcome or _outcome(case, answer, results, pass_score)
    usage_by, cost_usd = _spending(answer, results)
    # Calls with more keywords than these would go through a dict, which takes longer (bench/echo_cases.py).
    row = CaseResult(
        run_id=run_id,
        timestamp=answer.ended_at,
        slot=answer.slot,
        dataset=task.suite.dataset,
        generation=task.generation,
        tags=prepared.tags,
        metadata=case.metadata,
        file=location.path,
        line=location.line,
        score_keys=score_keys,
        status=status,
        score=score,
        verdict=verdict,
        evaluator_results=results,
        single_form=prepared.single_form and answer.error is None,
    )
    row = _with_answer(row, answer, fields, is_model=is_model)
    rare = {
        "conversation_id": case.conversation_id,
        "session_id": _cluster_of(case, task.suite),
        "error": error,
        "raw_aspects": fields.raw_aspects,
        "trace_summary": summary,
        "usage_by": usage_by,
        "cost_usd": cost_usd,
        "answered_by": answer.answered_by,
        "trace": answer.trace,
        "output_messages": answer.output_messages,
        "partial": answer.partial,
        "rerun": task.rerun,
    }
    if answer.origin is not None:
        row = replace(row, trace_id=answer.origin.trace_id, span_id=answer.origin.span_id)
    if task.stored is not None:
        row = replace(row, rescored=_rescored(task.stored))
    if list(rare.values()) != _NOTHING_RARE:
        row = replace(row, **rare)
    return row if status != "skipped" else replace(row, reasoning=_why_unchecked(case, results) or row.reasoning)


def _rescored(stored: AnswerToScore) -> int:
    """Return how often a stored answer will have been judged again; 0 if it is judged for the first time."""
    row = stored.row
    return 0 if row is None or row.answer_seq != stored.answer.seq else row.rescored + 1


_NOTHING_RARE = [None] * 12
"""The values of the fields that most rows do not have; without them a row needs one copy less (bench/echo_cases.py)."""


def _with_answer(row: CaseResult, answer: Answer, fields: CaseFields, *, is_model: bool) -> CaseResult:
    """Return a row with those fields of its answer and of its evaluators (`fields`) that most rows have."""
    return replace(
        row,
        hits=fields.hits,
        misses=fields.misses,
        reasoning=fields.reasoning,
        expected_aspect_count=fields.expected_aspect_count,
        answer_key=answer.answer_key,
        answer_ref=None if answer.seq is None else AnswerRef(answer.seq),
        attempt=answer.attempt,
        candidate_answer=answer.text,
        empty_answer=answer.error is None and not answer.text.strip(),
        agent_provider_request=None if is_model else answer.request,
        lm_provider_request=answer.request if is_model else None,
        duration_ms=answer.duration_ms,
        cached=answer.cached is not None,
    )


def _outcome(case: EvalCase, answer: Answer, results: tuple[EvaluatorResult, ...], pass_score: float | None) -> Outcome:
    if answer.error is not None:
        return "error", None, None, answer.error
    if results and results[0].status == "skipped" and all(result.status == "skipped" for result in results):
        return "skipped", None, None, None
    score = conversation_score(results, case.turn_rules) if case.is_conversation else evaluators_score(results)
    broken = first_failed(results)
    if broken is not None and broken.error is not None:
        message = f"evaluator {broken.name!r}: {broken.error.message}"
        return "error", score, None, replace(broken.error, message=message, stage="evaluator")
    verdict = case_verdict(score, results, pass_score)
    if verdict == "pass" and _why_unchecked(case, results) is not None:
        return "skipped", None, None, None
    return row_status(score), score, verdict, None


def _why_unchecked(case: EvalCase, results: tuple[EvaluatorResult, ...]) -> str | None:
    """Return why an answer that meets all that was checked is no pass; None if everything was checked."""
    skipped = unchecked_requirement(results)
    if case.incomplete is not None or skipped is None:
        return case.incomplete
    return f"{skipped.name}: {skipped.reasoning or 'skipped'}"


def _spending(answer: Answer, results: tuple[EvaluatorResult, ...]) -> tuple[UsageBy | None, float | None]:
    """Return what target and judges of a row spent, and their total cost; the cost is None if a part is not known."""
    target = Spent.of(answer.usage, answer.cost_usd, estimated=answer.estimated)
    # Rules, which call no judge, spend nothing.
    judged = [result for result in results if result.usage or result.judge_calls or result.evaluator_results]
    if not judged:
        return UsageBy.of(target), answer.cost_usd
    usages = [result.usage for result in judged if result.usage is not None]
    cost_usd = judges_cost_usd(judged)
    usage = total_usage(usages) if usages else None
    judge = Spent.of(usage, cost_usd, estimated=any(map(has_estimated_call, judged)))
    if cost_usd is None and usage is None and not any(map(has_unpriced_call, judged)):
        cost_usd = 0.0
    total_usd = None if answer.cost_usd is None or cost_usd is None else answer.cost_usd + cost_usd
    return UsageBy.of(target, judge), total_usd


def has_estimated_call(result: EvaluatorResult) -> bool:
    """Return True if a part of the usage of an evaluator's judge, or of a member's, was estimated."""
    return any(call.estimated for call in result.judge_calls) or any(map(has_estimated_call, result.evaluator_results))


def reusable_scores(
    row: CaseResult | None, keys: Mapping[str, str], evaluators: tuple[EvaluatorLike, ...]
) -> dict[str, EvaluatorResult]:
    """Return the scores of a stored row that are still valid, by evaluator: those with the same key."""
    if row is None or len(keys) < len(evaluators):  # evaluators with the same name are ambiguous
        return {}
    stored_keys = row.score_keys
    return {
        result.name: result
        for result in row.evaluator_results
        if result.status in ("scored", "unverified") and keys.get(result.name) == stored_keys.get(result.name, "")
    }
