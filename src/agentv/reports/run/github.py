"""GitHub Actions: failures as annotations."""

from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.row_text import PLAIN_LABELS, RowLabels, row_reason
from agentv.reports.text.printable import one_line
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport


def error_command(result: CaseResult, labels: RowLabels = PLAIN_LABELS) -> str:
    """Return the `::error` command that shows a result at the file and line of its case."""
    title = f"{labels.label(result)} on {result.slot.target}"
    place = {"file": result.file or result.slot.suite, "line": str(result.line) if result.line else "", "title": title}
    properties = ",".join(f"{name}={_property(value)}" for name, value in place.items() if value)
    return f"::error {properties}::{_data(row_reason(result))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def make_annotations(_tools: ReportTools) -> Format:
    """Return the format that writes an annotation for each result that did not pass, and one for the verdict."""

    def line(event: RunEvent) -> str:
        if isinstance(event, RowFinished | RowKept):
            shown = row_state(event.result) not in ("pass", "skipped")
            return f"{error_command(event.result)}\n" if shown else ""
        return f"{_verdict_command(event.report)}\n" if isinstance(event, RunEnded) else ""

    return Format(line)


def _verdict_command(report: RunReport) -> str:
    return (
        f"::{'notice' if report.exit_code == 0 else 'error'} title=agentv::{_data(one_line(report.verdict.sentence))}"
    )
