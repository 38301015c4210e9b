"""One row: call the target, save the answer, score it. Never raises for a case's own failure."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.answer import (
    CallOutcome,
    OnLogLine,
    answers_by_turn,
    call_with_fallbacks,
    failed_answer,
    failed_outcome,
    hold_conversation,
    joined_answers,
    make_answer,
)
from agentv.engine.calling.budget import refused_calls
from agentv.engine.calling.fingerprints import Fingerprints, StoredEvaluators, put_bounded
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import MAX_EVALUATORS, Runtime
from agentv.engine.calling.uncached import calls_of
from agentv.engine.capture import Cleaner
from agentv.engine.planning.plan import AnswerToScore, CaseTask
from agentv.engine.planning.prepared_case import PreparedCase, prepare_case, prepared_turn
from agentv.engine.planning.workspaces import WantedWorkspace, wanted_workspace
from agentv.engine.running.context import (
    build_context,
    conversation_context,
    conversation_evaluator,
    unanswered_context,
)
from agentv.engine.running.dependencies import Dependencies
from agentv.engine.running.score import DEFAULT_EVALUATOR_TIMEOUT_S, SuiteTools, costs_money, run_evaluators
from agentv.evaluators.isolation import PreparedEvaluator, config_of
from agentv.execution.cancelled_calls import INTERRUPTED, attached_call
from agentv.execution.user_code import described
from agentv.scoring.keys.identity import (
    canonical_json,
    case_key,
    criterion_to_json,
    files_of,
    score_keys,
    turn_rules_to_json,
    turn_to_json,
)
from agentv.scoring.results.aggregation import (
    CaseFields,
    case_fields,
    case_verdict,
    evaluators_score,
    first_failed,
    row_state,
    row_status,
    unchecked_requirement,
)
from agentv.scoring.results.applicable import all_evaluators, tags_of
from agentv.scoring.results.turns import (
    conversation_score,
    missing_turn_result,
    skipped_turn_result,
    turn_name,
    turn_result,
)
from agentv.scoring.tools.trace_summary import trace_summary
from agentv.types.cases import METADATA_PREFIX, BrokenCase, EvalCase, EvalSuite, EvaluatorLike, Location
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluationContext, EvaluatorResult, Verdict
from agentv.types.events import LogLine
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import FilePart, TraceSummary
from agentv.types.messages_json import compact_json, reference_answer
from agentv.types.provider import CallRecord, ProviderError, ProviderResponse
from agentv.types.records.answer import Answer, AnswerRef, ResultKey
from agentv.types.records.result import CaseResult, RowStatus, Spent, UsageBy
from agentv.types.records.run import CaseRecord
from agentv.types.scales import EvaluationCriteria
from agentv.types.usage import AMOUNT_NOTES, total_usage
from agentv.types.workspaces import Keep, WorkspaceChanges

if TYPE_CHECKING:
    from agentv.execution.workspaces.workspaces import Workspace


def open_wanted_workspace(
    wanted: WantedWorkspace, name: str, runtime: Runtime
) -> "AbstractAsyncContextManager[Workspace]":
    """Return the workspace as a context manager, which raises ProviderError if the workspace cannot be created."""
    from agentv.execution.workspaces.workspaces import open_workspace  # noqa: PLC0415 - 30 ms that few runs need

    return open_workspace(
        wanted.config,
        name=name,
        base_dir=wanted.base_dir,
        home=Path(runtime.home),
        shared=runtime.shared,
        machine=runtime.machine,
    )


async def _captured(workspace: "Workspace", answer: Answer) -> tuple[WorkspaceChanges, Answer]:
    """Return the changes in a workspace, and the answer; it is a failed one if the changes cannot be captured."""
    try:
        return await workspace.capture(), answer
    except ProviderError as error:
        return WorkspaceChanges(), answer if answer.error is not None else failed_answer(answer, error.failure)


def workspace_name(task: CaseTask) -> str:
    """Return the name of the folder of a saved workspace."""
    key = task.slot
    return "-".join(filter(None, (key.eval_id, key.prompt, key.target, str(key.trial))))


def captured_to_json(captured: WorkspaceChanges, workspace: "Workspace", *, keep: Keep) -> JsonObject:
    """Return the fields that an answer stores: changed files, diff, and, with `keep: always`, the saved path."""
    fields: dict[str, JsonValue] = {
        "diff": captured.diff,
        "changed": [changed.to_json() for changed in captured.changed],
    }
    if keep == "always":
        fields["path"] = workspace.saved_location
    return fields


class Scoring(Struct, frozen=True):
    """All that scoring needs besides the answer; the same for all cases with the same evaluators and criteria.

    `stored_form` are the evaluators as a run stores them, `setup_digests` their digests by name (Fingerprints).
    """

    evaluators: tuple[EvaluatorLike, ...]
    criteria: tuple[EvaluationCriteria, ...]
    stored_form: StoredEvaluators
    prepared_evaluators: tuple[PreparedEvaluator, ...]
    setup_digests: Mapping[str, str]


class TargetSession:
    """The provider, judge and redactor that serve one target in one suite. `target_key` is a digest of its settings.

    Provider and judge are created on first use, so that a row that fails earlier reports its own error.
    """

    def __init__(self, task: CaseTask, runtime: Runtime, fingerprints: Fingerprints) -> None:
        spec = runtime.specs.providers.get(task.target.provider)
        # Keep the suite and the target alive: the session is found by their ids, which must not be reused.
        self._suite, self._target = task.suite, task.target
        self._known = task.known
        self._runtime = runtime
        self.has_dependencies = False
        """True if a case of the suite waits for another case."""
        self._cleaner: Cleaner | None = None
        self._cleaned_targets = 0
        self._workspace_keys: frozenset[str] = frozenset()
        self.is_model = spec.is_model_api
        self.quotes_paths_only = spec.reads_files
        self.target_key = fingerprints.target_key(task.target)
        timeout_s = task.suite.evaluator_timeout_s or DEFAULT_EVALUATOR_TIMEOUT_S
        self.tools = SuiteTools(runtime, task.known, timeout_s, task.only_free)
        self._fingerprints = fingerprints
        self._scorings: dict[tuple[int, bool], Scoring] = {}

    @cached_property
    def provider(self) -> ResilientProvider:
        """The live provider of the target."""
        return self._runtime.provider(self._target)

    @cached_property
    def judge(self) -> ResilientProvider | None:
        """The judge for evaluators that do not name one; None if there is none."""
        return self._runtime.own_judge(self._target, self._known)

    @cached_property
    def unanswered_context(self) -> EvaluationContext:
        """What the contexts of all answers have in common."""
        return unanswered_context(self._target, self.provider, self.judge)

    def scoring(self, prepared: PreparedCase) -> Scoring:
        """Return the Scoring of a case, cached for the next case with the same evaluators and criteria."""
        evaluators, criteria = prepared.evaluators, prepared.criteria
        is_conversation = bool(prepared.case.turns)
        key = id(evaluators), is_conversation
        cached = self._scorings.get(key)
        if cached is not None and cached.criteria is criteria:
            return cached
        scoring = Scoring(
            evaluators,
            criteria,
            stored_form=self._fingerprints.stored_form(evaluators, single_form=prepared.single_form),
            prepared_evaluators=self.tools.prepare(
                map(conversation_evaluator, evaluators) if is_conversation else evaluators, criteria
            ),
            setup_digests=self._fingerprints.setup_digests(evaluators, prepared.task),
        )
        put_bounded(self._scorings, key, scoring, most=MAX_EVALUATORS)
        return scoring

    def cleaner(self) -> Cleaner:
        """Return the cleaner of answers. It is recreated when a later case names a target with new secrets."""
        target_count = len(self._known.resolved)
        if self._cleaner is None or self._cleaned_targets != target_count:
            self._cleaned_targets = target_count
            self._cleaner = Cleaner(self._runtime.redactor(self._known, self._suite.redact, self._workspace_keys))
        return self._cleaner

    def redact_keys(self, keys: frozenset[str]) -> None:
        """Redact also the keys that were found in a workspace."""
        if not keys <= self._workspace_keys:
            self._workspace_keys |= keys
            self._cleaner = None


_RowState: TypeAlias = tuple[RowStatus, float | None, Verdict | None, Failure | None]
"""The status, score, verdict and error of a row."""

_NO_LOCATION = Location("")
"""The location of a case that was created in Python."""


def has_attachments(case: EvalCase) -> bool:
    """Return True if a case has binary files, which are stored with it."""
    return any(part.text is None for part in files_of((*case.input_messages, *case.expected_messages)))


def case_record(prepared: PreparedCase, evaluators: StoredEvaluators) -> CaseRecord:
    """Return the record of a case in `cases.jsonl`."""
    case, suite = prepared.case, prepared.task.suite
    record = CaseRecord(
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
        evaluators=evaluators.json,
        tags=prepared.tags,
        metadata=case.metadata,
    )
    files = files_of(case.input_messages)
    if case.incomplete is not None:
        record = replace(record, incomplete=case.incomplete)
    if files or prepared.criteria or case.prompt is not None:  # most cases have none of them (bench/echo_cases.py)
        record = replace(
            record,
            criteria=tuple(map(criterion_to_json, prepared.criteria)),
            files=tuple(map(_file_to_json, files)),
            prompt=case.prompt,
        )
    return _with_turns(record, prepared, evaluators) if case.turns else record


def _with_turns(record: CaseRecord, prepared: PreparedCase, evaluators: StoredEvaluators) -> CaseRecord:
    """Return the record of a case with its turns, which are a part of its key."""
    case = prepared.case
    turns, rules = tuple(map(turn_to_json, case.turns)), turn_rules_to_json(case.turn_rules)
    messages = (*case.input_messages, *[turn.input for turn in case.turns])
    return replace(
        record,
        case_key=case_key(prepared.keys, canonical_json([evaluators.json, turns, rules])),
        files=tuple(map(_file_to_json, files_of(messages))),
        turns=turns,
        turn_rules=rules,
    )


def _file_to_json(file: FilePart) -> JsonObject:
    return {"path": file.path, "sha256": file.sha256, "bytes": file.size}


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
    is_model: bool,
) -> CaseResult:
    """Return the row of a scored answer; if an evaluator failed, the row has a score but no verdict."""
    task, case, fields = prepared.task, prepared.case, case_fields(results)
    location = case.location or _NO_LOCATION
    pass_score = task.suite.pass_score if case.pass_score is None else case.pass_score
    status, score, verdict, error = _row_state(case, answer, results, pass_score)
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


def _row_state(
    case: EvalCase, answer: Answer, results: tuple[EvaluatorResult, ...], pass_score: float | None
) -> _RowState:
    if answer.error is not None:
        return "error", None, None, answer.error
    if results and results[0].status == "skipped" and all(result.status == "skipped" for result in results):
        return "skipped", None, None, None
    score = conversation_score(results, case.turn_rules) if case.turns else evaluators_score(results)
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
    by_judges = [result for result in results if result.usage is not None]
    if not by_judges and answer.usage is None and answer.cost_usd is None:
        return None, None
    target = Spent.of(answer.usage, answer.cost_usd, estimated=answer.estimated)
    if not by_judges:
        return UsageBy(target), answer.cost_usd
    known_costs = [result.cost_usd for result in by_judges if result.cost_usd is not None]
    judge_cost = sum(known_costs) if len(known_costs) == len(by_judges) else None
    judge_usage = total_usage(result.usage for result in by_judges)
    judge = Spent.of(judge_usage, judge_cost, estimated=any(map(has_estimated_call, results)))
    total_cost = None if answer.cost_usd is None or judge_cost is None else answer.cost_usd + judge_cost
    return UsageBy(target, judge), total_cost


def has_estimated_call(result: EvaluatorResult) -> bool:
    """Return True if a part of the usage of an evaluator's judge, or of a member's, was estimated."""
    return any(call.estimated for call in result.judge_calls) or any(map(has_estimated_call, result.evaluator_results))


class RowSink(Protocol):
    """Saves cases and answers to the run folder."""

    def case(self, record: CaseRecord) -> None:
        """Save a case before its first call."""

    def answer(self, answer: Answer) -> Answer:
        """Save an answer before it is scored, and return it with its number."""


def _log_line_of(show: Callable[[LogLine], None], target_session: TargetSession, row: ResultKey) -> OnLogLine:
    """Return the function that shows a line of a row's log."""
    return lambda target, text: show(LogLine(row, target, target_session.cleaner().text(text)))


