"""One row: ask, keep the answer, judge it, say how it went. Never raises for a case's own failure."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.evaluators.isolation import config_of
from agentv.execution.callables import raised_at
from agentv.pipeline.answer import Reply, ask, make_answer
from agentv.pipeline.budget import refused_calls
from agentv.pipeline.context import build_context
from agentv.pipeline.desk import Desk
from agentv.pipeline.fingerprints import Fingerprints
from agentv.pipeline.plan import CaseTask, Stored
from agentv.pipeline.question import Question, make_question
from agentv.pipeline.rows import broken_row, case_record, crashed_row, judged_row, skipped_row, unanswered_row
from agentv.pipeline.score import costs_money, score_context
from agentv.pipeline.toolbox import Toolbox
from agentv.pipeline.workspaces import WantedWorkspace, captured_to_json, open_wanted, row_name, wanted_workspace
from agentv.scoring.aggregation import row_state
from agentv.scoring.applicable import applicable_evaluators
from agentv.types.cases import BrokenCase, EvalCase, EvaluatorLike
from agentv.types.errors import ProviderError, StorageError
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject
from agentv.types.provider import CallRecord, ProviderResponse
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord


class RowSink(Protocol):
    """Where a row's parts go as they come to be: whoever owns the run folder writes them."""

    def case(self, record: CaseRecord) -> None:
        """Keep a case before its first call."""

    def answer(self, answer: Answer) -> Answer:
        """Keep an answer before it is judged; it comes back with its number."""


