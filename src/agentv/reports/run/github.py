"""GitHub Actions: cases that did not pass as annotations."""

from agentv.reports.run.failed_cases import annotations
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.row_text import PLAIN_LABELS, command_data
from agentv.reports.text.printable import one_line
from agentv.types.events import RunEnded, RunEvent
from agentv.types.results import RunReport


def make_annotations(_tools: ReportTools) -> Format:
    """Return the format that writes an annotation for the verdict and for each listed case that did not pass.

    The verdict comes first, because GitHub shows the first ten errors and the first ten warnings of a step.
    """

    def text_of(event: RunEvent) -> str:
        if not isinstance(event, RunEnded):
            return ""
        lines = (_verdict_command(event.report), *annotations(event.report, PLAIN_LABELS))
        return "".join(f"{line}\n" for line in lines)

    return Format(text_of)


def _verdict_command(report: RunReport) -> str:
    name = "notice" if report.exit_code == 0 else "error"
    return f"::{name} title=agentv::{command_data(one_line(report.verdict.sentence))}"
