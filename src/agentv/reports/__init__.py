"""Reports: progress during a run, the report at its end, and exports of its results.

The registry of export formats imports the module of a format when the format is used, which keeps start-up fast.
"""

from agentv.registry import Registry, ReportSpec, make_registry

__all__ = ["REPORTS", "STDOUT", "format_named"]

STDOUT = "-"
"""The value of `-o` for standard output."""


def _spec(name: str, summary: str, factory: str, *aliases: str, module: str = "run.formats") -> ReportSpec:
    return ReportSpec(
        name=name,
        summary=summary,
        settings="agentv.reports.run.formats:NoSettings",
        factory=f"agentv.reports.{module}:{factory}",
        aliases=aliases,
    )


REPORTS: Registry[ReportSpec] = make_registry(
    "report",
    (
        _spec("jsonl", "every result as a line of JSON", "make_json_lines"),
        _spec("yaml", "every result as an item of a YAML list", "make_yaml", "yml"),
        _spec("json", "the report over all results as one JSON object", "make_json"),
        _spec("html", "a page with the verdict, tables and all results", "make_html", module="html.page"),
        _spec(
            "md",
            "a summary in Markdown for a CI job or pull request",
            "make_markdown",
            "markdown",
            module="run.markdown",
        ),
        _spec("junit.xml", "JUnit XML with a testcase for each result", "make_junit", "xml", module="run.junit"),
        _spec("sarif", "a SARIF log of the results that did not pass", "make_sarif", "sarif.json", module="run.sarif"),
        _spec("csv", "a table of all results for spreadsheets", "make_csv", module="run.csv_table"),
        _spec("github", "annotations of GitHub Actions", "make_annotations", module="run.github"),
    ),
)


def format_named(file_name: str, formats: Registry[ReportSpec]) -> ReportSpec | None:
    """Return the format of a file by its longest known suffix, `sarif.json` before `json`; None if none is known."""
    parts = file_name.split(".")[1:]
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((formats.get(end) for end in ends if end in formats), None)