class CaseRunner(Struct, frozen=True):
    """Makes rows out of tasks, with the tools of one process."""

    run_id: str
    toolbox: Toolbox
    sink: RowSink
    fingerprints: Fingerprints
    on_retry: Callable[[CaseTask, CallRecord, float], None]
    desks: dict[tuple[int, int], Desk] = field(default_factory=dict)

    async def run(self, task: CaseTask) -> CaseResult:
        """Return the row of a task: the last net under everything that can go wrong with one.

        A fault of ours must not cost the hours of a run either, so that it becomes this row's error, with its place.
        """
        case = task.case
        if isinstance(case, BrokenCase):
            return broken_row(self.run_id, task, case, now=self.toolbox.clock())
        if task.only_free and self.has_nothing_to_judge(task):
            return skipped_row(self.run_id, task, case, now=self.toolbox.clock())
        return await self._netted(task, case, self._made(task, case))

    async def _made(self, task: CaseTask, case: EvalCase) -> CaseResult:
        desk = self._desk(task)
        question = self._open(desk, task, case)
        if task.stored is not None:
            return await self._judge(desk, question, task.stored.answer)
        wanted = wanted_workspace(case, task.suite, task.target)
        if wanted is not None:
            return await self._in_workspace(desk, question, wanted)
        reply = await ask(question, desk.provider, clock=self.toolbox.clock, on_retry=partial(self.on_retry, task))
        return await self._judge(desk, question, self._keep(desk, question, reply))

    def has_nothing_to_judge(self, task: CaseTask) -> bool:
        """Whether only evaluators that cost money would judge a case, and these are left out: it is not asked then."""
        if not task.only_free or isinstance(task.case, BrokenCase):
            return False
        evaluators, _ = applicable_evaluators(task.case, task.suite)
        return all(costs_money(config_of(evaluator), self.toolbox, task.known) for evaluator in evaluators)

    async def _in_workspace(self, desk: Desk, question: Question, wanted: WantedWorkspace) -> CaseResult:
        """Ask in a folder of the row's own, capture what was changed there, and judge before the folder goes."""
        task, toolbox = question.task, self.toolbox
        started_at = toolbox.clock()
        try:
            async with open_wanted(wanted, row_name(task), toolbox) as workspace:
                request = replace(question.request, workspace=str(workspace.path))
                question = replace(question, request=request)
                reply = await ask(
                    question,
                    desk.provider,
                    clock=toolbox.clock,
                    on_retry=partial(self.on_retry, task),
                    before_repeat=workspace.reset,
                )
                captured = await workspace.capture()
                kept = captured_to_json(captured, workspace, keep=wanted.config.keep)
                row = await self._judge(desk, question, self._keep(desk, question, reply, workspace=kept))
                for note in (*captured.notes, *await workspace.finish(failed=row_state(row) != "pass")):
                    self.tell(task, f"{task.case.id}: {note}")
                return row
        except ProviderError as error:
            reply = Reply(error.failure, started_at, toolbox.clock())
            return await self._judge(desk, question, self._keep(desk, question, reply))

    async def finish(self, question: Question, answer: Answer) -> CaseResult:
        """Return the row of an answer that a batch brought, under the same net."""
        task = question.task
        return await self._netted(task, question.case, self._judge(self._desk(task), question, answer))

    async def _netted(self, task: CaseTask, case: EvalCase, work: Coroutine[None, None, CaseResult]) -> CaseResult:
        with refused_calls(self.toolbox.budget) as refused:
            try:
                row = await work
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - see `run`
                message = f"{type(error).__name__}: {error}{raised_at(error)}"
                row = crashed_row(self.run_id, task, case, message, now=self.toolbox.clock())
        # What was judged without a call that was to be made is no result, whatever the evaluators made of it.
        return replace(row, status="error", score=None, verdict=None, error=refused[0]) if refused else row

    def tell(self, task: CaseTask, message: str) -> None:
        """Tell people something about a task's target, secrets struck."""
        self.toolbox.note(f"target {task.target.name!r}: {self._desk(task).cleaner().text(message)}")

    def _desk(self, task: CaseTask) -> Desk:
        """Return where a task is done."""
        place = (id(task.suite), id(task.target))
        desk = self.desks.get(place)
        if desk is None:
            desk = self.desks[place] = Desk(task, self.toolbox, self.fingerprints)
        return desk

    def open(self, task: CaseTask, case: EvalCase) -> Question:
        """Return what is asked, with its case kept before the first call."""
        return self._open(self._desk(task), task, case)

    def _open(self, desk: Desk, task: CaseTask, case: EvalCase) -> Question:
        question = make_question(task, case, target_key=desk.target_key, names_files=desk.names_files)
        if task.trial == 0:
            written = self.fingerprints.written(question.evaluators, single_form=question.single_form)
            self.sink.case(case_record(question, written))
        return question

    def keep(self, question: Question, reply: Reply) -> Answer:
        """Clean a reply, and keep it before anything judges it."""
        return self._keep(self._desk(question.task), question, reply)

    def _keep(self, desk: Desk, question: Question, reply: Reply, *, workspace: JsonObject | None = None) -> Answer:
        counts_attempts = desk.provider.counts_attempts
        answer = make_answer(
            question, reply, cleaner=desk.cleaner(), counts_attempts=counts_attempts, workspace=workspace
        )
        if isinstance(reply.outcome, ProviderResponse):
            for note in reply.outcome.notes:
                self.tell(question.task, note)
        return self.sink.answer(answer)

    async def _judge(self, desk: Desk, question: Question, answer: Answer) -> CaseResult:
        """Return the row of an answer that is kept."""
        task = question.task
        if answer.error is not None:
            return unanswered_row(self.run_id, question, answer, is_model=desk.is_model)
        evaluators = question.evaluators
        keys = self.fingerprints.score_keys(task, question.keys, answer.answer_key, evaluators)
        known = {} if task.stored is None else reusable_scores(task.stored, keys, evaluators)
        results = await self._score(desk, question, answer, known)
        return judged_row(self.run_id, question, answer, results, score_keys=keys, is_model=desk.is_model)

    async def _score(
        self, desk: Desk, question: Question, answer: Answer, known: Mapping[str, EvaluatorResult]
    ) -> tuple[EvaluatorResult, ...]:
        """Return the results of all evaluators, in order; those `known` by name are not asked again."""
        context = build_context(
            question.case,
            answer,
            target=question.task.target,
            provider=desk.provider,
            prompt=question.prompt,
            criteria=question.criteria,
            judge=desk.judge,
            now=self.toolbox.clock(),
            workspace_path=question.request.workspace,
        )
        evaluators = question.evaluators
        asked = [each for each in evaluators if config_of(each).name not in known] if known else evaluators
        results = await score_context(context, asked, tools=desk.tools)
        cleaned: tuple[EvaluatorResult, ...] = desk.cleaner().clean(results)
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
