"""The answers of a scored run, to be judged again."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from agentv.engine.criteria.scored_run import input_of
from agentv.storage.run.kept_rows import StoredCases, StoredRows
from agentv.storage.run.stored import StoredRun
from agentv.types.criteria.evaluation_input import EvaluationInput
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult


class StoredAnswer(Struct, frozen=True):
    """A stored answer with its row, which is judged again as the row's next generation.

    `must_judge` judges it although nothing has changed.
    """

    row: CaseResult
    answer: Answer
    given: EvaluationInput
    generation: int
    must_judge: bool = False


class StoredAnswers:
    """The answers of a run, in the order of their rows; rows that stay as they are are passed to `carry`.

    `is_chosen` chooses the rows to judge again; None: all, if anything that their scores depend on has changed.
    """

    def __init__(
        self, run: StoredRun, carry: Callable[[CaseResult], None], is_chosen: Callable[[CaseResult], bool] | None
    ) -> None:
        self.read = 0
        self._rows, self._cases = StoredRows(run), StoredCases(run)
        self._carry = carry
        self._is_chosen = is_chosen
        self._answers = self._find(run)
        self._is_stopped = False

    def _find(self, run: StoredRun) -> Iterator[StoredAnswer]:
        for row in run.results():
            self.read += 1
            answer = self._rows.answer(row.suite, row.answer_key) if row.answer_key else None
            if answer is None or (self._is_chosen is not None and not self._is_chosen(row)):
                self._carry(row)
                continue
            given = input_of(self._cases.find(row.suite, row.eval_id), answer)
            generation = self._rows.next_generation(row.slot, row)
            yield StoredAnswer(row, answer, given, generation, must_judge=self._is_chosen is not None)

    async def next(self) -> StoredAnswer | None:
        """Return the next answer to judge, None at the end."""
        return None if self._is_stopped else next(self._answers, None)

    def stop(self) -> None:
        """Return no more answers; the rows of the others are carried when the stream is closed."""
        self._is_stopped = True

    async def close(self) -> None:
        """Carry the rest of the rows, and close the files."""
        try:
            for each in self._answers:
                self._carry(each.row)
        finally:
            self._rows.close()
            self._cases.close()

    def missing_key(self) -> str | None:
        """Return None: nothing is sampled."""
        return None
