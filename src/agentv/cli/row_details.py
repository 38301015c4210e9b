"""Rows of a stored run with their cases, their answers and what people said of them."""

from collections.abc import Sequence

from agentv.reports.row_detail import RowDetail
from agentv.storage.stored_run import StoredRun
from agentv.types.records.result import CaseResult


def read_details(stored: StoredRun, rows: Sequence[CaseResult]) -> list[RowDetail]:
    """Return rows with all that is kept of them, in the order given."""
    answers = stored.answers_at({row.answer_seq for row in rows if row.answer_seq is not None})
    wanted = {(row.slot.suite, row.eval_id) for row in rows}
    cases = {(each.suite, each.eval_id): each for each in stored.cases_named(wanted)}
    labels = [label for label in stored.labels() if (label.slot.suite, label.slot.eval_id) in wanted]
    return [
        RowDetail(
            row,
            cases.get((row.slot.suite, row.eval_id)),
            answers.get(-1 if row.answer_seq is None else row.answer_seq),
            [label for label in labels if (label.slot, label.answer_seq) == (row.slot, row.answer_seq)],
        )
        for row in rows
    ]
