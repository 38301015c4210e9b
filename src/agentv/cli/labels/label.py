"""`agentv label`: import human labels for a run, measure the agreement of annotators, and list failure categories."""

import json
from collections.abc import Mapping
from typing import Any

import click

from agentv.types.json_value import JsonValue

LABELS_SCHEMA = "agentv-labels-1"
IMPORT = "import"


class _LabelGroup(click.Group):
    """A group that runs `import` unless the first argument names another of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `import` before arguments that do not start with a command."""
        names = (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if args and args[0] in names else [IMPORT, *args])


@click.group("label", cls=_LabelGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Import human labels of a run's answers, measure how far annotators agree, or sort failures into categories.

    `import` may be left out: `agentv label [RUN] --in FILE` is short for `agentv label import [RUN] --in FILE`.
    """


@command.command(IMPORT, short_help="Import human labels of a run's answers.")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--in", "file", required=True, metavar="FILE", help="JSON Lines or CSV with labels; - is standard input.")
@click.option("--annotator", metavar="NAME", help="Annotator of the labels that name none.")
@click.option(
    "--random-sample",
    "is_random_sample",
    is_flag=True,
    help="The labelled answers are a random sample of the run's answers.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def import_command(run: str, file: str, annotator: str | None, *, is_random_sample: bool, as_json: bool) -> int:
    """Import human labels (scores and comments) of a run's answers into the run's labels.jsonl.

    FILE has one label per line, with the fields eval_id (the case id), criterion, score and annotator; verdict (pass,
    fail or unsure) may stand in place of score. The fields reasoning, note, category and time are optional, and so is
    annotator if --annotator is given. If the case has several results, the fields suite (the eval file), target, prompt
    and trial select one of them. If a line is invalid, nothing is
    imported. If an annotator scores an answer by the same criterion again, only the new score counts; labels.jsonl
    contains both.

    Labels correct the pass rate of the run, and calibrate a judge, if the labelled answers were drawn at random: the
    field draw says how, and --random-sample that they are a random sample of all answers. Labels of all answers need
    neither.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from pathlib import Path

    from agentv.cli.labels.label_file import read_labels
    from agentv.engine.running.clock import make_clock
    from agentv.loading.files.places import find_home
    from agentv.reports.text.amounts import count_text
    from agentv.storage.run.find import find_run
    from agentv.storage.run.folder import append_event
    from agentv.storage.run.labels import LABELS_FILE, append_labels, current_labels
    from agentv.storage.run.stored import open_run
    from agentv.types.errors import ConfigError, EvalFileError

    stored = open_run(find_run(find_home(Path.cwd()), run))

    def note(type_: str, fields: Mapping[str, JsonValue]) -> None:
        if not append_event(stored.folder, type_, fields, clock=make_clock()):
            click.echo(f"note: run {stored.run_id} is not closed: no checksum of {LABELS_FILE} was recorded", err=True)

    try:
        labels = read_labels(stored, file, annotator=annotator, is_random_sample=is_random_sample)
    except EvalFileError as error:
        raise ConfigError(f"{error}\nnothing was imported: a file is imported completely or not at all") from error
    stored_before = tuple(stored.all_labels())
    if labels:
        append_labels(stored.folder, labels, run_id=stored.run_id, note=note)
    stored_now = tuple(stored.all_labels())
    added = len(stored_now) - len(stored_before)
    corrected = len(current_labels(stored_before)) + added - len(current_labels(stored_now))
    labels_file = str(stored.folder / LABELS_FILE)
    if as_json:
        output = {"run_id": stored.run_id, "file": labels_file, "labels": added, "corrections": corrected}
        click.echo(json.dumps({"schema": LABELS_SCHEMA, **output}))
        return 0
    scores = count_text(added, "score")
    annotators = count_text(len({label.annotator for label in labels}), "annotator")
    replaced = f" ({corrected} of them replaced an earlier score)" if corrected else ""
    stored_already = count_text(len(labels) - added, "label")
    known = f"; {stored_already} of the file had been imported before" if added < len(labels) else ""
    click.echo(f"Imported {scores} of {annotators}{replaced}{known}: {labels_file}")
    return 0


@command.command("agreement", short_help="Measure how far annotators agree beyond chance.")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--labels", metavar="FILE", help="Use the human labels in FILE instead of the imported ones.")
@click.option("--criterion", metavar="NAME", help="Only this criterion (default: all with labels).")
@click.option("--by", type=click.Choice(["tag"]), help="Also show the agreement for each tag of the cases.")
@click.option(
    "--metric",
    type=click.Choice(["nominal", "ordinal", "interval"]),
    help="How two labels are compared. nominal: equal or not; ordinal: by rank; interval: by difference (default: as "
    "fits the criterion's scale).",
)
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write FILE (.html or .md); repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print the agreement as one JSON object.")
def agreement_command(run: str, **options: Any) -> int:
    """Measure how far the annotators of a run agree beyond chance.

    Prints for each criterion Krippendorff's alpha with its 95 % interval, Fleiss' kappa of the answers that all
    annotators judged, and Cohen's kappa of each pair of annotators. If a criterion has a scale, its labels must be
    values of the scale. Without a scale, they may be written as 0.8, 4/5, 85 %, yes or no. With --metric nominal,
    a label may also be any other text, which is then a category of its own.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from agentv.cli.labels.label_file import AgreementOptions, show_agreement

    return show_agreement(run, AgreementOptions(**options))


@command.command("categories", short_help="List, rename and merge failure categories.")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--rename", nargs=2, metavar="OLD NEW", help="Rename a category.")
@click.option("--merge", multiple=True, metavar="NAME", help="Merge this category; repeatable, with --into.")
@click.option("--into", metavar="NAME", help="The category that --merge merges into; it may be new.")
@click.option("--json", "as_json", is_flag=True, help="Print the categories as one JSON object.")
def categories_command(run: str, **options: Any) -> int:
    """Show the failure categories of a run's labels, with the share of answers in each.

    If the labelled answers were drawn for review, the shares are those of all answers of the run, with intervals.
    Changes are added to the run's categories.jsonl; no label is changed.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from agentv.cli.labels.category_list import CategoryOptions, show_categories

    return show_categories(run, CategoryOptions(**options))
