"""The continuation of a stored run: the rows that are still valid, the tasks that remain, and the cost so far."""

from asyncio import sleep
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic as now
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.budget import Spent
from agentv.engine.planning.plan import AnswerToScore, CaseTask, RunPlan
from agentv.engine.planning.selection import matches_glob
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.context import criteria_of
from agentv.engine.running.recorder import JUDGE_STOP, RunRecorder
from agentv.execution.backends.local import YIELD_INTERVAL_S
from agentv.scoring.counting.tallies import saved_by_judges
from agentv.scoring.keys.identity import DigestSet, answer_key, keys_of, question_key, score_keys
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.storage.run.stored import StoredRun
from agentv.storage.run.stored_rows import StoredRows
from agentv.types.cases import BrokenCase, EvalCase
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult


def load_spent(run: StoredRun) -> Spent:
    """Return the amount billed in a run, and the most expensive call of each target and judge.

    Answers and judgements that later ones have replaced are counted as well. If the budget stopped the run, the amount
    is at least what the budget recorded as spent, which includes calls of unknown cost; what a budget of several runs
    recorded is that of all of them, and does not count. Calls that were in flight when
    the process was killed are not counted. Raises StorageError if the run cannot be read.
    """
    spent = Spent()
    for answer in run.all_answers():
        spent.add(answer.slot.target, answer.billed_usd or 0.0)
    for result in _paid_results(run):
        spent.usd += (result.cost_usd or 0.0) - saved_by_judges(result)
        for judge, cost_usd in _judge_calls((result,)):
            spent.raise_max(judge, cost_usd)
    for event in run.events():
        if event.type == "budget_stop" and event.fields.get("name") in (None, run.run_id):
            spent_usd, next_usd = event.fields.get("spent_usd"), event.fields.get("next_usd")
            if isinstance(spent_usd, float):
                spent.usd = max(spent.usd, spent_usd)
            if isinstance(next_usd, float):
                spent.raise_max(str(event.fields.get("target")), next_usd)
    return spent


def _paid_results(run: StoredRun) -> Iterator[EvaluatorResult]:
    """Yield the evaluator results that have a cost; a score that a later generation reused is yielded once."""
    known = DigestSet()
    for row in run.all_results():
        for result in row.evaluator_results:
            if result.cost_usd and _add_score(row, result, known):
                yield result


def _add_score(row: CaseResult, result: EvaluatorResult, known: DigestSet) -> bool:
    """Add a score to `known` and return True if it is new.

    A result that is never reused, such as one with an error, is always new.
    """
    if result.status not in ("scored", "unverified") or result.name not in row.score_keys:
        return True
    return known.add(f"{row.run_id}\0{row.answer_seq}\0{result.name}\0{row.score_keys[result.name]}")


def _judge_calls(results: Iterable[EvaluatorResult]) -> Iterator[tuple[str, float]]:
    """Yield the judge and the cost of each call that was paid for, of evaluators and their members."""
    for result in results:
        yield from ((call.judge, call.cost_usd) for call in result.judge_calls if call.cost_usd and not call.cached)
        yield from _judge_calls(result.evaluator_results)


Purpose: TypeAlias = Literal["resume", "retry", "rescore", "report"]
"""`resume` makes rows that are missing or no longer valid, such as those of edited cases; `retry` repeats chosen rows,
`rescore` scores stored answers again, and `report` only counts the stored rows of a merged run."""


