"""Reports: progress while a run goes on, what it came to, and its rows as files."""

from agentv.reports.case_view import CaseView
from agentv.reports.end_table import end_report
from agentv.reports.exports import Export, make_export
from agentv.reports.formats import REPORTS
from agentv.reports.observers import DISPLAYS, choose_display, make_observer
from agentv.reports.paint import choose_paint, in_colour
from agentv.reports.printable import one_line, printable, printable_json
from agentv.reports.report_json import report_text, report_to_json
from agentv.reports.run_view import RunView, counts_text
from agentv.reports.signs import signs_for

__all__ = [
    "DISPLAYS",
    "REPORTS",
    "CaseView",
    "Export",
    "RunView",
    "choose_display",
    "choose_paint",
    "counts_text",
    "end_report",
    "in_colour",
    "make_export",
    "make_observer",
    "one_line",
    "printable",
    "printable_json",
    "report_text",
    "report_to_json",
    "signs_for",
]
