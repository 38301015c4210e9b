"""Reports: progress while a run goes on, what it came to, and its rows as files.

The registry of their formats loads none of them: a run that writes no report does not wait for all.
"""

from agentv.registry import Registry, Spec, make_registry

__all__ = ["REPORTS", "STDOUT", "format_named"]

STDOUT = "-"
"""Stands for standard output, which gets JSON lines."""


def _spec(name: str, summary: str, factory: str, *aliases: str, module: str = "run.formats") -> Spec:
    return Spec(
        name=name,
        summary=summary,
        settings="agentv.reports.run.formats:NoSettings",
        factory=f"agentv.reports.{module}:{factory}",
        aliases=aliases,
    )


REPORTS: Registry = make_registry(
    "report",
    (
        _spec("jsonl", "every row as a line of JSON", "make_json_lines"),
        _spec("yaml", "every row as an item of a YAML list", "make_yaml", "yml"),
        _spec("json", "the report over all rows as one JSON object", "make_json"),
        _spec(
            "html", "a page for people: verdict, tables, every row with its transcript", "make_html", module="html.page"
        ),
        _spec(
            "md",
            "a summary in Markdown, for a job or a pull request",
            "make_markdown",
            "markdown",
            module="run.markdown",
        ),
        _spec("junit.xml", "JUnit XML with a testcase for each row", "make_junit", "xml", module="run.junit"),
        _spec("sarif", "a SARIF log of the rows that did not pass", "make_sarif", "sarif.json", module="run.sarif"),
        _spec("csv", "a table of all rows for spreadsheets", "make_csv", module="run.csv_table"),
        _spec("github", "annotations of GitHub Actions", "make_annotations", module="run.github"),
    ),
)


def format_named(file_name: str, formats: Registry) -> Spec | None:
    """Return the format of a file by its name: of `a.summary.json` it is `summary.json`, else `json`; None if none."""
    parts = file_name.split(".")[1:]
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((formats.get(end) for end in ends if end in formats), None)
