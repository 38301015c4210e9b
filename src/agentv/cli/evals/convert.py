"""`agentv convert`: convert eval files and results, also from other tools."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from agentv.importers.conversion import Records
    from agentv.importers.inspect_log import InspectLog
    from agentv.importers.located import Converted
    from agentv.types.json_value import JsonObject
    from agentv.types.problems import Problem


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
    help="Rewrite IN, an eval file of AgentV for TypeScript, in agentv's own format.",
)
@click.option("--allow-loss", is_flag=True, help="Exit with code 0 even if prompts or checks are lost.")
@click.option("--allow-large", is_flag=True, help="Read inspect logs without size limits.")
@click.option("--json", "as_json", is_flag=True, help="Print the names of the written files as one JSON object.")
def command(source: Path, output: Path, to: str | None, *, allow_loss: bool, allow_large: bool, as_json: bool) -> int:
    """Convert the eval file or results file IN to OUT; the suffix of OUT selects the format.

    Files of other tools are recognised by their content. A configuration of promptfoo becomes the eval file OUT, with
    targets.yaml in the same folder. A dataset of DeepEval or pydantic-evals becomes an eval file. A log of inspect
    (.eval or .json) becomes a run in the folder OUT, such as .agentv/runs.

    AgentV for TypeScript is another program. agentv runs most of its eval files (versions 1.5 to 4.42) as they are;
    --to agentv rewrites such a file in agentv's own format.

    What cannot be converted is listed with its place in IN. A test that loses its prompt, a variable or an assertion
    stays in OUT with a reason, and its results are skipped or fail; they never pass. If something that asks or judges
    is lost, the exit code is 1 (with --allow-loss 0), and the files are written nevertheless.

    A part of a log of inspect that unpacks to more than 200 times its packed size (64 MiB are always allowed), or has
    more than 1,000,000 values, is an error unless you add --allow-large.

    If OUT is a .jsonl file, it contains only cases or results; the other keys of an eval file are written to a .yaml
    file next to it. Existing files are never overwritten.
    """
    from agentv.importers.conversion import read_records

    losses = None if to is not None else convert_foreign(source, output, allow_large=allow_large, as_json=as_json)
    if losses is not None:
        return 0 if allow_loss else exit_code(losses)
    records = read_records(source) if to is None else _read_translated(source)
    paths = paths_to_write(records, output)
    _check_output(source, paths, may_keep_format=to is not None)
    count = write_records(records, paths)
    noun = "cases" if records.kind == "eval" else "rows"
    if as_json:
        names = [str(path) for path in paths]
        click.echo(json.dumps({"schema": "agentv-convert-1", "written": names, noun: count}))
        return 0
    for path in paths:
        click.echo(f"Wrote {path}")
    if records.kind == "eval" and output.resolve().parent != source.resolve().parent:
        click.echo(f"note: relative paths in the cases were not changed and now start from {output.parent}")
    return 0


def _read_translated(source: Path) -> "Records":
    """Return the cases of an eval file of AgentV for TypeScript, in agentv's keys; print what is lost or changed."""
    from agentv.engine.plugins.loading import load_specs
    from agentv.importers.conversion import read_translated

    translated = read_translated(source, load_specs())
    report_losses(translated.problems)
    return translated.records


def _check_output(source: Path, paths: list[Path], *, may_keep_format: bool) -> None:
    """Raise UsageError if one of the files to write exists, or the suffix of OUT is not suitable.

    `paths` are the files to write; the first one is OUT. With `may_keep_format`, OUT may have the format of `source`.
    """
    output = paths[0]
    check_format(output)
    from_lines, to_lines = source.suffix == ".jsonl", output.suffix == ".jsonl"
    if from_lines == to_lines and not may_keep_format:
        other = ".yaml" if to_lines else ".jsonl"
        raise click.UsageError(f"{source} and {output} have the same format; the name of OUT must end in {other}")
    check_new(paths)


def check_format(output: Path) -> None:
    """Raise UsageError unless a file to write ends in .jsonl, .yaml or .yml."""
    if output.suffix not in _SUFFIXES:
        raise click.UsageError(f"cannot determine the format of {output}; its name must end in {', '.join(_SUFFIXES)}")


def check_new(paths: list[Path]) -> None:
    """Raise UsageError if one of the files exists."""
    for path in paths:
        if path.exists():
            raise click.UsageError(f"{path} exists already; remove it, or choose another name")


