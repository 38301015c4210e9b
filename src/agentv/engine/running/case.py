"""Turning tasks into rows: each case is opened, called, judged and recorded; an error of a case becomes its row's."""

from collections.abc import Awaitable, Callable

from msgspec import field
from msgspec.structs import replace

from agentv.engine.calling.budget import refused_calls
from agentv.engine.calling.uncached import calls_of
from agentv.engine.planning.plan import AnswerWithInput, CaseTask
from agentv.engine.planning.prepared_case import prepare_case
from agentv.engine.running.case_records import case_record, has_attachments
from agentv.engine.running.dependencies import Dependencies
from agentv.engine.running.given_case import GivenCase, GivenSession, prepare_given
from agentv.engine.running.open_case import OpenCase, RunTools
from agentv.engine.running.rows import broken_row, crashed_row, failed_row, skipped_row
from agentv.engine.running.score import costs_money
from agentv.engine.running.target_session import TargetSession
from agentv.evaluators.isolation import config_of
from agentv.execution.user_code import described
from agentv.scoring.keys.identity import NO_KEYS
from agentv.scoring.results.applicable import all_evaluators
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.types.cases import BrokenCase, EvalCase
from agentv.types.errors import StorageError
from agentv.types.failures import Failure
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult


class CaseRunner(RunTools, frozen=True):
    """Turns tasks into rows, with the live objects of one process."""

    run_elsewhere: Callable[[CaseTask], Awaitable[CaseResult]] | None = None
    """Runs a row on another machine; None runs it here."""
    target_sessions: dict[tuple[int, int], TargetSession] = field(default_factory=dict)
    given_sessions: dict[tuple[int, int], GivenSession] = field(default_factory=dict)
    dependencies: Dependencies = field(default_factory=Dependencies)

    def run(self, task: CaseTask) -> Awaitable[CaseResult]:
        """Return the row of a task. While it runs here, any exception but StorageError becomes the row's error.

        That includes bugs in agentv, which must not end a long run; the message names the line that raised. Exceptions
        of `run_elsewhere` are raised. A task waits for the cases that its case depends on.
        """
        if isinstance(task.stored, AnswerWithInput):
            return self._with_errors_caught(task, self._row_of_answer(task, task.stored))
        if self._target_session(task).has_dependencies:
            return self._run_after_others(task)
        return self._run(task, None)

    async def _run_after_others(self, task: CaseTask) -> CaseResult:
        self.dependencies.begin(task)
        row = await self._run(task, await self.dependencies.failure(task))
        self.dependencies.end(task, row)
        return row

    def _run(self, task: CaseTask, dependency_failure: Failure | None) -> Awaitable[CaseResult]:
        case = task.case
        if not isinstance(case, EvalCase):
            return _finished(broken_row(self.run_id, task, case, now=self.runtime.clock()))
        if (task.only_free or case.skip is not None) and self.has_nothing_to_score(task):
            return _finished(skipped_row(self.run_id, task, case, now=self.runtime.clock()))
        if dependency_failure is not None:
            return _finished(failed_row(self.run_id, task, dependency_failure, now=self.runtime.clock()))
        if self.run_elsewhere is not None:
            if has_attachments(case):  # only this process has their bytes: save the case here
                self.open(task, case)
            return self.run_elsewhere(task)
        return self._with_errors_caught(task, self._row_of(task, case))

    async def _row_of(self, task: CaseTask, case: EvalCase) -> CaseResult:
        return await self.open(task, case).row()

    async def _row_of_answer(self, task: CaseTask, stored: AnswerWithInput) -> CaseResult:
        return await self.open_given(task, stored).row()

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

    def open(self, task: CaseTask, case: EvalCase) -> OpenCase:
        """Return the prepared case of a task, and save the case before its first call."""
        session = self._target_session(task)
        prepared = prepare_case(task, case, target_key=session.target_key, form=session.prompt_form)
        if task.trial == 0:
            self.sink.case(case_record(prepared, session.scoring(prepared).stored_form))
        return OpenCase(self, session, prepared)

    def open_given(self, task: CaseTask, stored: AnswerWithInput) -> GivenCase:
        """Return the case of a given answer, ready to be judged; if a run records the answer, the case is saved."""
        opened = GivenCase(self, self.given_session(task), prepare_given(task, stored), stored)
        if stored.keys is not NO_KEYS:
            self.sink.case(opened.record())
        return opened

    def record(self, task: CaseTask, judged: JudgedCriteria) -> CaseResult:
        """Return the row of an answer that was judged before it was recorded; its case and answer are saved."""
        if not isinstance(task.stored, AnswerWithInput):
            raise TypeError("the task has no given answer")
        return self.open_given(task, task.stored).recorded(judged)

    def given_session(self, task: CaseTask) -> GivenSession:
        """Return the session of the given answers in a task's suite."""
        key = (id(task.suite), id(task.target))
        session = self.given_sessions.get(key)
        if session is None:
            session = self.given_sessions[key] = GivenSession(task, self.runtime, self.fingerprints)
        return session

    async def finish(self, opened: OpenCase, answer: Answer) -> CaseResult:
        """Return the row of an answer from a batch; exceptions become its error as in `run`."""
        task = opened.task
        row = await self._with_errors_caught(task, opened.judge(answer))
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
        session = self.target_sessions.get(session_key)
        if session is None:
            session = self.target_sessions[session_key] = TargetSession(task, self.runtime, self.fingerprints)
            session.has_dependencies = bool(self.dependencies.needed_in(task.suite))
        return session


async def _finished(row: CaseResult) -> CaseResult:
    return row


async def _row_or_refusal(work: Awaitable[CaseResult]) -> CaseResult:
    """Return the row that `work` returns; if the budget refused a call, as an error without a score."""
    with refused_calls() as refused:
        row = await work
    return replace(row, status="error", score=None, verdict=None, error=refused[0]) if refused else row
