"""The part of `agentv convert` that reads files of other programs, and logs of inspect, which become stored runs."""

import json
from collections.abc import Iterable
from pathlib import Path

import click

from agentv.loading.importers.inspect_log import InspectLog, read_inspect_log
from agentv.loading.importers.located import Converted
from agentv.reports.text.printable import printable
from agentv.types.json_value import JsonObject
from agentv.types.problems import Problem


def report_losses(losses: Iterable[Problem]) -> None:
    """Print what was not carried over to standard error, a line each."""
    for problem in losses:
        click.echo(printable(problem.render()), err=True)


def convert_other(source: Path, output: Path, *, as_json: bool) -> bool:
    """Convert a file of another program; return False if it is of none that is known."""
    from agentv.loading.importers.recognition import find_converter, is_inspect_log

    if is_inspect_log(source):
        convert_log(source, output, as_json=as_json)
        return True
    convert = find_converter(source)
    if convert is None:
        return False
    if output.suffix not in {".yaml", ".yml"}:
        raise click.UsageError(
            f"{source} becomes an eval file; the name of OUT must end in .yaml or .yml, not {output}"
        )
    if not output.parent.is_dir():
        raise click.UsageError(f"the folder {output.parent} does not exist")
    made = convert(source, output)
    files = _files(made, output)
    for path in files:
        if path.exists():
            raise click.UsageError(f"{path} exists already; remove it, or choose another name or folder")
    _write(files)
    report_losses(made.losses)
    if as_json:
        click.echo(json.dumps(_as_json(made, list(files)), ensure_ascii=False))
    else:
        _report(made, list(files), output)
    return True


def _files(made: Converted, output: Path) -> dict[Path, str]:
    """Return the texts of the files to write."""
    files = {output: yaml_of(made.suite)}
    if made.targets:
        files[output.parent / "targets.yaml"] = yaml_of({"targets": list(made.targets)})
    for name, text in made.code.items():
        files[output.parent / name] = text
    return files


def yaml_of(value: JsonObject) -> str:
    """Return an object as the text of a YAML file."""
    from agentv.reports.text.yaml_text import yaml_item

    # A list item is the object, indented by two columns.
    return "".join(f"{line[2:]}\n" for line in yaml_item(value).rstrip("\n").split("\n"))


def _write(files: dict[Path, str]) -> None:
    from contextlib import ExitStack

    from agentv.loading.files.text import open_atomically

    with ExitStack() as stack:
        opened = [(stack.enter_context(open_atomically(path)), text) for path, text in files.items()]
        for file, text in opened:
            file.write(text)


def _report(made: Converted, written: list[Path], output: Path) -> None:
    for path in written:
        click.echo(f"Wrote {path}")
    cases = "" if made.cases is None else f": {made.cases} case{'' if made.cases == 1 else 's'}"
    lost = len(made.losses)
    what = "everything is carried over" if not lost else f"{lost} note{'' if lost == 1 else 's'} above on what changed"
    click.echo(f"Converted from {made.program}{cases}; {what}")
    click.echo(f"Next: agentv check {output}, then agentv run {output}")


def _as_json(made: Converted, written: list[Path]) -> JsonObject:
    losses: list[JsonObject] = [
        {"path": item.path, "line": item.line, "column": item.column, "json_path": item.json_path,
         "message": item.message, "advice": item.allowed}
        for item in made.losses
    ]  # fmt: skip
    names = [str(path) for path in written]
    return {"schema": "agentv-convert-1", "written": names, "cases": made.cases, "notes": losses}


def convert_log(source: Path, folder: Path, *, as_json: bool) -> None:
    """Write a log of inspect as a run below `folder`. Raises UsageError if it is there already."""
    log = read_inspect_log(source)
    path = folder / log.run.run_id
    if path.exists():
        raise click.UsageError(f"{path} exists already: {source} is converted")
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{folder} is not a folder; a log becomes a run in a folder, such as .agentv/runs")
    count = _write_run(log, folder)
    report_losses(log.notes)
    if as_json:
        summary = {"schema": "agentv-convert-1", "written": [str(path)], "rows": count, "planned": log.planned,
                "state": log.state, "notes": [note.message for note in log.notes]}  # fmt: skip
        click.echo(json.dumps(summary, ensure_ascii=False))
        return
    click.echo(f"Wrote {path}")
    missing = f" of {log.planned} planned" if log.planned > count else ""
    click.echo(f"Converted from inspect: {count} result{'' if count == 1 else 's'}{missing}, {log.state}")
    name = log.run.run_id if folder.resolve().parent.name == ".agentv" else str(path)
    click.echo(f"Next: agentv show {name}, or agentv compare {name} OTHER")


def _write_run(log: InspectLog, folder: Path) -> int:
    """Write all samples of a log; nothing is left if one of them cannot be read."""
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