def paths_to_write(records: "Records", output: Path) -> list[Path]:
    """Return the files to write: `output`, and next to cases in JSON Lines a .yaml file for the other keys."""
    has_yaml = records.kind == "eval" and output.suffix == ".jsonl"
    return [output, output.with_suffix(".yaml")] if has_yaml else [output]


def write_records(records: "Records", paths: list[Path]) -> int:
    """Write the files that `paths_to_write` returned; return the number of records.

    If a record cannot be read or written, no file is written.
    """
    from contextlib import ExitStack

    from agentv.loading.files.text import open_atomically

    with ExitStack() as stack:
        files = [stack.enter_context(open_atomically(path)) for path in paths]
        if paths[0].suffix == ".jsonl":
            for top_file in files[1:]:
                top_file.write(_top_text(records))
            return _write_lines(files[0], records.items)
        if records.kind == "eval":
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
    """Return the keys of an eval file other than its cases as YAML; if there are none, a `$schema` line."""
    from agentv.reports.text.yaml_text import yaml_mapping

    return yaml_mapping(records.top) if records.top else _SCHEMA_LINE


def report_losses(losses: "Iterable[Problem]") -> None:
    """Print to standard error what was not converted exactly, one line each."""
    from agentv.reports.text.printable import printable

    for problem in losses:
        click.echo(printable(problem.render()), err=True)


def exit_code(losses: "Iterable[Problem]") -> int:
    """Return 1 if a conversion lost something that asks or judges, else 0."""
    return 1 if any(problem.severity == "error" for problem in losses) else 0


def convert_foreign(source: Path, output: Path, *, allow_large: bool, as_json: bool) -> "Sequence[Problem] | None":
    """Convert a file of another program and report it; return the losses, None if no converter knows the file.

    What `agentv check` finds wrong in the written files counts as lost. Raises UsageError if the result cannot be
    written to `output`.
    """
    from agentv.importers.recognition import find_converter, is_inspect_log

    if is_inspect_log(source):
        return convert_log(source, output, allow_large=allow_large, as_json=as_json)
    convert = find_converter(source)
    if convert is None:
        return None
    if output.suffix not in {".yaml", ".yml"}:
        raise click.UsageError(
            f"{source} becomes an eval file; the name of OUT must end in .yaml or .yml, not {output}"
        )
    if not output.parent.is_dir():
        raise click.UsageError(f"the folder {output.parent} does not exist")
    converted = convert(source, output)
    files = _texts_by_path(converted, output)
    for path in files:
        if path.exists():
            raise click.UsageError(f"{path} exists already; remove it, or choose another name or folder")
    _write(files)
    wrong = written_problems(output)
    report_losses((*converted.losses, *wrong))
    if as_json:
        click.echo(json.dumps(_summary_to_json(converted, list(files), wrong), ensure_ascii=False))
    else:
        _print_summary(converted, list(files), output, wrong)
    return (*converted.losses, *wrong)


def written_problems(output: Path) -> "tuple[Problem, ...]":
    """Return the errors that `agentv check` reports about a written eval file, and what it uses."""
    import os

    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.check.check import check_paths

    result = check_paths([output], cwd=Path.cwd(), env=os.environ, specs=load_specs())
    return tuple(problem for problem in result.problems if problem.severity == "error")


def _texts_by_path(converted: "Converted", output: Path) -> dict[Path, str]:
    """Return the text of each file to write, with a targets file and Python modules if the suite needs them."""
    from agentv.reports.text.yaml_text import yaml_mapping

    files = {output: yaml_mapping(converted.suite)}
    if converted.targets:
        files[output.parent / "targets.yaml"] = yaml_mapping({"targets": list(converted.targets)})
    for name, text in converted.code.items():
        files[output.parent / name] = text
    return files


def _write(files: dict[Path, str]) -> None:
    from contextlib import ExitStack

    from agentv.loading.files.text import open_atomically

    with ExitStack() as stack:
        opened = [(stack.enter_context(open_atomically(path)), text) for path, text in files.items()]
        for file, text in opened:
            file.write(text)


