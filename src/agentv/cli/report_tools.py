"""What reports are written with: everything is read from where the run is kept."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from agentv.cli.row_details import read_details
from agentv.reports.formats import ReportTools
from agentv.reports.row_detail import RowDetail
from agentv.storage.records.export import export_record
from agentv.storage.stored_run import open_run
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import RunReport


def report_tools(*, include_trace: bool) -> ReportTools:
    """Return what formats are given: everything is read from where the run is kept."""
    return ReportTools(partial(export_record, include_trace=include_trace), _rows_of, _details_of, _record_of)


def _rows_of(report: RunReport) -> Iterable[CaseResult]:
    return report.results if report.folder is None else open_run(Path(report.folder)).results()


def _details_of(report: RunReport, rows: Sequence[CaseResult]) -> Iterable[RowDetail]:
    return map(RowDetail, rows) if report.folder is None else read_details(open_run(Path(report.folder)), rows)


def _record_of(report: RunReport) -> RunRecord | None:
    return None if report.folder is None else open_run(Path(report.folder)).run
