"""The part of `agentv convert` that writes a log of inspect as a stored run."""

import json
from pathlib import Path

import click

from agentv.cli.evals.losses import report_losses
from agentv.loading.importers.inspect_log import InspectLog, read_inspect_log


def convert_log(source: Path, folder: Path, *, as_json: bool) -> None:
    """Write a log of inspect as a run below `folder`. Raises UsageError if it is there already."""
    log = read_inspect_log(source)
    path = folder / log.run.run_id
    if path.exists():
        raise click.UsageError(f"{path} exists already: {source} is converted")
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{folder} is not a folder; a log becomes a run in a folder, such as .agentv/runs")
    count = _write(log, folder)
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


def _write(log: InspectLog, folder: Path) -> int:
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
