"""GitHub Actions: failures as annotations."""

from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.gate_cases import Annotation, annotation_of, annotations
from agentv.reports.run.row_text import command_data
from agentv.reports.text.printable import one_line
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent
from agentv.types.results import RunReport


def make_annotations(_tools: ReportTools) -> Format:
    """Return the format that writes an annotation for the verdict and for each result that did not pass.

    GitHub shows the first ten of a step, so the verdict and the cases that made a gate fail come first, at the end of
    the run.
    """
    failed: list[Annotation] = []

    def text_of(event: RunEvent) -> str:
        if isinstance(event, RowFinished | RowKept) and row_state(event.result) not in ("pass", "skipped"):
            failed.append(annotation_of(event.result))
        if not isinstance(event, RunEnded):
            return ""
        lines = (_verdict_command(event.report), *annotations(event.report, failed))
        return "".join(f"{line}\n" for line in lines)

    return Format(text_of)


def _verdict_command(report: RunReport) -> str:
    name = "notice" if report.exit_code == 0 else "error"
    return f"::{name} title=agentv::{command_data(one_line(report.verdict.sentence))}"
