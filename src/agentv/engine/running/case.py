"""One row: ask, keep the answer, judge it, say how it went. Never raises for a case's own failure."""

from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import cached_property, partial
from typing import Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.answer import CallOutcome, ask, make_answer
from agentv.engine.calling.budget import refused_calls
from agentv.engine.calling.capture import Cleaner
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.fingerprints import Fingerprints, WrittenEvaluators
from agentv.engine.planning.plan import CaseTask, Stored
from agentv.engine.planning.prepared_case import PreparedCase, prepare_case, result_key_of
from agentv.engine.running.context import build_context, tags_of, trace_summary
from agentv.engine.running.score import DEFAULT_EVALUATOR_TIMEOUT_S, SuiteTools, costs_money, score_context
from agentv.engine.running.workspaces import WantedWorkspace, captured_to_json, open_wanted, row_name, wanted_workspace
from agentv.evaluators.isolation import config_of
from agentv.execution.user_code import raised_at
from agentv.scoring.keys.identity import case_key, criterion_to_json, files_of
from agentv.scoring.results.aggregation import (
    case_fields,
    case_verdict,
    evaluators_score,
    first_broken,
    row_state,
    row_status,
)
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.types.cases import BrokenCase, EvalCase, EvaluatorLike, Location
from agentv.types.errors import ProviderError, StorageError
from agentv.types.evaluation import EvaluatorResult, Verdict
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import FilePart
from agentv.types.messages_json import reference_answer
from agentv.types.provider import CallRecord, ProviderResponse
from agentv.types.records.answer import Answer, AnswerRef
from agentv.types.records.result import CaseResult, RowStatus, Spent, UsageBy
from agentv.types.records.run import CaseRecord
from agentv.types.usage import Usage, total_usage


class TargetSession:
    """Who answers, who judges, and what is struck from both. `target_key` is the key of who answers.

    Live objects are made when they are first needed: a row that fails before has its own error, not theirs.
    """

    def __init__(self, task: CaseTask, runtime: Runtime, fingerprints: Fingerprints) -> None:
        spec = runtime.specs.providers.get(task.target.provider)
        self._suite, self._target = task.suite, task.target  # held: their ids say which target_session this is
        self._known = task.known
        self._runtime = runtime
        self._cleaner: Cleaner | None = None
        self._secrets_of = 0
        self.is_model = spec.is_model_api
        self.names_files = spec.has_files
        self.target_key = fingerprints.target_key(task.target)
        timeout_s = task.suite.evaluator_timeout_s or DEFAULT_EVALUATOR_TIMEOUT_S
        self.tools = SuiteTools(runtime, task.known, timeout_s, task.only_free)

    @cached_property
    def provider(self) -> ResilientProvider:
        """Who answers."""
        return self._runtime.provider(self._target)

    @cached_property
    def judge(self) -> ResilientProvider | None:
        """Who judges the target's answers where an evaluator names nobody; None when nobody can."""
        return self._runtime.own_judge(self._target, self._known)

    def cleaner(self) -> Cleaner:
        """Return what makes answers fit to be kept. Targets that a late line names bring secrets of their own."""
        known = len(self._known.resolved)
        if self._cleaner is None or self._secrets_of != known:
            self._secrets_of = known
            self._cleaner = Cleaner(self._runtime.redactor(self._known, self._suite.redact))
        return self._cleaner


_Outcome: TypeAlias = tuple[RowStatus, float | None, Verdict | None, Failure | None]
"""How a row ends: its status, score, verdict and error."""

_NOWHERE = Location("")
"""Where a case stands that came from Python."""


