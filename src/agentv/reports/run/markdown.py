"""A run as Markdown for a job summary or pull request comment."""

from agentv.reports.document.markdown import documents_markdown
from agentv.reports.run.document import document_format
from agentv.reports.run.formats import Format, ReportTools
from agentv.scoring.keys.identity import slug
from agentv.types.events import RunEnded, RunEvent
from agentv.types.records.run import RunRecord

MARKER = "agentv-report"


def make_markdown(tools: ReportTools) -> Format:
    """Return the format that writes the report as Markdown at the end of the run.

    The first line is an invisible comment, by which the pull request comment of an earlier run is found and replaced.
    """
    documents = document_format(documents_markdown, tools)

    def text_of(event: RunEvent) -> str:
        if not isinstance(event, RunEnded):
            return ""
        return f"{_marker(tools.record(event.report))}\n\n{documents.text_of(event)}"

    return Format(text_of, empty=documents.empty)


def _marker(record: RunRecord | None) -> str:
    name = slug(record.name or "") if record is not None else ""
    return f"<!-- {MARKER}{f': {name}' if name else ''} -->"
