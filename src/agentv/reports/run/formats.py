"""What a format of `-o FILE` is and is given, and those that write rows and reports as they are."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from agentv.reports.progress.json_lines import ToRecord
from agentv.reports.run.case_view import RowDetail
from agentv.reports.run.report_json import report_text
from agentv.reports.text.yaml_text import yaml_item
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent
from agentv.types.messages_json import compact_json
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import RunReport

ReadRows: TypeAlias = Callable[[RunReport], Iterable[CaseResult]]
"""Returns every row of a run that has ended, read when they are asked for."""
ReadDetails: TypeAlias = Callable[[RunReport, Sequence[CaseResult]], Iterable[RowDetail]]
"""Returns rows of a run with all that is kept of them, in the order given."""
ReadRecord: TypeAlias = Callable[[RunReport], RunRecord | None]
"""Returns what is kept of a run as a whole; None for one that is kept nowhere."""


class ReportTools(Struct, frozen=True):
    """What a format is given: how a row is written as a record, and where what is kept of a run is read."""

    to_record: ToRecord
    rows: ReadRows = lambda report: report.results
    details: ReadDetails = lambda _report, rows: map(RowDetail, rows)
    record: ReadRecord = lambda _report: None


class Format(Struct, frozen=True):
    """What is written of each event. `empty` stands for a run without any text, None leaves no file then."""

    text_of: Callable[[RunEvent], str]
    empty: str | None = ""


class NoSettings(Struct, frozen=True):
    """A format has no settings."""


def make_json_lines(tools: ReportTools) -> Format:
    """Return the format that writes each row as a line of JSON, as it finishes."""

    def line(event: RunEvent) -> str:
        return compact_json(tools.to_record(event.result)) + "\n" if isinstance(event, RowFinished | RowKept) else ""

    return Format(line)


def make_yaml(tools: ReportTools) -> Format:
    """Return the format that writes each row as an item of a YAML list, as it finishes."""

    def item(event: RunEvent) -> str:
        return yaml_item(tools.to_record(event.result)) if isinstance(event, RowFinished | RowKept) else ""

    return Format(item, empty="[]\n")


def make_json(_tools: ReportTools) -> Format:
    """Return the format that writes the report over all rows as one JSON object, at the end."""

    def whole(event: RunEvent) -> str:
        return report_text(event.report) if isinstance(event, RunEnded) else ""

    return Format(whole, empty=None)