class CaseRunner(Struct, frozen=True):
    """Turns tasks into rows, with the live objects of one process."""

    run_id: str
    runtime: Runtime
    sink: RowSink
    fingerprints: Fingerprints
    on_retry: Callable[[CaseTask, CallRecord, float], None]
    on_log_line: Callable[[LogLine], None] | None = None
    run_elsewhere: Callable[[CaseTask], Awaitable[CaseResult]] | None = None
    """Runs a row on another machine; None runs it here."""
    place_workspace: Callable[[WantedWorkspace], WantedWorkspace] | None = None
    """Returns a workspace with its sources on this machine, or raises ProviderError; None leaves it unchanged."""
    target_sessions: dict[tuple[int, int], TargetSession] = field(default_factory=dict)
    dependencies: Dependencies = field(default_factory=Dependencies)

    def run(self, task: CaseTask) -> Awaitable[CaseResult]:
        """Return the row of a task. While it runs here, any exception but StorageError becomes the row's error.

        That includes bugs in agentv, which must not end a long run; the message names the line that raised. Exceptions
        of `run_elsewhere` are raised. A task waits for the cases that its case depends on.
        """
        target_session = self._target_session(task)
        if target_session.has_dependencies:
            return self._run_after_others(target_session, task)
        return self._run(target_session, task, None)

    async def _run_after_others(self, target_session: TargetSession, task: CaseTask) -> CaseResult:
        self.dependencies.begin(task)
        row = await self._run(target_session, task, await self.dependencies.failure(task))
        self.dependencies.end(task, row)
        return row

    def _run(
        self, target_session: TargetSession, task: CaseTask, dependency_failure: Failure | None
    ) -> Awaitable[CaseResult]:
        case = task.case
        if not isinstance(case, EvalCase):
            return _finished(broken_row(self.run_id, task, case, now=self.runtime.clock()))
        if (task.only_free or case.skip is not None) and self.has_nothing_to_score(task):
            return _finished(skipped_row(self.run_id, task, case, now=self.runtime.clock()))
        if dependency_failure is not None:
            return _finished(failed_row(self.run_id, task, dependency_failure, now=self.runtime.clock()))
        if self.run_elsewhere is not None:
            if has_attachments(case):  # only this process has their bytes: save the case here
                self._open(target_session, task, case)
            return self.run_elsewhere(task)
        return self._with_errors_caught(task, self._row_of(target_session, task, case))

    async def _row_of(self, target_session: TargetSession, task: CaseTask, case: EvalCase) -> CaseResult:
        prepared = self._open(target_session, task, case)
        if task.stored is not None:
            return await self._judge_stored(target_session, prepared, task.stored.answer)
        wanted = wanted_workspace(case, task.suite, task.target)
        if wanted is not None:
            return await self._in_workspace(target_session, prepared, wanted)
        judged: dict[int, EvaluatorResult] = {}
        answer = await self._answer(target_session, prepared, judged)
        return await self._judge(target_session, prepared, self.sink.answer(answer), judged)

    def _answer(
        self,
        target_session: TargetSession,
        prepared: PreparedCase,
        judged: dict[int, EvaluatorResult],
        *,
        before_repeat: Callable[[], Awaitable[None]] | None = None,
    ) -> Awaitable[Answer]:
        """Return the target's answer, or its answers to all turns as one, not saved yet.

        Results of turns that had to be judged during the conversation are added to `judged`, by turn number.
        """
        if prepared.case.turns:
            return self._hold_conversation(target_session, prepared, judged, before_repeat=before_repeat)
        return self._call(target_session, prepared, self._save, before_repeat=before_repeat)

    async def _hold_conversation(
        self,
        target_session: TargetSession,
        prepared: PreparedCase,
        judged: dict[int, EvaluatorResult],
        *,
        before_repeat: Callable[[], Awaitable[None]] | None,
    ) -> Answer:
        """Hold a conversation and return its answers as one. Only a repeat of the first turn resets the workspace.

        An interrupted conversation is saved as far as it was held.
        """
        stops_on_failure = prepared.case.turn_rules.on_failure == "stop" and not is_dry(prepared.task, None)

        async def call(number: int, before: Sequence[Answer]) -> Answer:
            saved = False

            def save(session: TargetSession, turn: PreparedCase, outcome: CallOutcome) -> None:
                nonlocal saved
                saved = True
                self.sink.answer(joined_answers(prepared, [*before, self._make_answer(session, turn, outcome)]))

            turn = self._prepare_turn(target_session, prepared, number, before)
            repeat = before_repeat if number == 1 else None
            started_at = self.runtime.clock()
            try:
                return await self._call(target_session, turn, save, before_repeat=repeat)
            except asyncio.CancelledError:
                if before and not saved:  # the turns before it were paid for
                    save(target_session, turn, CallOutcome(INTERRUPTED, started_at, self.runtime.clock()))
                raise

        async def is_last(number: int, answers: Sequence[Answer]) -> bool:
            if not stops_on_failure or number == len(prepared.case.turns):
                return False
            judged[number] = await self._judge_turn(target_session, prepared, number, answers)
            return judged[number].verdict not in ("pass", None)

        return await hold_conversation(prepared, call, is_last)

    def _prepare_turn(
        self, target_session: TargetSession, prepared: PreparedCase, number: int, before: Sequence[Answer]
    ) -> PreparedCase:
        texts = [answer.text for answer in before]
        return prepared_turn(prepared, number, texts, quotes_paths_only=target_session.quotes_paths_only)

    def has_nothing_to_score(self, task: CaseTask) -> bool:
        """Return True for a case with `skip`, and if all evaluators of a case are excluded because they cost money."""
        if isinstance(task.case, BrokenCase):
            return False
        if task.case.skip is not None:
            return True
        if not task.only_free:
            return False
        evaluators = all_evaluators(task.case, task.suite)
        return all(costs_money(config_of(evaluator), self.runtime, task.known) for evaluator in evaluators)

    async def _in_workspace(
        self, target_session: TargetSession, prepared: PreparedCase, wanted: WantedWorkspace
    ) -> CaseResult:
        """Call the target in the row's own folder, capture the changes, and score before the folder is removed."""
        task, runtime = prepared.task, self.runtime
        started_at = runtime.clock()
        try:
            placed = wanted if self.place_workspace is None else self.place_workspace(wanted)
            async with open_wanted_workspace(placed, workspace_name(task), runtime) as workspace:
                target_session.redact_keys(workspace.keys)
                for note in workspace.source_notes:
                    self.note(task, note)
                prepared = _in_folder(prepared, workspace.path)
                judged: dict[int, EvaluatorResult] = {}
                answer = await self._answer(target_session, prepared, judged, before_repeat=workspace.reset)
                captured, answer = await _captured(workspace, answer)
                cleaner = target_session.cleaner()
                (fields,) = cleaner.clean_all(captured_to_json(captured, workspace, keep=wanted.config.keep))
                answer = replace(answer, workspace=fields, repaired=answer.repaired or cleaner.repaired)
                answer = self.sink.answer(answer)
                row = await self._judge_in_workspace(target_session, prepared, answer, workspace, judged)
                for note in captured.notes:
                    self.note(task, f"{task.case.id}: {note}")
                return row
        except ProviderError as error:
            outcome = CallOutcome(error.failure, started_at, runtime.clock())
            return await self._judge(target_session, prepared, self._save(target_session, prepared, outcome))

    async def _judge_in_workspace(
        self,
        target_session: TargetSession,
        prepared: PreparedCase,
        answer: Answer,
        workspace: "Workspace",
        judged: Mapping[int, EvaluatorResult] | None = None,
    ) -> CaseResult:
        """Return the row of a saved answer, scored before its workspace is removed; if interrupted, keep it."""
        task = prepared.task
        try:
            row = await self._judge(target_session, prepared, answer, judged)
        except asyncio.CancelledError:
            if answer.error is None and not self.runtime.machine:
                kept = workspace.keep_unscored(self._unscored_place(answer))
                self.note(task, f"{answer.slot.eval_id}: not scored yet; `resume` scores it in its workspace, {kept}")
            raise
        for note in await workspace.finish(failed=row_state(row) != "pass"):
            self.note(task, f"{answer.slot.eval_id}: {note}")
        return row

    def _unscored_place(self, answer: Answer) -> Path:
        """Return the folder that keeps the workspace of an answer of this run until the answer is scored."""
        return Path(self.runtime.home, "runs", self.run_id, "workspaces", f"answer-{answer.seq}")

    async def _judge_stored(self, target_session: TargetSession, prepared: PreparedCase, answer: Answer) -> CaseResult:
        """Return the row of a stored answer, judged in its workspace if that was kept."""
        if answer.workspace is None:
            return await self._judge(target_session, prepared, answer)
        task, place, saved = prepared.task, self._unscored_place(answer), answer.workspace.get("path")
        wanted = wanted_workspace(prepared.case, task.suite, task.target)
        if wanted is not None and place.is_dir():
            from agentv.execution.workspaces.workspaces import open_kept_workspace  # noqa: PLC0415 - as above

            saved_path = Path(self.runtime.home, "workspaces", f"{workspace_name(task)}-{self.run_id}")
            saved_path = Path(saved) if isinstance(saved, str) else saved_path
            async with open_kept_workspace(wanted.config, place, saved_path=saved_path) as workspace:
                target_session.redact_keys(workspace.keys)
                prepared = _in_folder(prepared, workspace.path)
                row = await self._judge_in_workspace(target_session, prepared, answer, workspace)
            with suppress(OSError):  # answers that are not scored yet have theirs in the same folder
                place.parent.rmdir()
            return row
        return await self._judge(target_session, _in_saved_workspace(prepared, saved), answer)

    async def _call(
        self,
        target_session: TargetSession,
        prepared: PreparedCase,
        save: Callable[[TargetSession, PreparedCase, CallOutcome], object],
        *,
        before_repeat: Callable[[], Awaitable[None]] | None = None,
    ) -> Answer:
        """Return the answer of the target or a fallback. An interrupted response is saved without a row."""
        show = self.on_log_line
        try:
            outcome = await call_with_fallbacks(
                prepared,
                target_session.provider,
                self.runtime,
                on_retry=partial(self.on_retry, prepared.task),
                on_log_line=None if show is None else _log_line_of(show, target_session, prepared.task.slot),
                before_repeat=before_repeat,
            )
        except asyncio.CancelledError as error:
            call = attached_call(error)
            if call is not None:  # it has attempts, whose times count
                now = self.runtime.clock()
                save(target_session, prepared, failed_outcome(call, started_at=now, ended_at=now))
            raise
        return self._make_answer(target_session, prepared, outcome)

    async def finish(self, prepared: PreparedCase, answer: Answer) -> CaseResult:
        """Return the row of an answer from a batch; exceptions become its error as in `run`."""
        task = prepared.task
        row = await self._with_errors_caught(task, self._judge(self._target_session(task), prepared, answer))
        self.dependencies.begin(task)
        self.dependencies.end(task, row)
        return row

    def _with_errors_caught(self, task: CaseTask, work: Awaitable[CaseResult]) -> Awaitable[CaseResult]:
        caught = self._row_or_error(task, work)
        return _row_or_refusal(caught) if self.runtime.may_refuse_calls else caught

    async def _row_or_error(self, task: CaseTask, work: Awaitable[CaseResult]) -> CaseResult:
        """Return the row that `work` returns; if it raises, a row with its error."""
        try:
            with calls_of(task):
                return await work
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - see `run`
            return crashed_row(self.run_id, task, described(error), now=self.runtime.clock())

    def note(self, task: CaseTask, message: str) -> None:
        """Add a note about a task's target to the run, with secrets redacted."""
        self.runtime.note(f"target {task.target.name!r}: {self._target_session(task).cleaner().text(message)}")

    def _target_session(self, task: CaseTask) -> TargetSession:
        """Return the session of a task's target in its suite."""
        session_key = (id(task.suite), id(task.target))
        target_session = self.target_sessions.get(session_key)
        if target_session is None:
            target_session = self.target_sessions[session_key] = TargetSession(task, self.runtime, self.fingerprints)
            target_session.has_dependencies = bool(self.dependencies.needed_in(task.suite))
        return target_session

    def open(self, task: CaseTask, case: EvalCase) -> PreparedCase:
        """Return the prepared case of a task, and save the case before its first call."""
        return self._open(self._target_session(task), task, case)

    def _open(self, target_session: TargetSession, task: CaseTask, case: EvalCase) -> PreparedCase:
        prepared = prepare_case(
            task, case, target_key=target_session.target_key, quotes_paths_only=target_session.quotes_paths_only
        )
        if task.trial == 0:
            self.sink.case(case_record(prepared, target_session.scoring(prepared).stored_form))
        return prepared

    def save(self, prepared: PreparedCase, outcome: CallOutcome) -> Answer:
        """Return the cleaned answer of an outcome, saved before it is scored."""
        return self._save(self._target_session(prepared.task), prepared, outcome)

    def _save(self, target_session: TargetSession, prepared: PreparedCase, outcome: CallOutcome) -> Answer:
        return self.sink.answer(self._make_answer(target_session, prepared, outcome))

    def _make_answer(self, target_session: TargetSession, prepared: PreparedCase, outcome: CallOutcome) -> Answer:
        """Return the cleaned answer of an outcome, and report the notes of the response as notes of the run."""
        counts_attempts = target_session.provider.counts_attempts
        answer = make_answer(prepared, outcome, cleaner=target_session.cleaner(), counts_attempts=counts_attempts)
        if outcome.answered_by is not None:
            self.note(prepared.task, f"it failed on cases that its fallback {outcome.answered_by!r} answered")
        if isinstance(outcome.result, ProviderResponse):
            for note in outcome.result.notes:
                self.note(prepared.task, note)
        elif outcome.partial is not None:
            for note in outcome.partial.notes:
                if note in AMOUNT_NOTES:
                    self.note(prepared.task, note)
        return answer

    async def _judge(
        self,
        target_session: TargetSession,
        prepared: PreparedCase,
        answer: Answer,
        judged: Mapping[int, EvaluatorResult] | None = None,
    ) -> CaseResult:
        """Return the row of a saved answer. `judged` has the results of turns that were judged before, by number."""
        task = prepared.task
        if answer.error is not None:
            return unanswered_row(self.run_id, prepared, answer, is_model=target_session.is_model)
        if is_dry(task, answer.answered_by, answer.request):
            return dry_row(self.run_id, prepared, answer)
        scoring = target_session.scoring(prepared)
        keys = score_keys(answer.answer_key, prepared.keys.expectation, scoring.setup_digests)
        known = {} if task.stored is None else reusable_scores(task.stored, keys, scoring.evaluators)
        context = self._context(target_session, prepared, answer)
        turns: tuple[EvaluatorResult, ...] = ()
        if prepared.case.turns:
            turn_keys = self.fingerprints.turn_keys(prepared.case, task, answer.answer_key)
            keys = {**keys, **turn_keys}
            known_turns = {} if task.stored is None else reusable_scores(task.stored, turn_keys, ())
            turns = await self._judge_turns(target_session, prepared, answer, judged=judged or {}, known=known_turns)
            context = conversation_context(context, answer)
        results = (*turns, *await self._score(target_session, context, scoring.prepared_evaluators, known))
        return judged_row(
            self.run_id,
            prepared,
            answer,
            results,
            score_keys=keys,
            summary=context.candidate_trace_summary,
            is_model=target_session.is_model,
        )

    def _context(self, target_session: TargetSession, prepared: PreparedCase, answer: Answer) -> EvaluationContext:
        return build_context(
            target_session.unanswered_context,
            prepared.case,
            answer,
            prompt=prepared.prompt,
            criteria=prepared.criteria,
            now=self.runtime.clock(),
            workspace_path=prepared.request.workspace,
            is_workspace_missing=prepared.is_workspace_missing,
        )

    async def _judge_turns(
        self,
        target_session: TargetSession,
        prepared: PreparedCase,
        answer: Answer,
        *,
        judged: Mapping[int, EvaluatorResult],
        known: Mapping[str, EvaluatorResult],
    ) -> tuple[EvaluatorResult, ...]:
        """Return the results of all turns. Turns in `judged` (by number) or `known` (by name) are not judged again."""
        answers, turns, rules = answers_by_turn(answer), prepared.case.turns, prepared.case.turn_rules
        results: list[EvaluatorResult] = []
        failed_turn = None
        for number in range(1, len(turns) + 1):
            stored = known.get(turn_name(number))
            if failed_turn is not None:
                result = skipped_turn_result(number, failed_turn)
            elif number > len(answers):
                result = missing_turn_result(number)
            elif number in judged:
                result = judged[number]
            elif stored is not None and stored.evaluator_results:
                result = stored
            else:
                result = await self._judge_turn(target_session, prepared, number, answers)
            if rules.on_failure == "stop" and result.verdict not in ("pass", None) and failed_turn is None:
                failed_turn = number
            results.append(result)
        return tuple(results)

    async def _judge_turn(
        self, target_session: TargetSession, prepared: PreparedCase, number: int, answers: Sequence[Answer]
    ) -> EvaluatorResult:
        """Return the result of turn `number`; `answers` are those to all turns so far."""
        turn = self._prepare_turn(target_session, prepared, number, answers[: number - 1])
        context = self._context(target_session, turn, answers[number - 1])
        members = await self._score(target_session, context, target_session.scoring(turn).prepared_evaluators, {})
        case, suite = prepared.case, prepared.task.suite
        return turn_result(number, members, suite.pass_score if case.pass_score is None else case.pass_score)

    async def _score(
        self,
        target_session: TargetSession,
        context: EvaluationContext,
        evaluators: Sequence[PreparedEvaluator],
        known: Mapping[str, EvaluatorResult],
    ) -> tuple[EvaluatorResult, ...]:
        """Return the results of all evaluators, in order; those `known` by name do not run again."""
        pending = [evaluator for evaluator in evaluators if evaluator.config.name not in known] if known else evaluators
        results = await run_evaluators(context, pending)
        cleaned: tuple[EvaluatorResult, ...] = target_session.cleaner().clean(results)
        if not known:
            return cleaned
        new_results = iter(cleaned)
        return tuple(known.get(evaluator.config.name) or next(new_results) for evaluator in evaluators)


