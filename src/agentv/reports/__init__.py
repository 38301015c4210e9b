"""Reports: progress during a run, the report at its end, and exports of its results.

The registry of export formats imports the module of a format when the format is used, which keeps start-up fast.
"""

from agentv.registry import Registry, ReportSpec, make_registry

__all__ = ["COMPARISONS", "REPORTS", "STDOUT", "document_formats", "format_named", "names_of"]

STDOUT = "-"
"""The value of `-o` for standard output."""


def _spec(
    name: str, summary: str, factory: str, *aliases: str, module: str = "run.formats", document: str | None = None
) -> ReportSpec:
    return ReportSpec(
        name=name,
        summary=summary,
        settings="agentv.reports.run.formats:NoSettings",
        factory=f"agentv.reports.{module}:{factory}",
        aliases=aliases,
        document=None if document is None else f"agentv.reports.{document}",
    )


REPORTS: Registry[ReportSpec] = make_registry(
    "report",
    (
        _spec("jsonl", "every result as a line of JSON", "make_json_lines"),
        _spec("yaml", "every result as an item of a YAML list", "make_yaml", "yml"),
        _spec("json", "the report over all results as one JSON object", "make_json"),
        _spec(
            "html",
            "a page with the verdict, tables and all results",
            "make_html",
            module="html.page",
            document="document.html:documents_html",
        ),
        _spec(
            "md",
            "a summary in Markdown for a CI job or pull request",
            "make_markdown",
            "markdown",
            module="run.markdown",
            document="document.markdown:documents_markdown",
        ),
        _spec("junit.xml", "JUnit XML with a testcase for each result", "make_junit", "xml", module="run.junit"),
        _spec("sarif", "a SARIF log of the results that did not pass", "make_sarif", "sarif.json", module="run.sarif"),
        _spec("csv", "a table of all results for spreadsheets", "make_csv", module="run.csv_table"),
        _spec("github", "annotations of GitHub Actions", "make_annotations", module="run.github"),
    ),
)

COMPARISONS: Registry[ReportSpec] = make_registry(
    "comparison",
    (
        _spec("json", "the whole comparison as one JSON object", "comparison_json", module="compare.json"),
        _spec("agentv-ts", "the JSON of AgentV for TypeScript", "agentv_ts_json", "agentv", module="compare.json"),
    ),
)
"""The formats of `agentv compare` for programs: `factory(compared)` returns the text in pieces.

For people, it has those of documents.
"""


def document_formats(formats: Registry[ReportSpec] = REPORTS) -> tuple[ReportSpec, ...]:
    """Return the formats in which documents can be written."""
    return tuple(each for each in formats if each.document is not None)


def names_of(formats: Registry[ReportSpec] = REPORTS) -> tuple[str, ...]:
    """Return the names of formats, which are also the suffixes of their files, in the order of the registry."""
    return tuple(each.name for each in formats)


def format_named(file_name: str, formats: Registry[ReportSpec]) -> ReportSpec | None:
    """Return the format of a file by its longest known suffix, `sarif.json` before `json`; None if none is known."""
    parts = file_name.split(".")[1:]
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((formats.get(end) for end in ends if end in formats), None)
