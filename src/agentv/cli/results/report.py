"""`agentv report`: write a stored run in any format."""

import click


@click.command("report")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write FILE in the format of its suffix; '-o -' prints to standard output. Repeatable.",
)
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    help="Print the run as html, md, junit.xml, sarif, csv, jsonl, yaml, json or github; '-o -' prints jsonl.",
)
@click.option("--include-trace", is_flag=True, help="Include traces and output messages.")
@click.option("--exit-code", is_flag=True, help="Exit with the exit code of the run instead of 0.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def command(
    run: str, *, outputs: tuple[str, ...], format_name: str | None, include_trace: bool, exit_code: bool, as_json: bool
) -> int:
    """Write a report of a stored run; without options, print the report shown at the end of the run.

    FILE ends in .html, .md, .junit.xml, .sarif, .csv, .jsonl, .yaml or .json. `agentv plugins` lists these formats and
    those of plug-ins.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
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
