"""Reports: progress while a run goes on, what it came to, and its rows as files."""

from agentv.reports.end_table import end_report, in_colour, without_colour
from agentv.reports.exports import Export, make_export
from agentv.reports.observers import DISPLAYS, choose_display, make_observer
from agentv.reports.printable import one_line, printable
from agentv.reports.report_json import report_text, report_to_json

__all__ = [
    "DISPLAYS",
    "Export",
    "choose_display",
    "end_report",
    "in_colour",
    "make_export",
    "make_observer",
    "one_line",
    "printable",
    "report_text",
    "report_to_json",
    "without_colour",
]
