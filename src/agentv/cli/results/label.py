"""`agentv label`: keeps what people say of a run's answers with the run."""

import json

import click

LABELS_SCHEMA = "agentv-labels-1"


@click.command("label")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option(
    "--in", "file", required=True, metavar="FILE", help="JSON Lines or CSV with the scores; - is standard input."
)
@click.option("--annotator", metavar="NAME", help="Who gave the scores that name nobody.")
@click.option("--json", "as_json", is_flag=True, help="Print what was kept as one JSON object.")
def command(run: str, file: str, annotator: str | None, *, as_json: bool) -> int:
    """Keep people's scores of a stored run's answers in its labels.jsonl.

    FILE has one score a line: eval_id, criterion, score, and, where there is one, annotator, reasoning, time, and
    suite, target and trial when the case has several rows. All lines are kept or, when one is wrong, none. An annotator
    who judges the same again corrects himself: the later score counts, the earlier stays in the file.
    """
    from pathlib import Path

    from agentv.cli.results.label_file import read_labels
    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import find_run
    from agentv.storage.run.labels import LABELS_FILE, append_labels, current_labels
    from agentv.storage.run.stored import open_run
    from agentv.types.errors import ConfigError, EvalFileError

    stored = open_run(find_run(find_home(Path.cwd()), run))
    try:
        labels = read_labels(stored, file, annotator=annotator)
    except EvalFileError as error:
        raise ConfigError(f"{error}\nnothing was kept: all scores of a file are, or none") from error
    before = len(current_labels(stored.all_labels()))
    if labels:
        append_labels(stored.folder, labels, run_id=stored.run_id)
    corrected = before + len(labels) - len(current_labels(stored.all_labels()))
    kept = str(stored.folder / LABELS_FILE)
    if as_json:
        told = {"run_id": stored.run_id, "file": kept, "labels": len(labels), "corrections": corrected}
        click.echo(json.dumps({"schema": LABELS_SCHEMA, **told}))
        return 0
    people = len({label.annotator for label in labels})
    again = f", {corrected} of them about what the same person had judged already" if corrected else ""
    click.echo(f"kept {len(labels)} scores of {people} {'person' if people == 1 else 'people'}{again}: {kept}")
    return 0