def _in_folder(prepared: PreparedCase, folder: Path) -> PreparedCase:
    """Return a prepared case whose workspace is `folder`."""
    return replace(prepared, request=replace(prepared.request, workspace=str(folder)))


def _in_saved_workspace(prepared: PreparedCase, path: JsonValue) -> PreparedCase:
    """Return a prepared case with the workspace that `keep: always` saved at `path`, or marked as without one."""
    if isinstance(path, str) and Path(path).is_dir():
        return _in_folder(prepared, Path(path))
    return replace(prepared, is_workspace_missing=True)


async def _finished(row: CaseResult) -> CaseResult:
    return row


async def _row_or_refusal(work: Awaitable[CaseResult]) -> CaseResult:
    """Return the row that `work` returns; if the budget refused a call, as an error without a score."""
    with refused_calls() as refused:
        row = await work
    return replace(row, status="error", score=None, verdict=None, error=refused[0]) if refused else row


def reusable_scores(
    stored: AnswerToScore, keys: Mapping[str, str], evaluators: tuple[EvaluatorLike, ...]
) -> dict[str, EvaluatorResult]:
    """Return the scores of a stored row that are still valid, by evaluator: those with the same key."""
    if stored.row is None or len(keys) < len(evaluators):  # evaluators with the same name are ambiguous
        return {}
    stored_keys = stored.row.score_keys
    return {
        result.name: result
        for result in stored.row.evaluator_results
        if result.status in ("scored", "unverified") and keys.get(result.name) == stored_keys.get(result.name, "")
    }
