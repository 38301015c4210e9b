"""From what happened to the rows that are kept: pure, one function per way a row can end."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from agentv.pipeline.context import tags_of, trace_summary
from agentv.pipeline.fingerprints import WrittenEvaluators
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.question import Question, slot_of
from agentv.scoring.aggregation import case_fields, case_verdict, evaluators_score, first_broken, row_status
from agentv.scoring.identity import case_key, criterion_to_json, files_of
from agentv.types.cases import BrokenCase, EvalCase, Location
from agentv.types.evaluation import EvaluatorResult, Verdict
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import FilePart
from agentv.types.messages_json import reference_answer
from agentv.types.records.answer import Answer, AnswerRef
from agentv.types.records.result import CaseResult, RowStatus, Spent, UsageBy
from agentv.types.records.run import CaseRecord
from agentv.types.usage import Usage, total_usage

_Outcome: TypeAlias = tuple[RowStatus, float | None, Verdict | None, Failure | None]
"""How a row ends: its status, score, verdict and error."""

_NOWHERE = Location("")
"""Where a case stands that came from Python."""


def case_record(question: Question, evaluators: WrittenEvaluators) -> CaseRecord:
    """Return what `cases.jsonl` keeps of a case."""
    case, suite = question.case, question.task.suite
    return CaseRecord(
        case_key=case_key(question.keys, evaluators.canonical),
        suite=suite.path,
        eval_id=case.id,
        file=case.location.path if case.location else suite.path,
        line=case.location.line if case.location else 0,
        question=question.prompt.question,
        input_messages=case.input_messages,
        expected_outcome=case.expected_outcome,
        expected_messages=case.expected_messages,
        reference_answer=reference_answer(case.expected_messages),
        criteria=tuple(map(criterion_to_json, question.criteria)),
        evaluators=evaluators.json,
        files=tuple(map(_file_to_json, files_of(case.input_messages))),
        tags=tags_of(case, suite),
        metadata=case.metadata,
    )


def _file_to_json(file: FilePart) -> JsonObject:
    return {"path": file.path, "sha256": file.sha256, "bytes": file.size}


def broken_row(run_id: str, task: CaseTask, case: BrokenCase, *, now: datetime) -> CaseResult:
    """Return the row of a line that could not be read."""
    message = "; ".join(problem.render() for problem in case.problems)
    return CaseResult(
        run_id=run_id,
        timestamp=now,
        slot=slot_of(task),
        dataset=task.suite.dataset,
        generation=task.generation,
        status="error",
        score=None,
        verdict=None,
        tags=tuple(task.suite.tags),
        error=Failure("config_error", message, stage="load"),
        file=case.location.path,
        line=case.location.line,
    )


def crashed_row(run_id: str, task: CaseTask, case: EvalCase, message: str, *, now: datetime) -> CaseResult:
    """Return the row of a case that met a fault of ours: it has no score and says what to report."""
    failure = Failure("plugin_error", f"a fault inside agentv, please report it: {message}")
    return replace(skipped_row(run_id, task, case, now=now), status="error", error=failure)


def skipped_row(run_id: str, task: CaseTask, case: EvalCase, *, now: datetime) -> CaseResult:
    """Return the row of a case that was not asked, because nobody would have judged the answer."""
    return CaseResult(
        run_id=run_id,
        timestamp=now,
        slot=slot_of(task),
        dataset=task.suite.dataset,
        generation=task.generation,
        status="skipped",
        score=None,
        verdict=None,
        conversation_id=case.conversation_id,
        tags=tags_of(case, task.suite),
        metadata=case.metadata,
        file=case.location.path if case.location else "",
        line=case.location.line if case.location else 0,
    )


def unanswered_row(run_id: str, question: Question, answer: Answer, *, is_model: bool) -> CaseResult:
    """Return the row of a target that did not answer: no score, no verdict, never an average."""
    return judged_row(run_id, question, answer, (), score_keys={}, is_model=is_model)


def judged_row(
    run_id: str,
    question: Question,
    answer: Answer,
    results: tuple[EvaluatorResult, ...],
    *,
    score_keys: Mapping[str, str],
    is_model: bool,
) -> CaseResult:
    """Return the row of an answer that was judged; when a judge failed it keeps its number but no verdict."""
    task, case, fields = question.task, question.case, case_fields(results)
    status, score, verdict, error = _outcome(answer, results)
    judge_usage, judge_cost = _judges_spent(results)
    location = case.location or _NOWHERE
    return CaseResult(
        run_id=run_id,
        timestamp=answer.ended_at,
        slot=answer.slot,
        dataset=task.suite.dataset,
        status=status,
        score=score,
        verdict=verdict,
        answer_key=answer.answer_key,
        score_keys=score_keys,
        answer_ref=None if answer.seq is None else AnswerRef(answer.seq),
        generation=task.generation,
        attempt=answer.attempt,
        conversation_id=case.conversation_id,
        tags=tags_of(case, task.suite),
        metadata=case.metadata,
        hits=fields.hits,
        misses=fields.misses,
        reasoning=fields.reasoning,
        expected_aspect_count=fields.expected_aspect_count,
        raw_aspects=fields.raw_aspects,
        candidate_answer=answer.text,
        evaluator_results=results,
        single_form=question.single_form and answer.error is None,
        trace_summary=trace_summary(answer.output_messages, answer.trace),
        trace=answer.trace,
        output_messages=answer.output_messages,
        agent_provider_request=None if is_model else answer.request,
        lm_provider_request=answer.request if is_model else None,
        usage_by=UsageBy.of(Spent.of(answer.usage, answer.cost_usd), Spent.of(judge_usage, judge_cost)),
        cost_usd=_total_cost(answer.cost_usd, judge_usage, judge_cost),
        duration_ms=answer.duration_ms,
        cached=answer.cached is not None,
        error=error,
        file=location.path,
        line=location.line,
    )


def _outcome(answer: Answer, results: tuple[EvaluatorResult, ...]) -> _Outcome:
    if answer.error is not None:
        return "error", None, None, answer.error
    if results and results[0].status == "skipped" and all(result.status == "skipped" for result in results):
        return "skipped", None, None, None
    score, broken = evaluators_score(results), first_broken(results)
    if broken is not None and broken.error is not None:
        message = f"evaluator {broken.name!r}: {broken.error.message}"
        return "error", score, None, replace(broken.error, message=message, stage="evaluator")
    return row_status(score), score, case_verdict(score, results), None


def _judges_spent(results: tuple[EvaluatorResult, ...]) -> tuple[Usage | None, float | None]:
    usages = [result.usage for result in results if result.usage is not None]
    if not usages:
        return None, None
    costs = [result.cost_usd for result in results if result.usage is not None]
    known = [cost for cost in costs if cost is not None]
    return total_usage(usages), sum(known) if len(known) == len(costs) else None


def _total_cost(target_cost: float | None, judge_usage: Usage | None, judge_cost: float | None) -> float | None:
    """Return target and judge cost together; None when a part of it is not known."""
    if target_cost is None or (judge_usage is not None and judge_cost is None):
        return None
    return target_cost + (judge_cost or 0.0)
