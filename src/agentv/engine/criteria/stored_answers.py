"""The answers of a scored run, to be judged again."""

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.criteria.judged_lines import JudgedLine, RowPlace
from agentv.engine.criteria.runner import EvaluationRunner
from agentv.engine.criteria.scored_run import case_of_input, input_of, score_keys
from agentv.engine.running.recorder import StopSignal
from agentv.engine.stored.rejudge import JudgeSetups
from agentv.scoring.counting.tallies import has_unpriced_call
from agentv.scoring.keys.identity import keys_of
from agentv.storage.run.stored import StoredRun
from agentv.storage.run.stored_rows import StoredCases, StoredRows
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult


class StoredAnswer(Struct, frozen=True):
    """A stored answer to judge again, with its row. The new scores become the next `generation` of the row.

    With `must_judge`, the answer is judged even if nothing has changed.
    """

    row: CaseResult
    answer: Answer
    given: EvaluationInput
    generation: int
    must_judge: bool = False


class StoredInputs:
    """The inputs of a scored run by row. Raises StorageError for a line that cannot be read."""

    def __init__(self, run: StoredRun) -> None:
        self.rows, self._cases = StoredRows(run), StoredCases(run)

    def find(self, row: CaseResult) -> tuple[EvaluationInput, Answer] | None:
        """Return the input and the answer of a row, None if it has no answer."""
        answer = self.rows.answer(row.suite, row.answer_key) if row.answer_key else None
        return None if answer is None else (input_of(self._cases.find(row.suite, row.eval_id), answer), answer)

    def close(self) -> None:
        """Close the files."""
        self.rows.close()
        self._cases.close()


def keys_of_scores(runner: EvaluationRunner, given: EvaluationInput, eval_id: str, answer: Answer) -> dict[str, str]:
    """Return the key of each evaluator's score of a stored answer, by the current configuration."""
    setup = runner.setup(given.criteria)
    expectation = keys_of(case_of_input(given, eval_id), setup.criteria).expectation
    return score_keys(answer.answer_key, expectation, setup)


def find_given_setups(runner: EvaluationRunner, run: StoredRun, rows: Iterable[CaseResult], name: str) -> JudgeSetups:
    """Return the setups of evaluator `name` in this configuration that judged the rows, found by their score keys."""
    inputs, setups, other = StoredInputs(run), set[str](), 0
    try:
        for row in rows:
            found = inputs.find(row)
            if found is None:
                other += 1
                continue
            given, answer = found
            key = keys_of_scores(runner, given, row.eval_id, answer).get(name)
            if key is not None and row.score_keys.get(name) == key:
                setups.add(runner.setup(given.criteria).digests[name])
            else:
                other += 1
    finally:
        inputs.close()
    return JudgeSetups(tuple(sorted(setups)), other)


async def judge_repeatedly(
    runner: EvaluationRunner,
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
    inputs, rows, keys = StoredInputs(run), list[CaseResult](), set[ResultKey]()
    spent_usd = 0.0
    try:
        async with runner:
            for row in run.results():
                found = inputs.find(row) if row.slot in chosen else None
                if found is None:
                    continue
                given, _ = found
                for repeat in range(repeats):
                    if budget_usd is not None and spent_usd >= budget_usd:
                        stop.drain(f"the budget of ${budget_usd:g} is spent", needs="--budget-usd X")
                    if stop.reason is not None:
                        return rows, keys
                    judgement = await runner.judge(given)
                    judged, evaluators = judgement.result, judgement.evaluators
                    line = JudgedLine(row.file, row.line, judged.timestamp, judged=judged, evaluators=evaluators)
                    slot = replace(row.slot, trial=row.slot.trial * repeats + repeat)
                    rows.append(line.to_row(run.run_id, RowPlace(slot, row.dataset)))
                    keys.add(row.slot)
                    spent_usd += judged.judge_cost_usd or 0.0
                    if budget_usd is not None and any(map(has_unpriced_call, evaluators)):
                        stop.drain(
                            f"the budget of ${budget_usd:g} cannot be enforced: a judge's call has no known cost"
                        )
                    on_row(rows[-1])
    finally:
        inputs.close()
    return rows, keys


class StoredAnswers:
    """The answers of a run to judge again, in the order of their rows. The other rows are passed to `on_unchanged`.

    `is_chosen` selects the rows. With None a row is judged only if something that its scores depend on has changed.
    """

    def __init__(
        self, run: StoredRun, on_unchanged: Callable[[CaseResult], None], is_chosen: Callable[[CaseResult], bool] | None
    ) -> None:
        self.read = 0
        self._inputs = StoredInputs(run)
        self._on_unchanged = on_unchanged
        self._is_chosen = is_chosen
        self._answers = self._find(run)
        self._is_stopped = False

    def _find(self, run: StoredRun) -> Iterator[StoredAnswer]:
        for row in run.results():
            self.read += 1
            found = None if self._is_chosen is not None and not self._is_chosen(row) else self._inputs.find(row)
            if found is None:
                self._on_unchanged(row)
                continue
            given, answer = found
            generation = self._inputs.rows.next_generation(row.slot, row)
            yield StoredAnswer(row, answer, given, generation, must_judge=self._is_chosen is not None)

    async def next(self) -> StoredAnswer | None:
        """Return the next answer to judge, None at the end."""
        return None if self._is_stopped else next(self._answers, None)

    def stop(self) -> None:
        """Return no more answers. `close` passes the remaining rows to `on_unchanged`."""
        self._is_stopped = True

    async def close(self) -> None:
        """Pass the remaining rows to `on_unchanged`, and close the files."""
        try:
            for stored in self._answers:
                self._on_unchanged(stored.row)
        finally:
            self._inputs.close()

    def missing_key(self) -> str | None:
        """Return None, because stored answers are never sampled by a key."""
        return None
