"""`agentv report`: any format from any stored run."""

import click


@click.command("report")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write FILE in the format of its end; repeat it for several. - is standard output, in --format.",
)
@click.option("--format", "format_name", metavar="FORMAT", help="What standard output gets; jsonl unless you say so.")
@click.option("--include-trace", is_flag=True, help="Rows carry traces and output messages.")
@click.option("--exit-code", is_flag=True, help="Exit as the run did, not with 0 for a report that was written.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def command(
    run: str, *, outputs: tuple[str, ...], format_name: str | None, include_trace: bool, exit_code: bool, as_json: bool
) -> int:
    """Write what a stored run came to, as a page, a summary, a table or rows; without -o print what ended the run.

    FILE ends in .html, .md, .junit.xml, .sarif, .csv, .jsonl, .yaml or .json.

    RUN is an id or the start of one, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from agentv.cli.results.reporting import ReportOptions, report

    options = ReportOptions(
        outputs=outputs,
        format_name=format_name,
        include_trace=include_trace,
        exit_code=exit_code,
        as_json=as_json,
    )
    return report(run, options)
