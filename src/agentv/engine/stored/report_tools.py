"""Access to the stored results, cases and answers of a run, for report formats."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

from agentv.registry import Registry, ReportSpec
from agentv.reports import REPORTS, STDOUT
from agentv.reports.run.data_frame import columns_of, make_frame
from agentv.reports.run.exports import make_export
from agentv.reports.run.formats import ReportTools
from agentv.reports.run.views import RowDetail
from agentv.storage.records.encode import export_line, export_record
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError
from agentv.types.events import RowFinished, RunEnded
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord
from agentv.types.results import CaseTexts, RunReport

CaseKey: TypeAlias = tuple[str, str, str | None]


def read_details(stored: StoredRun, rows: Sequence[CaseResult]) -> list[RowDetail]:
    """Return the results in the given order, each with its stored case, answer and labels."""
    answers = stored.answers_at({row.answer_seq for row in rows if row.answer_seq is not None})
    wanted = {(row.slot.suite, row.eval_id) for row in rows}
    cases = {(each.suite, each.eval_id, each.prompt): each for each in stored.cases_named(wanted)}
    labels = [label for label in stored.labels() if (label.slot.suite, label.slot.eval_id) in wanted]
    return [
        RowDetail(
            row,
            cases.get((row.slot.suite, row.eval_id, row.prompt)),
            answers.get(-1 if row.answer_seq is None else row.answer_seq),
            [label for label in labels if (label.slot, label.answer_seq) == (row.slot, row.answer_seq)],
        )
        for row in rows
    ]


def labels_of(stored: StoredRun, row: CaseResult) -> list[Label]:
    """Return the labels of the answer of a result."""
    return [each for each in stored.labels() if (each.slot, each.answer_seq) == (row.slot, row.answer_seq)]


def report_tools(*, include_trace: bool, cases: Iterable[CaseRecord] = ()) -> ReportTools:
    """Return the tools for report formats, which read from the run folder; `cases` are those of a run without one."""
    return ReportTools(
        partial(export_record, include_trace=include_trace),
        _rows_of,
        partial(_details_of, cases={case_key_of(case): case for case in cases}),
        _record_of,
        to_line=partial(export_line, include_trace=include_trace),
    )


def case_key_of(row: CaseRecord | CaseResult) -> CaseKey:
    """Return the suite, id and prompt of a planned case or of a result."""
    return row.suite, row.eval_id, row.prompt


def _rows_of(report: RunReport) -> Iterable[CaseResult]:
    return report.results if report.folder is None else open_run(Path(report.folder)).results()


def _details_of(
    report: RunReport, rows: Sequence[CaseResult], *, cases: Mapping[CaseKey, CaseRecord]
) -> Iterable[RowDetail]:
    if report.folder is None:
        return (RowDetail(row, cases.get(case_key_of(row))) for row in rows)
    return read_details(open_run(Path(report.folder)), rows)


def _record_of(report: RunReport) -> RunRecord | None:
    return None if report.folder is None else open_run(Path(report.folder)).run


class SavedReports:
    """Writes reports to files and makes data frames of them (RunReport.save, RunReport.to_dataframe)."""

    def __init__(self, formats: Registry[ReportSpec] = REPORTS, *, cases: Sequence[CaseRecord] = ()) -> None:
        self._formats = formats
        self._cases = tuple(cases)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[()]]:
        """Leave out the formats of plug-ins, which another process may not have."""
        return partial(type(self), cases=self._cases), ()

    def save(self, report: RunReport, path: str) -> None:
        """Write a report to a file in the format of its suffix. Raises ConfigError, StorageError."""
        if Path(path).name == STDOUT:
            raise ConfigError("save() writes a file; give a path such as report.html")
        tools = report_tools(include_trace=False, cases=self._cases)
        rows = report.results or tools.rows(report)
        export = make_export(path, tools=tools, stdout=sys.stdout, formats=self._formats)
        try:
            for row in rows:
                export.notify(RowFinished(row))
            export.notify(RunEnded(report))
        except BaseException:
            export.abandon()
            raise
        export.close()

    def frame(self, report: RunReport) -> Any:
        """Return a data frame with one row for each result."""
        rows = report.results or tuple(_rows_of(report))
        return make_frame(columns_of(rows, self.texts(report, rows)))

    def texts(self, report: RunReport, rows: Sequence[CaseResult]) -> list[CaseTexts]:
        """Return the texts of the case of each row, from the run folder if there is one; empty if it was deleted."""
        cases: Iterable[CaseRecord] = self._cases
        if report.folder is not None and Path(report.folder).is_dir():
            cases = open_run(Path(report.folder)).cases_named({(row.suite, row.eval_id) for row in rows})
        known = {case_key_of(case): texts_of(case) for case in cases}
        return [known.get(case_key_of(row), CaseTexts()) for row in rows]


def texts_of(case: CaseRecord) -> CaseTexts:
    """Return the texts of a case that lists and data frames show: the user's last message, and what is expected."""
    return CaseTexts(case.last_question, expected_of(case))


def expected_of(case: CaseRecord) -> str:
    """Return the reference answer of a case, else its expected outcome."""
    return case.reference_answer or case.expected_outcome
