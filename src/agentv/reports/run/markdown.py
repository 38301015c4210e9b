"""A run as Markdown for a job summary or pull request comment."""

from collections.abc import Sequence

from agentv.reports.document.blocks import Document, plain
from agentv.reports.document.markdown import documents_markdown
from agentv.reports.run.document import document_format
from agentv.reports.run.formats import Format, ReportTools
from agentv.scoring.keys.identity import slug

MARKER = "agentv-report"


def make_markdown(tools: ReportTools) -> Format:
    """Return the format that writes the report as Markdown at the end of the run.

    The first line is an invisible comment, by which the pull request comment of an earlier run is found and replaced.
    """
    return document_format(_marked, tools)


def _marked(documents: Sequence[Document]) -> str:
    names = [slug(plain(each.title)) for each in documents]
    marker = "".join(f": {name}" for name in names if name)
    return f"<!-- {MARKER}{marker} -->\n\n{documents_markdown(documents)}"
