"""The interface of export formats (`-o FILE`), and the formats for plain records: JSON Lines, YAML, JSON."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from agentv.reports.run.report_json import ToRecord, report_text
from agentv.reports.run.views import RowDetail
from agentv.reports.text.yaml_text import yaml_item
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent
from agentv.types.messages_json import compact_json
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import RunReport

ReadRows: TypeAlias = Callable[[RunReport], Iterable[CaseResult]]
"""Returns every result of a run that has ended, read lazily."""
ReadDetails: TypeAlias = Callable[[RunReport, Sequence[CaseResult]], Iterable[RowDetail]]
"""Returns results with their stored cases, answers and labels, in the given order."""
ReadRecord: TypeAlias = Callable[[RunReport], RunRecord | None]
"""Returns the stored record of a run; None for a run that is not stored."""


class ReportTools(Struct, frozen=True):
    """The tools for a format: conversion of results to records, and access to the stored run."""

    to_record: ToRecord
    rows: ReadRows = lambda report: report.results
    details: ReadDetails = lambda _report, rows: map(RowDetail, rows)
    record: ReadRecord = lambda _report: None
    to_line: Callable[[CaseResult], bytes] | None = None
    """Returns the record of a result as JSON, if that is faster than to encode the result of `to_record`."""


class Format(Struct, frozen=True):
    """The text to write for each event."""

    text_of: Callable[[RunEvent], str]
    empty: str | None = ""
    """The text of a file for which no event had a text; with None, no such file is written."""


class NoSettings(Struct, frozen=True):
    """The empty settings of built-in formats."""


def make_json_lines(tools: ReportTools) -> Format:
    """Return the format that writes each result as a line of JSON when it finishes."""
    to_line = tools.to_line

    def line(event: RunEvent) -> str:
        if not isinstance(event, RowFinished | RowKept):
            return ""
        if to_line is not None:
            return to_line(event.result).decode() + "\n"
        return compact_json(tools.to_record(event.result)) + "\n"

    return Format(line)


def make_yaml(tools: ReportTools) -> Format:
    """Return the format that writes each result as an item of a YAML list when it finishes."""

    def item(event: RunEvent) -> str:
        return yaml_item(tools.to_record(event.result)) if isinstance(event, RowFinished | RowKept) else ""

    return Format(item, empty="[]\n")


def make_json(_tools: ReportTools) -> Format:
    """Return the format that writes the report over all results as one JSON object at the end of the run."""

    def text_of(event: RunEvent) -> str:
        return report_text(event.report) if isinstance(event, RunEnded) else ""

    return Format(text_of, empty=None)
