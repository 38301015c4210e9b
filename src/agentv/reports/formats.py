"""The formats of `-o FILE`, by the end of the file's name: ours, and the registry that plug-ins add theirs to."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from agentv.registry import Registry, Spec, make_registry
from agentv.reports.json_lines import ToRecord
from agentv.reports.report_json import report_text
from agentv.reports.row_detail import RowDetail
from agentv.reports.yaml_text import yaml_item
from agentv.types.dataclass import dataclass
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent
from agentv.types.messages_json import compact_json
from agentv.types.results import CaseResult, RunRecord, RunReport

ReadRows: TypeAlias = Callable[[RunReport], Iterable[CaseResult]]
"""Returns every row of a run that has ended, read when they are asked for."""
ReadDetails: TypeAlias = Callable[[RunReport, Sequence[CaseResult]], Iterable[RowDetail]]
"""Returns rows of a run with all that is kept of them, in the order given."""
ReadRecord: TypeAlias = Callable[[RunReport], RunRecord | None]
"""Returns what is kept of a run as a whole; None for one that is kept nowhere."""


@dataclass(frozen=True, slots=True)
class ReportTools:
    """What a format is given: how a row is written as a record, and where what is kept of a run is read."""

    to_record: ToRecord
    rows: ReadRows = lambda report: report.results
    details: ReadDetails = lambda _report, rows: map(RowDetail, rows)
    record: ReadRecord = lambda _report: None


@dataclass(frozen=True, slots=True)
class Format:
    """What is written of each event. `empty` stands for a run without any text, None leaves no file then."""

    text_of: Callable[[RunEvent], str]
    empty: str | None = ""


@dataclass(frozen=True, slots=True)
class NoSettings:
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


def _spec(name: str, summary: str, factory: str, *aliases: str, module: str = "formats") -> Spec:
    return Spec(name, summary, "agentv.reports.formats:NoSettings", f"agentv.reports.{module}:{factory}", aliases)


REPORTS: Registry = make_registry(
    "report",
    (
        _spec("jsonl", "every row as a line of JSON", "make_json_lines"),
        _spec("yaml", "every row as an item of a YAML list", "make_yaml", "yml"),
        _spec("json", "the report over all rows as one JSON object", "make_json"),
        _spec(
            "html", "a page for people: verdict, tables, every row with its transcript", "make_html", module="html_page"
        ),
        _spec(
            "md", "a summary in Markdown, for a job or a pull request", "make_markdown", "markdown", module="markdown"
        ),
        _spec("junit.xml", "JUnit XML with a testcase for each row", "make_junit", "xml", module="junit"),
        _spec("sarif", "a SARIF log of the rows that did not pass", "make_sarif", "sarif.json", module="sarif"),
        _spec("csv", "a table of all rows for spreadsheets", "make_csv", module="csv_table"),
        _spec("github", "annotations of GitHub Actions", "make_annotations", module="github"),
    ),
)


def format_named(file_name: str, formats: Registry) -> Spec | None:
    """Return the format of a file by its name: of `a.summary.json` it is `summary.json`, else `json`; None if none."""
    parts = file_name.split(".")[1:]
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((formats.get(end) for end in ends if end in formats), None)
