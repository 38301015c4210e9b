"""The answers of a scored run, to be judged again."""

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec.structs import replace

from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.inputs import case_of_input, input_of
from agentv.engine.criteria.run_answers import RunAnswers
from agentv.engine.planning.plan import AnswerWithInput, CaseTask
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.open_case import Unrecorded
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.rows import unread_row
from agentv.engine.stored.rejudge import JudgeSetups
from agentv.scoring.counting.tallies import has_unpriced_call
from agentv.scoring.keys.identity import keys_of, score_keys
from agentv.storage.run.stored import StoredRun
from agentv.storage.run.stored_rows import StoredCases, StoredRows
from agentv.types.cases import Location
from agentv.types.errors import EvalFileError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.failures import Failure
from agentv.types.records.answer import Answer, AnswerRef, Origin, ResultKey
from agentv.types.records.result import CaseResult


class StoredInputs:
    """The inputs of a scored run by row. Raises StorageError for a line that cannot be read."""

    def __init__(self, run: StoredRun, tasks: AnswerTasks) -> None:
        self.rows, self._cases = StoredRows(run), StoredCases(run)
        self._tasks = tasks

    def find(self, row: CaseResult) -> tuple[EvaluationInput, Answer] | None:
        """Return the input and the answer of a row, None if it has no answer."""
        answer = self.rows.answer(row.suite, row.answer_key) if row.answer_key else None
        return None if answer is None else (input_of(self._cases.find(row.suite, row.eval_id), answer), answer)

    def task(self, row: CaseResult, given: EvaluationInput, answer: Answer) -> CaseTask:
        """Return the task to judge an answer again, as the next generation of its row. Raises EvalFileError."""
        fitted = self._tasks.fitted(given.criteria)
        case = case_of_input(given, row.eval_id, Location(row.file, row.line))
        keys = keys_of(case, fitted.criteria)
        stored = AnswerWithInput(answer, row, input=given, fitted=fitted, keys=keys)
        return self._tasks.task(stored, case, generation=self.rows.next_generation(row.slot, row))

    def close(self) -> None:
        """Close the files."""
        self.rows.close()
        self._cases.close()


def _keys_of_scores(task: CaseTask, cases: CaseRunner) -> dict[str, str]:
    """Return the key of each evaluator's score of a stored answer, by the current configuration."""
    stored = task.stored
    if not isinstance(stored, AnswerWithInput):
        raise TypeError("the task has no given answer")
    digests = cases.given_session(task).evaluators(stored.fitted).setup_digests
    return score_keys(stored.answer.answer_key, stored.keys.expectation, digests)


def find_given_setups(tasks: AnswerTasks, run: StoredRun, rows: Iterable[CaseResult], name: str) -> JudgeSetups:
    """Return the setups of evaluator `name` in this configuration that judged the rows, found by their score keys."""
    inputs, setups, other = StoredInputs(run, tasks), set[str](), 0
    cases = tasks.runner(tasks.runtime(), sink=Unrecorded())
    try:
        for row in rows:
            found = inputs.find(row)
            if found is None:
                other += 1
                continue
            task = inputs.task(row, *found)
            key = _keys_of_scores(task, cases).get(name)
            if key is not None and row.score_keys.get(name) == key:
                fitted = tasks.fitted(found[0].criteria)
                setups.add(cases.given_session(task).evaluators(fitted).setup_digests[name])
            else:
                other += 1
    finally:
        inputs.close()
    return JudgeSetups(tuple(sorted(setups)), other)


