"""`agentv merge`: merge the shards of a run into one run."""

import os
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agentv.cli.options import OutputOptions, take_output_options, with_output_options
from agentv.cli.running.resume_options import ContinueOptions, take_continue_options
from agentv.cli.running.resuming import continue_run
from agentv.engine.planning.team_store import STORE_KEY, named_store, recorded_name
from agentv.engine.running.clock import make_clock
from agentv.engine.running.run_stores import refuse_second_writer
from agentv.engine.stored.report import refuse_changed_results
from agentv.engine.stored.shards import merged_plan, missing_shards
from agentv.loading.files.places import find_home
from agentv.reports.text.printable import one_line
from agentv.storage.files.object_store import check_url
from agentv.storage.files.segment_writer import remove_segments
from agentv.storage.run.find import find_run, runs_folder
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.merge import find_owners, merge_into
from agentv.storage.run.stored import open_run
from agentv.types.errors import AgentvError, ConfigError, StorageError
from agentv.types.protocols import why_lost
from agentv.types.records.run import RunRecord
from agentv.version import __version__

_EXIT_STOPPED = 2


def merge(
    references: Sequence[str],
    output: OutputOptions,
    continue_options: ContinueOptions,
    *,
    name: str | None,
    segments: str | None = None,
    allow_mixed: bool = False,
) -> int:
    """Merge several runs into one; return the exit code.

    `segments` is the URL of the folder or object store for the new run's results; None: they are in the run folder.
    `allow_mixed` also merges runs of different files, targets, options or versions; such a run is incomplete.
    """
    home = find_home(Path.cwd())
    if segments is not None:
        check_url(segments, runs=runs_folder(home))
    folders = list(dict.fromkeys(find_run(home, reference).resolve() for reference in references))
    if len(folders) < 2:  # noqa: PLR2004 - one run needs no merging
        raise ConfigError("merge needs at least two different runs")
    for folder in folders:
        refuse_second_writer(folder)
    runs = [open_run(folder) for folder in folders]
    for run in runs:
        for note in refuse_changed_results(run, may_lack_results=False):
            click.echo(f"run {run.run_id}: {note}", err=True)
    store_url = named_store(continue_options.store, cwd=Path.cwd(), env=os.environ)
    plan = {
        **merged_plan(runs, allow_mixed=allow_mixed),
        STORE_KEY: recorded_name(continue_options.store, store_url),
    }
    owners = find_owners(
        runs, refuses_conflicts=not allow_mixed
    )  # by result key, the index of the run whose result is taken
    clock = make_clock()
    store = RunFolder(runs_folder(home), new_run_id(clock, random.SystemRandom()), clock=clock, segments=segments)
    store.report_to(lambda message: click.echo(message, err=True))
    record = RunRecord(
        run_id=store.run_id,
        created_at=clock(),
        agentv_version=__version__,
        plan=plan,
        name=name,
        git=runs[0].run.git,
        parents=tuple(run.run_id for run in runs),
    )
    unfinished = [run.run_id for run in runs if run.state() != "finished"]
    state = "stopped" if unfinished else "finished"
    notes: list[str] = []

    def write_results() -> None:
        notes.extend(merge_into(store, runs, owners, now=clock()))

    _write_all_or_nothing(store, record, write_results, state)
    click.echo(f"merged {len(runs)} runs into {store.run_id}", err=True)
    for note in notes:
        click.echo(f"note: {one_line(note)}", err=True)
    planned, merged = plan.get("rows"), sum(sum(run.counts().values()) for run in runs)
    # A shard without cases stores no run.
    if (not isinstance(planned, int) or merged < planned) and (missing := missing_shards(runs)):
        click.echo(f"no run of shard {', '.join(missing)} was named", err=True)
    if unfinished:
        click.echo(f"not finished: {', '.join(unfinished)}. Resume: agentv resume {store.run_id}", err=True)
        return _EXIT_STOPPED
    return continue_run(Path(store.folder), output, "report", continue_options)


def _refuse_lost_files(store: RunFolder) -> None:
    if (lost := why_lost(store)) is not None:
        raise StorageError(f"{lost}; nothing was merged")


def _write_all_or_nothing(store: RunFolder, record: RunRecord, write_results: Callable[[], None], state: str) -> None:
    """Write a complete run that ends in `state`, or nothing.

    A resume of half a run would call and pay for the missing results again. A folder counts as a run once it has
    run.json, which is therefore written after the results.
    """
    try:
        try:
            write_results()
            store.begin(record)
            _refuse_lost_files(store)
        except BaseException:
            with suppress(StorageError):
                store.close("failed")
            raise
        store.close(state)
    except BaseException:
        with suppress(AgentvError):
            remove_segments(Path(store.folder))
        shutil.rmtree(store.folder, ignore_errors=True)
        raise


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", metavar="NAME", help="Name of the merged run.")
@click.option("--segments", metavar="URL", help="Store the new run's results in this folder or object store.")
@click.option(
    "--store",
    metavar="URL",
    help="Team database to store the new run in (default: AGENTV_STORE, else .agentv.yaml); 'none': no database.",
)
@click.option(
    "--allow-mixed",
    is_flag=True,
    help="Merge differing runs; the verdict is then INCOMPLETE.",
)
@with_output_options()
def command(runs: tuple[str, ...], *, name: str | None, segments: str | None, allow_mixed: bool, **given: Any) -> int:
    """Merge the shards of a run (`agentv run --shard I/N`) into a new run.

    The shards are not changed, and each result records which shard it came from. If several shards have a result for
    the same case, target and trial, only that of the RUN named first is used. The shards must have been made from the
    same files, targets and options, by the same version of agentv. Prints the verdict for all results, by the gates
    stored with the shards; if a shard is missing, it is INCOMPLETE. Exit codes are those of `agentv run`. If a shard is
    not finished, prints no verdict and exits with 2; `agentv resume` then finishes the new run.

    RUN is a run id or its prefix, a name, 'latest' or 'latest~1', or a path, such as that of a run folder copied from
    another machine.
    """
    return merge(
        runs,
        take_output_options(given),
        take_continue_options(given),
        name=name,
        segments=segments,
        allow_mixed=allow_mixed,
    )
