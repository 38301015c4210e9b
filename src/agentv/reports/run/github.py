"""GitHub Actions: failures as annotations."""

from collections.abc import Iterator, Sequence

from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.gate_cases import gate_commands
from agentv.reports.run.row_text import command_data, error_command
from agentv.reports.text.printable import one_line
from agentv.scoring.comparison.sides import CaseName
from agentv.scoring.gates.failing_cases import case_name
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RowFinished, RowKept, RunEnded, RunEvent
from agentv.types.results import RunReport


def make_annotations(_tools: ReportTools) -> Format:
    """Return the format that writes an annotation for the verdict and for each result that did not pass.

    GitHub shows the first ten of a step, so the verdict and the cases that made a gate fail come first, at the end of
    the run.
    """
    others: list[tuple[CaseName, str]] = []

    def text_of(event: RunEvent) -> str:
        if isinstance(event, RowFinished | RowKept) and row_state(event.result) not in ("pass", "skipped"):
            others.append((case_name(event.result), error_command(event.result)))
        return "".join(f"{line}\n" for line in _lines(event.report, others)) if isinstance(event, RunEnded) else ""

    return Format(text_of)


def _lines(report: RunReport, others: Sequence[tuple[CaseName, str]]) -> Iterator[str]:
    yield _verdict_command(report)
    named = {case_name(case.result) for gate in report.verdict.gates_with_cases for case in gate.cases}
    yield from gate_commands(report)
    yield from (line for name, line in others if name not in named)


def _verdict_command(report: RunReport) -> str:
    name = "notice" if report.exit_code == 0 else "error"
    return f"::{name} title=agentv::{command_data(one_line(report.verdict.sentence))}"