class ResumePlan(Struct):
    """What remains of a stored run, with counts of the work done on it.

    `should_rerun` chooses the rows that a retry repeats. The stored answers of `targets_called_again` are not used.
    `retired` are the result keys that an earlier resume no longer found in the plan, `gone_suites` the suites that the
    run has and the plan lacks. `planned` is the number of results that a merged run must have, `may_repeat_cases` is
    True if one of its cases may have several. `spent` is the cost so far. `rejudges` is True for a resume or rescore of
    work that a failing judge stopped: the answers that the judge failed to judge are judged again. `finish` sets
    `has_every_row`: False if the run has rows that the plan lacks and that are not retired.
    """

    rows: StoredRows
    purpose: Purpose = "resume"
    should_rerun: Callable[[CaseResult], bool] = lambda _row: False
    targets_called_again: frozenset[str] = frozenset()
    retired: frozenset[ResultKey] = frozenset()
    gone_suites: tuple[str, ...] = ()
    planned: int | None = None
    may_repeat_cases: bool = False
    spent: Spent | None = None
    rejudges: bool = False
    unchanged: int = 0
    rescored: int = 0
    called: int = 0
    has_every_row: bool = False

    @property
    def calls_targets(self) -> bool:
        """True if targets may be called."""
        return self.purpose in ("resume", "retry")

    @property
    def calls_judges(self) -> bool:
        """True if evaluators may be called."""
        return self.purpose != "report"

    def remaining_tasks(
        self, tasks: Iterator[CaseTask], runner: CaseRunner, recorder: RunRecorder
    ) -> Iterator[CaseTask | None]:
        """Yield the `tasks` to do; the rows of other tasks are counted and reported as unchanged.

        None is yielded now and then, so that other work of the event loop has its turn.
        """
        yielded_at = now()
        for task in tasks:
            if now() - yielded_at > YIELD_INTERVAL_S:
                yield None
                yielded_at = now()
            if recorder.stop.state == "interrupted":  # this loop does not await, so the cancellation comes later
                return
            key = task.slot
            row = self.rows.take(key)
            if row is not None and key in self.retired:
                recorder.store.note("case_returned", {"slot": key.to_json()})
            task_to_do = self._task_to_do(task, row, runner)
            if task_to_do is not None:
                self.called += task_to_do.stored is None
                self.rescored += task_to_do.stored is not None
                yield task_to_do
            elif row is not None:
                self.unchanged += 1
                recorder.count_stored(row)

    async def count_stored(self, recorder: RunRecorder) -> None:
        """Count every stored result, whatever the files of the run say today."""
        recorder.planned = recorder.planned_in_all_shards = self.planned
        recorder.has_trials, recorder.is_merged = self.may_repeat_cases, True
        self.has_every_row = True
        waited_at = now()
        for key in self.rows.remaining_keys():
            row = None if key in self.retired else self.rows.find(key)
            if row is not None:
                recorder.count_stored(row)
            if now() - waited_at > YIELD_INTERVAL_S:
                await sleep(0)
                waited_at = now()

    def finish(self, recorder: RunRecorder) -> None:
        """Report the counts after all tasks of the plan; a resume also retires the results that the plan lacks."""
        gone = [key for key in self.rows.remaining_keys() if key not in self.retired]
        self.has_every_row = self.purpose == "resume" or not gone
        if self.purpose == "resume":
            for key in gone:
                recorder.store.note("case_retired", {"slot": key.to_json()})
            if gone:
                recorder.note(f"no longer in the eval files, not counted: {_count(len(gone), 'result')}")
        done = f"{_count(self.called, 'target call')}, {_count(self.rescored, 'stored answer')} rescored"
        recorder.note(f"{_count(self.unchanged, 'result')} unchanged; {done}")

    def _task_to_do(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        """Return the task to do, or None if the row is still valid or the purpose does not include the task."""
        match self.purpose:
            case "resume":
                return self._resume(task, row, runner)
            case "retry":
                return self._retry(task, row, runner)
            case _:
                return self._rescore(task, row, runner)

    def _resume(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        case = task.case
        if isinstance(case, BrokenCase):
            return None if row is not None and _is_unreadable_line(row) else self._new_call(task, row)
        if task.target.name in self.targets_called_again:
            return self._new_call(task, row)
        if row is not None and not self._must_rejudge(row) and self._is_valid(row, task, case, runner):
            return None
        return self._with_stored_answer(task, case, row, runner) or self._new_call(task, row)

    def _retry(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        if row is None or not self.should_rerun(row):
            return None
        # In stage `evaluator`, `target_missing` means that a turn has no stored answer: the conversation is held again.
        is_answered = row.error is not None and row.error.stage == "evaluator" and row.error.kind != "target_missing"
        if is_answered and isinstance(task.case, EvalCase):
            return self._with_stored_answer(task, task.case, row, runner) or self._new_call(task, row)
        return self._new_call(task, row)

    def _rescore(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        if isinstance(task.case, BrokenCase) or (row is not None and not row.answer_key):
            return None
        if row is not None and not self._must_rejudge(row) and self._is_valid(row, task, task.case, runner):
            return None
        return self._with_stored_answer(task, task.case, row, runner)

    def _must_rejudge(self, row: CaseResult) -> bool:
        """Return True for a row with a judge error if a failing judge stopped the run: it is judged again."""
        return self.rejudges and has_judge_error(row)

    def _is_valid(self, row: CaseResult, task: CaseTask, case: EvalCase, runner: CaseRunner) -> bool:
        """Return True if a row still matches its case, target and evaluators; an error does not make it invalid."""
        if not row.answer_key:
            return row.status == "error" or runner.has_nothing_to_score(task)
        if row.answer_key != _answer_key(task, case, runner):
            return False
        if row.status == "error" and not row.score_keys:
            return True
        evaluators, _ = applicable_evaluators(case, task.suite)
        keys = keys_of(case, criteria_of(case, task.suite))
        digests = runner.fingerprints.setup_digests(evaluators, task)
        own = score_keys(row.answer_key, keys.expectation, digests)
        return row.score_keys == {**own, **runner.fingerprints.turn_keys(case, task, row.answer_key)}

    def _with_stored_answer(
        self, task: CaseTask, case: EvalCase, row: CaseResult | None, runner: CaseRunner
    ) -> CaseTask | None:
        """Return the task to score a stored answer, or None if there is no usable answer or nothing to score."""
        if runner.has_nothing_to_score(task):
            return None
        result_key, key = task.slot, _answer_key(task, case, runner)
        # The answers of a renamed suite are stored under its old name.
        answers = (self.rows.answer(suite, key) for suite in (result_key.suite, *self.gone_suites))
        answer = next((each for each in answers if each is not None), None)
        if answer is None or (answer.error is not None and answer.error.kind == "cancelled"):
            return None
        earlier_row = row if answer.slot == result_key else self.rows.find(answer.slot)
        generation = answer.generation if row is None else self.rows.next_generation(result_key, row)
        return replace(task, generation=generation, stored=AnswerToScore(replace(answer, slot=result_key), earlier_row))

    def _new_call(self, task: CaseTask, row: CaseResult | None) -> CaseTask:
        """Return the task to call the target, as a new generation if there is a row."""
        return replace(task, generation=self.rows.next_generation(task.slot, row))


def _answer_key(task: CaseTask, case: EvalCase, runner: CaseRunner) -> str:
    return answer_key(question_key(case), runner.fingerprints.target_key(task.target), task.trial)


def make_resume_plan(plan: RunPlan, run: StoredRun, purpose: Purpose) -> ResumePlan:
    """Return what remains of a stored run under a plan. Raises StorageError if the run cannot be read."""
    planned = {suite.suite.path for suite in plan.suites}
    gone = tuple(path for path in run.suites if path not in planned)
    rejudges = purpose in ("resume", "rescore") and was_stopped_by_judge(run)
    rows = run.run.plan.get("rows")
    return ResumePlan(
        StoredRows(run),
        purpose,
        retired=run.retired(),
        gone_suites=gone,
        planned=rows if isinstance(rows, int) else None,
        may_repeat_cases=purpose == "report" and run.may_repeat_cases(),
        rejudges=rejudges,
    )


def was_stopped_by_judge(run: StoredRun) -> bool:
    """Return True if a failing judge stopped the latest work on a run: the run itself, a retry or a rescore."""
    is_stopped = False
    for event in run.events():
        if event.type == JUDGE_STOP:
            is_stopped = True
        elif event.type == GENERATION_STARTED or (event.type == "ended" and event.fields.get("state") == "finished"):
            is_stopped = False
    return is_stopped


def has_judge_error(row: CaseResult) -> bool:
    """Return True for a row whose judge failed."""
    return row.error is not None and row.error.kind == "judge_error"


def _is_unreadable_line(row: CaseResult) -> bool:
    return row.error is not None and row.error.stage == "load"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


GENERATION_STARTED = "generation_started"


class RequestedGeneration(Struct, frozen=True):
    """The request to repeat rows of a run (a retry or a rescore), as stored in the run's events.

    `only` (`errors`, `failed`, `cases`) and `globs` choose the rows of a retry; `evaluators` is the file of a rescore,
    relative to the parent of the `.agentv` folder. `rows` is the number of result lines before a retry.
    """

    purpose: str
    only: str = "errors"
    globs: tuple[str, ...] = ()
    evaluators: str | None = None
    rows: int = 0

    def to_event(self) -> JsonObject:
        """Return the fields of the event `generation_started`."""
        fields: dict[str, JsonValue] = {"purpose": self.purpose}
        if self.purpose == "retry":
            fields |= {"only": self.only, "cases": list(self.globs), "rows": self.rows}
        else:
            fields["evaluators"] = self.evaluators
        return fields


def unfinished_generation(run: StoredRun) -> RequestedGeneration | None:
    """Return the latest retry or rescore if it did not finish, else None."""
    started = None
    for event in run.events():
        if event.type == GENERATION_STARTED:
            started = _generation_of(event.fields)
        elif event.type == "ended" and event.fields.get("state") == "finished":
            started = None
    return started


def row_selector(
    only: str, globs: Sequence[str], *, first_retried_line: int | None = None, rejudges: bool = False
) -> Callable[[CaseResult], bool]:
    """Return a filter of rows.

    `only` is `errors` for rows with an error, `failed` for these and failed rows, or `cases` for the rows whose case id
    matches a glob.

    The result lines from number `first_retried_line` on, counted from 0, were written by an unfinished retry. They are
    excluded; with `rejudges`, those with a judge error are included, whatever `only` says.
    """

    def is_chosen(row: CaseResult) -> bool:
        if first_retried_line is not None and row.seq is not None and row.seq >= first_retried_line:
            return rejudges and has_judge_error(row)
        if only == "cases":
            return any(matches_glob(row.eval_id, glob) for glob in globs)
        state = row_state(row)
        return state == "error" or (only == "failed" and state not in ("pass", "skipped"))

    return is_chosen


def _generation_of(fields: JsonObject) -> RequestedGeneration | None:
    """Return the retry or rescore that the event `generation_started` describes, or None for unknown fields."""
    purpose, evaluators, rows = fields.get("purpose"), fields.get("evaluators"), fields.get("rows")
    globs = fields.get("cases")
    if purpose == "rescore":
        return RequestedGeneration("rescore", evaluators=evaluators if isinstance(evaluators, str) else None)
    if purpose != "retry" or not isinstance(rows, int):
        return None
    names = tuple(glob for glob in globs if isinstance(glob, str)) if isinstance(globs, list) else ()
    return RequestedGeneration("retry", str(fields.get("only")), names, rows=rows)
