"""GitHub Actions: failures as annotations."""

from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.row_text import command_data, error_command
from agentv.reports.text.printable import one_line
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent
from agentv.types.results import RunReport


def make_annotations(_tools: ReportTools) -> Format:
    """Return the format that writes an annotation for each result that did not pass, and one for the verdict."""

    def line(event: RunEvent) -> str:
        if isinstance(event, RowFinished | RowKept):
            shown = row_state(event.result) not in ("pass", "skipped")
            return f"{error_command(event.result)}\n" if shown else ""
        return f"{_verdict_command(event.report)}\n" if isinstance(event, RunEnded) else ""

    return Format(line)


def _verdict_command(report: RunReport) -> str:
    name = "notice" if report.exit_code == 0 else "error"
    return f"::{name} title=agentv::{command_data(one_line(report.verdict.sentence))}"
