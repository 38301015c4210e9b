"""From what happened to the rows that are kept: pure, one function per way a row can end."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from agentv.pipeline.answer import Question, slot_of
from agentv.pipeline.context import criteria_of, tags_of, trace_summary
from agentv.pipeline.plan import CaseTask
from agentv.scoring.aggregation import case_fields, case_verdict, evaluators_score, first_broken, row_status
from agentv.scoring.identity import case_key, criterion_to_json, evaluator_to_json, files_of
from agentv.types.cases import BrokenCase, EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import reference_answer
from agentv.types.results import Answer, CaseRecord, CaseResult
from agentv.types.usage import Usage, total_usage


def case_record(question: Question, evaluators: tuple[EvaluatorLike, ...], *, single_form: bool) -> CaseRecord:
    """Return what `cases.jsonl` keeps of a case. The single form is kept as the one name it was written as."""
    case, suite = question.case, question.task.suite
    criteria = criteria_of(case, suite)
    written: JsonValue = [evaluator_to_json(evaluator) for evaluator in evaluators]
    if single_form and isinstance(evaluators[0], EvaluatorConfig):
        written = evaluators[0].type
    files: tuple[JsonObject, ...] = tuple(
        {"path": file.path, "sha256": file.sha256, "bytes": file.size} for file in files_of(case.input_messages)
    )
    return CaseRecord(
        case_key=case_key(case, written, criteria),
        suite=suite.path,
        eval_id=case.id,
        file=case.location.path if case.location else suite.path,
        line=case.location.line if case.location else 0,
        question=question.prompt.question,
        input_messages=case.input_messages,
        expected_outcome=case.expected_outcome,
        expected_messages=case.expected_messages,
        reference_answer=reference_answer(case.expected_messages),
        criteria=tuple(criterion_to_json(criterion) for criterion in criteria),
        evaluators=written,
        files=files,
        tags=tags_of(case, suite),
        metadata=case.metadata,
    )


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
        tags=task.suite.tags,
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
    row = _row(run_id, question, answer, is_model=is_model)
    return replace(row, status="error", score=None, verdict=None, error=answer.error)


def judged_row(
    run_id: str,
    question: Question,
    answer: Answer,
    results: tuple[EvaluatorResult, ...],
    *,
    single_form: bool,
    score_keys: Mapping[str, str],
    is_model: bool,
) -> CaseResult:
    """Return the row of an answer that was judged; when a judge failed it keeps its number but no verdict."""
    row = _row(run_id, question, answer, is_model=is_model)
    fields = case_fields(results)
    judge_usage, judge_cost = _judges_spent(results)
    row = replace(
        row,
        score_keys=score_keys,
        hits=fields.hits,
        misses=fields.misses,
        reasoning=fields.reasoning,
        expected_aspect_count=fields.expected_aspect_count,
        raw_aspects=fields.raw_aspects,
        evaluator_results=results,
        single_form=single_form,
        judge_usage=judge_usage,
        judge_cost_usd=judge_cost,
        cost_usd=_total_cost(row, judge_usage, judge_cost),
    )
    if results and all(result.status == "skipped" for result in results):
        return replace(row, status="skipped", score=None, verdict=None)
    score = evaluators_score(results)
    broken = first_broken(results)
    if broken is not None and broken.error is not None:
        message = f"evaluator {broken.name!r}: {broken.error.message}"
        failure = replace(broken.error, message=message, stage="evaluator")
        return replace(row, status="error", score=score, verdict=None, error=failure)
    return replace(row, status=row_status(score), score=score, verdict=case_verdict(score, results))


def _row(run_id: str, question: Question, answer: Answer, *, is_model: bool) -> CaseResult:
    """Return what a row says of its answer, before any judgement."""
    task, case = question.task, question.case
    return CaseResult(
        run_id=run_id,
        timestamp=answer.ended_at,
        slot=answer.slot,
        dataset=task.suite.dataset,
        status="fail",
        score=None,
        verdict=None,
        answer_key=answer.answer_key,
        answer_seq=answer.seq,
        generation=task.generation,
        attempt=answer.attempt,
        conversation_id=case.conversation_id,
        tags=tags_of(case, task.suite),
        metadata=case.metadata,
        candidate_answer=answer.text,
        trace_summary=trace_summary(answer.output_messages, answer.trace),
        trace=answer.trace,
        output_messages=answer.output_messages,
        agent_provider_request=None if is_model else answer.request,
        lm_provider_request=answer.request if is_model else None,
        target_usage=answer.usage,
        target_cost_usd=answer.cost_usd,
        cost_usd=answer.cost_usd,
        duration_ms=answer.duration_ms,
        cached=answer.cached is not None,
        file=case.location.path if case.location else "",
        line=case.location.line if case.location else 0,
    )


def _judges_spent(results: tuple[EvaluatorResult, ...]) -> tuple[Usage | None, float | None]:
    usages = [result.usage for result in results if result.usage is not None]
    if not usages:
        return None, None
    costs = [result.cost_usd for result in results if result.usage is not None]
    known = [cost for cost in costs if cost is not None]
    return total_usage(usages), sum(known) if len(known) == len(costs) else None


def _total_cost(row: CaseResult, judge_usage: Usage | None, judge_cost: float | None) -> float | None:
    """Return target and judge cost together; None when a part of it is not known."""
    if row.target_cost_usd is None or (judge_usage is not None and judge_cost is None):
        return None
    return row.target_cost_usd + (judge_cost or 0.0)
