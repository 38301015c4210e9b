"""`agentv baseline`: the scores of a run in a small file, to be committed and compared with."""

import click

BASELINE_SAVED_SCHEMA = "agentv-baseline-saved-1"


@click.group("baseline")
def command() -> None:
    """Keep a run's scores in a file that can be committed, for --baseline."""


@command.command("save")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("-o", "--output", default="baseline.jsonl", show_default=True, metavar="FILE", help="Where to write it.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as one JSON object.")
def save_command(run: str, *, output: str, as_json: bool) -> int:
    """Write the scores, verdicts and keys of a run's cases: a line a case, sorted, without questions or answers.

    RUN is an id or the start of one, a name, a path, 'latest' (the default) or 'latest~1'. The same run gives the same
    file, byte for byte.
    """
    import json
    from pathlib import Path

    from agentv.loading.files.atomic_write import written_whole
    from agentv.loading.files.places import find_home
    from agentv.reports.text.amounts import count_text
    from agentv.reports.text.printable import one_line
    from agentv.storage.run.score_file import baseline_lines
    from agentv.storage.run.scores import find_scores

    found = find_scores(find_home(Path.cwd()), run)
    with written_whole(Path(output)) as file:
        for line in baseline_lines(found.side):
            file.write(line.decode())
    if found.stored is not None and found.stored.state() != "finished":
        click.echo(f"run {found.reference} did not finish: the baseline has the cases that it made", err=True)
    cases = len(found.side.cases)
    if as_json:
        told = {"schema": BASELINE_SAVED_SCHEMA, "run_id": found.reference, "file": output, "cases": cases}
        click.echo(json.dumps(told, indent=2))
        return 0
    click.echo(f"wrote  {one_line(output)}: {count_text(cases, 'case')} of run {one_line(found.reference)}")
    return 0