async def judge_repeatedly(
    tasks: AnswerTasks,
    run: StoredRun,
    chosen: Collection[ResultKey],
    *,
    repeats: int,
    budget_usd: float | None,
    stop: StopSignal,
    on_row: Callable[[CaseResult], None],
) -> tuple[list[CaseResult], set[ResultKey]]:
    """Judge each answer of the `chosen` rows `repeats` times; return the new rows, not stored, and the judged keys.

    A row has `trial * repeats + repeat` as its trial. No answer is judged after `budget_usd` is spent, or after `stop`.
    """
    inputs, rows, keys = StoredInputs(run, tasks), list[CaseResult](), set[ResultKey]()
    spent_usd = 0.0
    try:
        async with tasks.runtime() as runtime:
            cases = tasks.runner(runtime, sink=Unrecorded(), run_id=run.run_id)
            for row in run.results():
                found = inputs.find(row) if row.slot in chosen else None
                if found is None:
                    continue
                given, answer = found
                for repeat in range(repeats):
                    if budget_usd is not None and spent_usd >= budget_usd:
                        stop.drain(f"the budget of ${budget_usd:g} is spent", needs="--budget-usd X")
                    if stop.reason is not None:
                        return rows, keys
                    slot = replace(row.slot, trial=row.slot.trial * repeats + repeat)
                    again = inputs.task(replace(row, evaluator_results=()), given, replace(answer, slot=slot))
                    judged = await cases.run(again)
                    rows.append(judged)
                    keys.add(row.slot)
                    spent = None if judged.usage_by is None else judged.usage_by.judge
                    spent_usd += 0.0 if spent is None else spent.cost_usd or 0.0
                    if budget_usd is not None and any(map(has_unpriced_call, judged.evaluator_results)):
                        stop.drain(
                            f"the budget of ${budget_usd:g} cannot be enforced: a judge's call has no known cost"
                        )
                    on_row(judged)
    finally:
        inputs.close()
    return rows, keys


class StoredAnswers:
    """The answers of a run to judge again, in the order of their rows. The other rows are passed to `on_unchanged`.

    `is_chosen` selects the rows. With None a row is judged only if something that its scores depend on has changed.
    """

    def __init__(
        self,
        run: StoredRun,
        answers: RunAnswers,
        cases: CaseRunner,
        on_unchanged: Callable[[CaseResult], None],
        is_chosen: Callable[[CaseResult], bool] | None,
    ) -> None:
        self.read = 0
        self.is_over = False
        self.repeats_cases = answers.repeats_cases
        self._inputs = StoredInputs(run, answers.tasks)
        self._cases = cases
        self._on_unchanged = on_unchanged
        self._is_chosen = is_chosen
        self._rows = run.results()

    async def next(self) -> CaseTask | CaseResult | None:
        """Return the task to judge the next answer again, or the row of one that cannot be judged.

        None for a row that stays as it is, and at the end, when `is_over` is set.
        """
        row = None if self.is_over else next(self._rows, None)
        if row is None:
            self.is_over = True
            return None
        self.read += 1
        found = self._inputs.find(row) if self._is_chosen is None or self._is_chosen(row) else None
        if found is None:
            self._on_unchanged(row)
            return None
        try:
            task = self._inputs.task(row, *found)
        except EvalFileError as error:
            message = "; ".join(problem.render() for problem in error.problems)
            return self._failed_row(row, found[1], message)
        if self._is_chosen is None and row.status != "error" and _keys_of_scores(task, self._cases) == row.score_keys:
            self._on_unchanged(row)
            return None
        return task

    def _failed_row(self, row: CaseResult, answer: Answer, message: str) -> CaseResult:
        failure = Failure("config_error", message, stage="evaluator")
        origin = Origin(row.file, row.line, row.part, row.line_digest, row.trace_id, row.span_id)
        failed = unread_row(row.run_id, row.slot, row.dataset, origin, failure, now=self._cases.runtime.clock())
        return replace(
            failed,
            generation=self._inputs.rows.next_generation(row.slot, row),
            rescored=row.rescored + 1,
            answer_key=answer.answer_key,
            answer_ref=None if answer.seq is None else AnswerRef(answer.seq),
        )

    def stop(self) -> None:
        """Return no more answers. `close` passes the remaining rows to `on_unchanged`."""
        self.is_over = True

    async def close(self) -> None:
        """Pass the remaining rows to `on_unchanged`, and close the files."""
        try:
            for row in self._rows:
                self._on_unchanged(row)
        finally:
            self._inputs.close()

    def why_no_rows(self) -> str:
        """Return why there is no row."""
        return "the run has no results"

    def notes(self) -> Iterator[str]:
        """Yield nothing: a stored answer was read before."""
        yield from ()