def _print_summary(converted: "Converted", written: list[Path], output: Path, wrong: "Sequence[Problem]") -> None:
    from agentv.reports.text.amounts import count_text

    for path in written:
        click.echo(f"Wrote {path}")
    cases = "" if converted.cases is None else f": {count_text(converted.cases, 'case')}"
    click.echo(f"Converted from {converted.program}{cases}; {_outcome(converted)}")
    if converted.unread:
        click.echo(f"Called as it is, without being read: {', '.join(converted.unread)}")
    if wrong:
        click.echo(f"{output} does not pass agentv check: correct the {count_text(len(wrong), 'error')} above first")
    click.echo(f"Next: agentv check {output}, then agentv run {output}")


def _outcome(converted: "Converted") -> str:
    """Return what became of a file, in words; code that was not read may need what was not converted."""
    from agentv.reports.text.amounts import count_text

    lost = sum(problem.severity == "error" for problem in converted.losses)
    notes = len(converted.losses) - lost
    losses_text = "1 loss" if lost == 1 else f"{lost:,} losses"
    parts = [*([losses_text] if lost else []), *([count_text(notes, "note")] if notes else [])]
    if parts:
        return f"see the {' and the '.join(parts)} above"
    return "everything but the code was converted" if converted.unread else "everything was converted"


def _summary_to_json(converted: "Converted", written: list[Path], wrong: "Sequence[Problem]") -> "JsonObject":
    names = [str(path) for path in written]
    return {
        "schema": "agentv-convert-1",
        "written": names,
        "cases": converted.cases,
        "notes": [_note_to_json(problem) for problem in converted.losses],
        "errors": [_note_to_json(problem) for problem in wrong],
        "unread": list(converted.unread),
    }


def _note_to_json(problem: "Problem") -> "JsonObject":
    return {
        "path": problem.path,
        "line": problem.line,
        "column": problem.column,
        "json_path": problem.json_path,
        "message": problem.message,
        "advice": problem.allowed,
        "is_lost": problem.severity == "error",
    }


def convert_log(source: Path, folder: Path, *, allow_large: bool, as_json: bool) -> "Sequence[Problem]":
    """Write a log of inspect as a run in `folder`, and report it; return its notes.

    Raises UsageError if the run is there already, or `folder` is not a folder.
    """
    from agentv.importers.inspect_log import read_inspect_log
    from agentv.reports.text.amounts import count_text

    log = read_inspect_log(source, limited=not allow_large)
    path = folder / log.run.run_id
    if path.exists():
        raise click.UsageError(f"{path} exists already{_origin_of(path)}; remove it, or choose another folder")
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{folder} is not a folder; a log becomes a run in a folder, such as .agentv/runs")
    count = _write_run(log, folder)
    report_losses(log.notes)
    if as_json:
        summary = {"schema": "agentv-convert-1", "written": [str(path)], "rows": count, "planned": log.planned,
                "state": log.state, "notes": [note.message for note in log.notes]}  # fmt: skip
        click.echo(json.dumps(summary, ensure_ascii=False))
        return log.notes
    click.echo(f"Wrote {path}")
    missing = f" of {log.planned} planned" if log.planned > count else ""
    click.echo(f"Converted from inspect: {count_text(count, 'result')}{missing}, {log.state}")
    # Commands find a run in .agentv/runs by its id, and any other run by its path.
    name = log.run.run_id if folder.resolve().parent.name == ".agentv" else str(path)
    click.echo(f"Next: agentv show {name}, or agentv compare {name} OTHER")
    return log.notes


def _origin_of(folder: Path) -> str:
    """Return from which log a run was converted, in words; "" if that is unknown."""
    from agentv.engine.stored.imported import imported_log
    from agentv.storage.run.find import readable_run

    stored = readable_run(folder)
    log = None if stored is None else imported_log(stored.run.plan)
    return "" if log is None else f", converted from {log.file}"


def _write_run(log: "InspectLog", folder: Path) -> int:
    """Write all samples of a log as a run; return their number. If a sample cannot be read, the run is removed."""
    import shutil
    from datetime import UTC, datetime

    from agentv.storage.run.folder import RunFolder

    store = RunFolder(folder, log.run.run_id, clock=lambda: datetime.now(UTC))
    count = 0
    try:
        store.begin(log.run)
        for sample in log.samples:
            store.append_case(sample.case)
            answer = store.append_answer(sample.answer)
            store.append(sample.row(answer.seq, log.run.run_id))
            count += 1
    except BaseException:
        store.close("interrupted")
        shutil.rmtree(folder / log.run.run_id, ignore_errors=True)
        raise
    store.close(log.state)
    return count
