"""The continuation of a stored run: the rows that are still valid, the tasks that remain, and the cost so far."""

from asyncio import sleep
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic as now
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.budget import Spent
from agentv.engine.planning.plan import AnswerToScore, CaseTask, RunPlan
from agentv.engine.planning.selection import matches_glob, no_case_matches, unmatched_globs
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.recorder import JUDGE_STOP, RunRecorder
from agentv.execution.backends.local import YIELD_INTERVAL_S
from agentv.scoring.counting.tallies import saved_by_judges
from agentv.scoring.keys.identity import DigestSet, answer_key, keys_of, question_key, score_keys
from agentv.scoring.results.aggregation import row_state, unchecked_requirement
from agentv.scoring.results.applicable import applicable_evaluators, criteria_of
from agentv.storage.run.first_answers import is_answered
from agentv.storage.run.stored import TARGET_CHANGED, StoredRun
from agentv.storage.run.stored_rows import StoredRows
from agentv.types.cases import BrokenCase, EvalCase
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.answer import Rerun, ResultKey
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
    """What remains of a stored run, with counts of the work done on it."""

    rows: StoredRows
    purpose: Purpose = "resume"
    should_rerun: Callable[[CaseResult], bool] = lambda _row: False
    """Chooses the rows that a retry repeats."""
    first_retried_line: int | None = None
    """The result lines from this number on, from 0, were written by this retry before it was interrupted."""
    targets_called_again: frozenset[str] = frozenset()
    """The targets that are called again for all cases."""
    rerun: Rerun = "fresh"
    """Marks new answers to questions that have an answer already."""
    target_keys: Mapping[str, frozenset[str]] = {}
    """All keys of each target in this run, by its name."""
    retired: frozenset[ResultKey] = frozenset()
    """The result keys that an earlier resume no longer found in the plan."""
    gone_suites: tuple[str, ...] = ()
    """The suites that the run has and the plan lacks."""
    planned: int | None = None
    """The number of results that the run must have."""
    is_merged: bool = False
    """True for a run that was merged from shards."""
    may_repeat_cases: bool = False
    """True if a case of the run may have several results."""
    spent: Spent | None = None
    """The cost so far."""
    rejudges: bool = False
    """True for a resume or rescore of work that a failing judge stopped: the answers that the judge failed to judge are
    judged again.
    """
    unchanged: int = 0
    rescored: int = 0
    called: int = 0
    rerun_count: int = 0
    has_every_row: bool = False
    """Set by `finish`: False if the run has rows that the plan lacks and that are not retired."""

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
            self._count_stored(task_to_do, row, recorder)
            if task_to_do is not None:
                self.called += task_to_do.stored is None
                self.rescored += task_to_do.stored is not None
                self.rerun_count += task_to_do.rerun is not None
                yield task_to_do

    def _count_stored(self, task_to_do: CaseTask | None, row: CaseResult | None, recorder: RunRecorder) -> None:
        """Count a row that stays as it is, and the re-runs of a row unless its question is a new one."""
        stays = task_to_do is None or task_to_do.rerun is not None
        if row is not None and stays:
            self.unchanged += 1
            recorder.count_stored(row)
        if row is not None and (stays or (task_to_do is not None and task_to_do.stored is not None)):
            for each in self.rows.reruns(row.slot):
                recorder.count_stored(each)

    async def count_stored(self, recorder: RunRecorder) -> None:
        """Count every stored result, whatever the files of the run say today."""
        recorder.planned = recorder.planned_in_all_shards = self.planned
        recorder.has_trials = self.may_repeat_cases
        self.has_every_row = True
        waited_at = now()
        for key in self.rows.remaining_keys():
            row = None if key in self.retired else self.rows.find(key)
            for each in () if row is None else (row, *self.rows.reruns(key)):
                recorder.count_stored(each)
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
        again = f"; {_count(self.rerun_count, 're-run')}, which change no rate" if self.rerun_count else ""
        recorder.note(f"{_count(self.unchanged, 'result')} unchanged; {done}{again}")

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
        is_called_again = task.target.name in self.targets_called_again
        answered = self._answered(task, row, runner)
        if answered is None:
            is_kept = row is not None and not self._must_rejudge(row) and self._is_valid(row, task, case, runner)
            if is_kept and not is_called_again:
                return None
            stored = self._with_stored_answer(task, case, row, runner)
            is_failed = stored is None or (stored.stored is not None and stored.stored.answer.error is not None)
            return self._new_call(task, row) if stored is None or (is_called_again and is_failed) else stored
        key = answered.answer_key
        if answered is not row or self._must_rejudge(row) or not self._is_valid(row, task, case, runner, key):
            return self._with_stored_answer(task, case, row, runner, key) or self._again(task, row, runner)
        if is_called_again:
            return self._new_call(task, row, self.rerun)
        return (
            None if key == _answer_key(task, case, runner) else self._rerun_of_changed_target(task, case, row, runner)
        )

    def _answered(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseResult | None:
        """Return the row with the answer to a task's question, which may be stored under the old name of its suite.

        None if the target has not answered, or if the question was edited.
        """
        if row is None:
            old_keys = (replace(task.slot, suite=suite) for suite in self.gone_suites)
            row = next((found for found in map(self.rows.find, old_keys) if found is not None), None)
        if row is None or not is_answered(row) or isinstance(task.case, BrokenCase):
            return None
        return row if row.answer_key in self._answer_keys(task, task.case, runner) else None

    def _answer_keys(self, task: CaseTask, case: EvalCase, runner: CaseRunner) -> list[str]:
        """Return the keys of answers to a question: of the target as it is now, then as it was before."""
        question, now = question_key(case), runner.fingerprints.target_key(task.target)
        before = self.target_keys.get(task.target.name, frozenset()) - {now}
        return [answer_key(question, key, task.trial) for key in (now, *sorted(before))]

    def _again(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask:
        """Return the task to call the target although there was an answer, which is lost or has nothing to score."""
        return self._new_call(task, row, None if row is None or runner.has_nothing_to_score(task) else self.rerun)

    def _rerun_of_changed_target(
        self, task: CaseTask, case: EvalCase, row: CaseResult, runner: CaseRunner
    ) -> CaseTask | None:
        """Return the task to re-run a row whose target has changed, or None if that was done already."""
        key = _answer_key(task, case, runner)
        if any(each.answer_key == key for each in self.rows.reruns(task.slot)):
            return None
        return self._with_rerun_answer(task, row, key) or self._new_call(task, row, self.rerun)

    def _with_rerun_answer(self, task: CaseTask, row: CaseResult, key: str) -> CaseTask | None:
        """Return the task to score the stored answer of a re-run, or None if there is none."""
        answer = self.rows.rerun_answer(task.slot.suite, key)
        if answer is None or answer.slot != task.slot:
            return None
        return replace(
            task,
            generation=self.rows.next_generation(task.slot, row),
            rerun=answer.rerun,
            stored=AnswerToScore(answer),
        )

    def _retry(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        if row is None or not self.should_rerun(row):
            return None
        answered = self._answered(task, row, runner)
        started = self.first_retried_line
        done = [each for each in self.rows.reruns(task.slot) if started is not None and (each.seq or 0) >= started]
        if done:
            must_rejudge = self.rejudges and has_judge_error(done[-1])
            return self._with_rerun_answer(task, row, done[-1].answer_key) if must_rejudge else None
        if row.error is not None and is_answered(row) and isinstance(task.case, EvalCase):
            key = None if answered is None else answered.answer_key
            stored = self._with_stored_answer(task, task.case, row, runner, key)
            if stored is not None:
                return stored
        return self._new_call(task, row) if answered is None else self._again(task, row, runner)

    def _rescore(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        if isinstance(task.case, BrokenCase) or (row is not None and not row.answer_key):
            return None
        answered = self._answered(task, row, runner)
        key = None if answered is None else answered.answer_key
        if row is not None and not self._must_rejudge(row) and self._is_valid(row, task, task.case, runner, key):
            return None
        return self._with_stored_answer(task, task.case, row, runner, key)

    def _must_rejudge(self, row: CaseResult) -> bool:
        """Return True for a row with a judge error if a failing judge stopped the run: it is judged again."""
        return self.rejudges and has_judge_error(row)

    def _is_valid(
        self, row: CaseResult, task: CaseTask, case: EvalCase, runner: CaseRunner, key: str | None = None
    ) -> bool:
        """Return True if a row still matches its case, target and evaluators; an error does not make it invalid.

        `key` is the key that its answer should have, if it is not that of the target as it is now.
        """
        if not row.answer_key:
            return row.status == "error" or (runner.has_nothing_to_score(task) and row.reasoning == case.skip)
        if not _is_checked_as_now(row, case) or row.answer_key != (key or _answer_key(task, case, runner)):
            return False
        if row.status == "error" and not row.score_keys:
            return True
        evaluators, _ = applicable_evaluators(case, task.suite)
        keys = keys_of(case, criteria_of(case, task.suite))
        digests = runner.fingerprints.setup_digests(evaluators, task)
        own = score_keys(row.answer_key, keys.expectation, digests)
        return row.score_keys == {**own, **runner.fingerprints.turn_keys(case, task, row.answer_key)}

    def _with_stored_answer(
        self, task: CaseTask, case: EvalCase, row: CaseResult | None, runner: CaseRunner, key: str | None = None
    ) -> CaseTask | None:
        """Return the task to score a stored answer, or None if there is no usable answer or nothing to score.

        `key` is the key of the answer if it is known; else an answer of the target as it was before is used, too.
        """
        if runner.has_nothing_to_score(task):
            return None
        result_key = task.slot
        keys = [key] if key is not None else self._answer_keys(task, case, runner)
        # The answers of a renamed suite are stored under its old name.
        names = [(suite, each) for each in keys for suite in (result_key.suite, *self.gone_suites)]
        answers = [answer for name in names if (answer := self.rows.answer(*name)) is not None]
        current = (each for each in answers if each.answer_key == keys[0])
        answer = next((each for each in answers if each.error is None), None) or next(current, None)
        if answer is None or (answer.error is not None and answer.error.kind == "cancelled"):
            return None
        earlier_row = row if answer.slot == result_key else self.rows.find(answer.slot)
        generation = answer.generation if row is None else self.rows.next_generation(result_key, row)
        return replace(task, generation=generation, stored=AnswerToScore(replace(answer, slot=result_key), earlier_row))

    def _new_call(self, task: CaseTask, row: CaseResult | None, rerun: Rerun | None = None) -> CaseTask:
        """Return the task to call the target, as a new generation if there is a row."""
        return replace(task, generation=self.rows.next_generation(task.slot, row), rerun=rerun)


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
        target_keys=target_keys(run),
        retired=run.retired(),
        gone_suites=gone,
        planned=rows if isinstance(rows, int) else None,
        is_merged=bool(run.run.parents),
        may_repeat_cases=purpose == "report" and run.may_repeat_cases(),
        rejudges=rejudges,
    )


def target_keys(run: StoredRun) -> dict[str, frozenset[str]]:
    """Return the keys that each target of a run has had, by its name: one more after each change of its settings."""
    planned = run.run.plan.get("targets")
    changed = (event.fields for event in run.events() if event.type == TARGET_CHANGED)
    found: dict[str, frozenset[str]] = {}
    for fields in (*(planned if isinstance(planned, list) else ()), *changed):
        if isinstance(fields, Mapping):
            name, key = fields.get("name"), fields.get("key")
            if isinstance(name, str) and isinstance(key, str):
                found[name] = found.get(name, frozenset()) | {key}
    return found


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


def _is_checked_as_now(row: CaseResult, case: EvalCase) -> bool:
    """Return True if all that the case demands was judged, and its `skip` and `incomplete` had their present effect."""
    if case.skip is not None or unchecked_requirement(row.evaluator_results) is not None:
        return False
    if row.verdict == "pass":
        return case.incomplete is None
    is_incomplete = row.status == "skipped" and any(each.status != "skipped" for each in row.evaluator_results)
    return not is_incomplete or row.reasoning == case.incomplete


def _is_unreadable_line(row: CaseResult) -> bool:
    return row.error is not None and row.error.stage == "load"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


GENERATION_STARTED = "generation_started"


class RequestedGeneration(Struct, frozen=True):
    """The request to repeat rows of a run (a retry or a rescore), as stored in the run's events."""

    purpose: str
    only: str = "errors"
    """Chooses the rows of a retry: `errors`, `failed` or `cases`."""
    globs: tuple[str, ...] = ()
    """Globs of the ids of the cases to retry, if `only` is `cases`."""
    evaluators: str | None = None
    """The file of a rescore, relative to the parent of the `.agentv` folder."""
    rows: int = 0
    """The number of result lines before a retry."""

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


def why_unmatched(stored: StoredRun, globs: Sequence[str]) -> str | None:
    """Return a message that names the globs of `--case` that match no case of a stored run; None if all match one."""
    ids = {row.eval_id for row in stored.results()} if globs else set[str]()
    unmatched = unmatched_globs(globs, ids)
    return f"run {stored.run_id}: {no_case_matches(unmatched, ids)}" if unmatched else None


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
