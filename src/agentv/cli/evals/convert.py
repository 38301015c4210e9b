"""`agentv convert`: convert eval files and results, also from other tools."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from agentv.loading.edit.conversion import Records
    from agentv.types.json_value import JsonObject


_SUFFIXES = (".jsonl", ".yaml", ".yml")
_SCHEMA_LINE = "$schema: agentv-eval-v2\n"


@click.command()
@click.argument("source", metavar="IN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write (.yaml, .yml or .jsonl); for a log of inspect, a folder of runs.",
)
@click.option(
    "--to",
    type=click.Choice(["agentv"]),
    help="Rewrite IN, an eval file of the TypeScript program AgentV, with agentv's own keys.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the names of the files as one JSON object.")
def command(source: Path, output: Path, to: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags like this
    """Convert the eval file or results file IN to OUT; the suffix of OUT selects the format.

    Files of other tools are recognised by their content. A configuration of promptfoo becomes the eval file OUT, with
    targets.yaml in the same folder. A dataset of DeepEval or pydantic-evals becomes an eval file. A log of inspect
    (.eval or .json) becomes a run in the folder OUT, such as .agentv/runs.

    AgentV is a TypeScript program whose eval files (1.5 to 4.42) agentv can run as they are. With --to agentv, such a
    file is rewritten with agentv's own keys.

    What cannot be converted is listed with its place in IN. A .jsonl file contains only cases or results; the other
    keys of an eval file are written to a .yaml file next to it. Existing files are never overwritten.
    """
    import json

    from agentv.cli.evals.convert_others import convert_other
    from agentv.loading.edit.conversion import read_records

    if to is None and convert_other(source, output, as_json=as_json):
        return
    records = read_records(source) if to is None else _translated(source)
    written = files_of(records, output)
    _check(source, written, same_format=to is not None)
    count = write_records(records, written)
    noun = "cases" if records.sort == "eval" else "rows"
    if as_json:
        names = [str(path) for path in written]
        click.echo(json.dumps({"schema": "agentv-convert-1", "written": names, noun: count}))
        return
    for path in written:
        click.echo(f"Wrote {path}")
    if records.sort == "eval" and output.resolve().parent != source.resolve().parent:
        click.echo(f"note: relative paths in the cases are now relative to {output.parent}")


def _translated(source: Path) -> "Records":
    """Return an eval file of AgentV in our own keys; print what it loses."""
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.edit.conversion import read_translated
    from agentv.reports.text.printable import printable

    translated = read_translated(source, load_specs())
    for problem in translated.problems:
        click.echo(printable(problem.render()), err=True)
    return translated.records


def _check(source: Path, written: list[Path], *, same_format: bool) -> None:
    output = written[0]
    check_format(output)
    if not same_format and (output.suffix == ".jsonl") == (source.suffix == ".jsonl"):
        raise click.UsageError(f"{source} and {output} have the same format; OUT must have the other one")
    check_new(written)


def check_format(output: Path) -> None:
    """Raise UsageError unless the suffix of a file to write names a format."""
    if output.suffix not in _SUFFIXES:
        raise click.UsageError(f"cannot determine the format of {output}; its name must end in {', '.join(_SUFFIXES)}")


def check_new(paths: list[Path]) -> None:
    """Raise UsageError if one of the files exists."""
    for path in paths:
        if path.exists():
            raise click.UsageError(f"{path} exists already; remove it, or choose another name")


def files_of(records: "Records", output: Path) -> list[Path]:
    """Return the files to write: a .yaml file beside JSON Lines holds the other keys of an eval file."""
    beside = records.sort == "eval" and output.suffix == ".jsonl"
    return [output, output.with_suffix(".yaml")] if beside else [output]


def write_records(records: "Records", paths: list[Path]) -> int:
    """Write all files completely or none; return the number of records."""
    from contextlib import ExitStack

    from agentv.loading.files.text import open_atomically

    with ExitStack() as stack:
        files = [stack.enter_context(open_atomically(path)) for path in paths]
        if paths[0].suffix == ".jsonl":
            for side in files[1:]:
                side.write(_top_text(records))
            return _write_lines(files[0], records.items)
        if records.sort == "eval":
            files[0].write(f"{_top_text(records)}evalcases:\n")
        return _write_items(files[0], records.items)


def _write_lines(file: TextIO, items: "Iterable[JsonObject]") -> int:
    from agentv.types.messages_json import compact_json

    count = 0
    for count, item in enumerate(items, 1):  # noqa: B007 - counted while written
        file.write(f"{compact_json(item)}\n")
    return count


def _write_items(file: TextIO, items: "Iterable[JsonObject]") -> int:
    from agentv.reports.text.yaml_text import yaml_item

    count = 0
    for count, item in enumerate(items, 1):  # noqa: B007 - counted while written
        file.write(yaml_item(item) or "- {}\n")
    return count


def _top_text(records: "Records") -> str:
    """Return the eval file's other keys as YAML; at least the schema, which marks it as an eval file."""
    from agentv.reports.text.yaml_text import yaml_item

    if not records.top:
        return _SCHEMA_LINE
    # A list item is the object, indented by two columns.
    return "\n".join(line[2:] for line in yaml_item(records.top).split("\n"))