def case_record(prepared: PreparedCase, evaluators: WrittenEvaluators) -> CaseRecord:
    """Return what `cases.jsonl` keeps of a case."""
    case, suite = prepared.case, prepared.task.suite
    return CaseRecord(
        case_key=case_key(prepared.keys, evaluators.canonical),
        suite=suite.path,
        eval_id=case.id,
        file=case.location.path if case.location else suite.path,
        line=case.location.line if case.location else 0,
        question=prepared.prompt.question,
        input_messages=case.input_messages,
        expected_outcome=case.expected_outcome,
        expected_messages=case.expected_messages,
        reference_answer=reference_answer(case.expected_messages),
        criteria=tuple(map(criterion_to_json, prepared.criteria)),
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
        slot=result_key_of(task),
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
        slot=result_key_of(task),
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


def unanswered_row(run_id: str, prepared: PreparedCase, answer: Answer, *, is_model: bool) -> CaseResult:
    """Return the row of a target that did not answer: no score, no verdict, never an average."""
    return judged_row(run_id, question, answer, (), score_keys={}, is_model=is_model)


def judged_row(
    run_id: str,
    prepared: PreparedCase,
    answer: Answer,
    results: tuple[EvaluatorResult, ...],
    *,
    score_keys: Mapping[str, str],
    is_model: bool,
) -> CaseResult:
    """Return the row of an answer that was judged; when a judge failed it keeps its number but no verdict."""
    task, case, fields = prepared.task, prepared.case, case_fields(results)
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
        single_form=prepared.single_form and answer.error is None,
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


class RowSink(Protocol):
    """Where a row's parts go as they come to be: whoever owns the run folder writes them."""

    def case(self, record: CaseRecord) -> None:
        """Keep a case before its first call."""

    def answer(self, answer: Answer) -> Answer:
        """Keep an answer before it is judged; it comes back with its number."""


class CaseRunner(Struct, frozen=True):
    """Makes rows out of tasks, with the tools of one process."""

    run_id: str
    runtime: Runtime
    sink: RowSink
    fingerprints: Fingerprints
    on_retry: Callable[[CaseTask, CallRecord, float], None]
    desks: dict[tuple[int, int], TargetSession] = field(default_factory=dict)

    async def run(self, task: CaseTask) -> CaseResult:
        """Return the row of a task: the last net under everything that can go wrong with one.

        A fault of ours must not cost the hours of a run either, so that it becomes this row's error, with its place.
        """
        case = task.case
        if isinstance(case, BrokenCase):
            return broken_row(self.run_id, task, case, now=self.runtime.clock())
        if task.only_free and self.has_nothing_to_judge(task):
            return skipped_row(self.run_id, task, case, now=self.runtime.clock())
        return await self._netted(task, case, self._made(task, case))

    async def _made(self, task: CaseTask, case: EvalCase) -> CaseResult:
        target_session = self._target_session(task)
        question = self._open(target_session, task, case)
        if task.stored is not None:
            return await self._judge(target_session, question, task.stored.answer)
        wanted = wanted_workspace(case, task.suite, task.target)
        if wanted is not None:
            return await self._in_workspace(target_session, question, wanted)
        reply = await ask(
            question, target_session.provider, clock=self.runtime.clock, on_retry=partial(self.on_retry, task)
        )
        return await self._judge(target_session, question, self._keep(target_session, question, reply))

    def has_nothing_to_judge(self, task: CaseTask) -> bool:
        """Whether only evaluators that cost money would judge a case, and these are left out: it is not asked then."""
        if not task.only_free or isinstance(task.case, BrokenCase):
            return False
        evaluators, _ = applicable_evaluators(task.case, task.suite)
        return all(costs_money(config_of(evaluator), self.runtime, task.known) for evaluator in evaluators)

    async def _in_workspace(
        self, target_session: TargetSession, prepared: PreparedCase, wanted: WantedWorkspace
    ) -> CaseResult:
        """Ask in a folder of the row's own, capture what was changed there, and judge before the folder goes."""
        task, runtime = prepared.task, self.runtime
        started_at = runtime.clock()
        try:
            async with open_wanted(wanted, row_name(task), runtime) as workspace:
                request = replace(prepared.request, workspace=str(workspace.path))
                question = replace(question, request=request)
                reply = await ask(
                    question,
                    target_session.provider,
                    clock=runtime.clock,
                    on_retry=partial(self.on_retry, task),
                    before_repeat=workspace.reset,
                )
                captured = await workspace.capture()
                kept = captured_to_json(captured, workspace, keep=wanted.config.keep)
                row = await self._judge(
                    target_session, question, self._keep(target_session, question, reply, workspace=kept)
                )
                for note in (*captured.notes, *await workspace.finish(failed=row_state(row) != "pass")):
                    self.tell(task, f"{task.case.id}: {note}")
                return row
        except ProviderError as error:
            reply = CallOutcome(error.failure, started_at, runtime.clock())
            return await self._judge(target_session, question, self._keep(target_session, question, reply))

    async def finish(self, prepared: PreparedCase, answer: Answer) -> CaseResult:
        """Return the row of an answer that a batch brought, under the same net."""
        task = prepared.task
        return await self._netted(task, prepared.case, self._judge(self._target_session(task), question, answer))

    async def _netted(self, task: CaseTask, case: EvalCase, work: Coroutine[None, None, CaseResult]) -> CaseResult:
        with refused_calls(self.runtime.budget) as refused:
            try:
                row = await work
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - see `run`
                message = f"{type(error).__name__}: {error}{raised_at(error)}"
                row = crashed_row(self.run_id, task, case, message, now=self.runtime.clock())
        # What was judged without a call that was to be made is no result, whatever the evaluators made of it.
        return replace(row, status="error", score=None, verdict=None, error=refused[0]) if refused else row

    def tell(self, task: CaseTask, message: str) -> None:
        """Tell people something about a task's target, secrets struck."""
        self.runtime.note(f"target {task.target.name!r}: {self._target_session(task).cleaner().text(message)}")

    def _target_session(self, task: CaseTask) -> TargetSession:
        """Return where a task is done."""
        place = (id(task.suite), id(task.target))
        target_session = self.desks.get(place)
        if target_session is None:
            target_session = self.desks[place] = TargetSession(task, self.runtime, self.fingerprints)
        return target_session

    def open(self, task: CaseTask, case: EvalCase) -> PreparedCase:
        """Return what is asked, with its case kept before the first call."""
        return self._open(self._target_session(task), task, case)

    def _open(self, target_session: TargetSession, task: CaseTask, case: EvalCase) -> PreparedCase:
        question = prepare_case(
            task, case, target_key=target_session.target_key, names_files=target_session.names_files
        )
        if task.trial == 0:
            written = self.fingerprints.written(prepared.evaluators, single_form=prepared.single_form)
            self.sink.case(case_record(question, written))
        return question

    def keep(self, prepared: PreparedCase, outcome: CallOutcome) -> Answer:
        """Clean a reply, and keep it before anything judges it."""
        return self._keep(self._target_session(prepared.task), question, reply)

    def _keep(
        self, target_session: TargetSession, prepared: PreparedCase, outcome: CallOutcome, *, workspace: JsonObject | None = None
    ) -> Answer:
        counts_attempts = target_session.provider.counts_attempts
        answer = make_answer(
            question, reply, cleaner=target_session.cleaner(), counts_attempts=counts_attempts, workspace=workspace
        )
        if isinstance(outcome.outcome, ProviderResponse):
            for note in outcome.outcome.notes:
                self.tell(prepared.task, note)
        return self.sink.answer(answer)

    async def _judge(self, target_session: TargetSession, prepared: PreparedCase, answer: Answer) -> CaseResult:
        """Return the row of an answer that is kept."""
        task = prepared.task
        if answer.error is not None:
            return unanswered_row(self.run_id, question, answer, is_model=target_session.is_model)
        evaluators = prepared.evaluators
        keys = self.fingerprints.score_keys(task, prepared.keys, answer.answer_key, evaluators)
        known = {} if task.stored is None else reusable_scores(task.stored, keys, evaluators)
        results = await self._score(target_session, question, answer, known)
        return judged_row(self.run_id, question, answer, results, score_keys=keys, is_model=target_session.is_model)

    async def _score(
        self, target_session: TargetSession, prepared: PreparedCase, answer: Answer, known: Mapping[str, EvaluatorResult]
    ) -> tuple[EvaluatorResult, ...]:
        """Return the results of all evaluators, in order; those `known` by name are not asked again."""
        context = build_context(
            prepared.case,
            answer,
            target=prepared.task.target,
            provider=target_session.provider,
            prompt=prepared.prompt,
            criteria=prepared.criteria,
            judge=target_session.judge,
            now=self.runtime.clock(),
            workspace_path=prepared.request.workspace,
        )
        evaluators = prepared.evaluators
        asked = [each for each in evaluators if config_of(each).name not in known] if known else evaluators
        results = await score_context(context, asked, tools=target_session.tools)
        cleaned: tuple[EvaluatorResult, ...] = target_session.cleaner().clean(results)
        if not known:
            return cleaned
        made = iter(cleaned)
        return tuple(known.get(config_of(evaluator).name) or next(made) for evaluator in evaluators)


def reusable_scores(
    stored: Stored, keys: Mapping[str, str], evaluators: tuple[EvaluatorLike, ...]
) -> dict[str, EvaluatorResult]:
    """Return the scores of a stored row that still hold, by evaluator: the key is the same, and it was a score."""
    if stored.row is None or len(keys) < len(evaluators):  # of two evaluators of one name nobody knows which is which
        return {}
    before = stored.row.score_keys
    return {
        result.name: result
        for result in stored.row.evaluator_results
        if result.status in ("scored", "unverified") and keys.get(result.name) == before.get(result.name, "")
    }
