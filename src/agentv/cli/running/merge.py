"""`agentv merge`: merge the shards of a run into one run."""

import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from agentv.cli.options import OutputOptions, take_output_options, with_output_options
from agentv.cli.running.resume_options import ContinueOptions, take_continue_options
from agentv.cli.running.resuming import continue_run
from agentv.engine.running.clock import make_clock
from agentv.engine.running.run_stores import refuse_second_writer
from agentv.engine.stored.report import refuse_changed_results
from agentv.engine.stored.stored_plan import load_stored_plan, working_folder
from agentv.engine.stored.team_store import STORE_KEY, named_store, recorded_name
from agentv.loading.files.places import find_home
from agentv.storage.files.object_store import check_url
from agentv.storage.files.segment_writer import remove_segments
from agentv.storage.run.find import find_run, runs_folder
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.merge import find_owners, merge_into
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import AgentvError, ConfigError, StorageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.run import RunRecord
from agentv.version import __version__

_EXIT_STOPPED = 2
_SHARD_OPTIONS = ("shard", "name", "segments")
"""Options that may differ between the shards of one run."""


def merge(
    references: Sequence[str],
    output: OutputOptions,
    continue_options: ContinueOptions,
    *,
    name: str | None,
    segments: str | None = None,
) -> int:
    """Merge several runs into one; return the exit code.

    `segments` is the URL of the folder or object store for the new run's results; None: they are in the run folder.
    """
    if segments is not None:
        check_url(segments)
    home = find_home(Path.cwd())
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
    plan = {**_with_gates(_common_plan(runs), runs, home), STORE_KEY: recorded_name(continue_options.store, store_url)}
    owners = find_owners(runs)  # by result key, the index of the run whose result is taken
    clock = make_clock()
    store = RunFolder(runs_folder(home), new_run_id(clock, random.SystemRandom()), clock=clock, segments=segments)
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
    _write_all_or_nothing(store, record, lambda: merge_into(store, runs, owners), state)
    click.echo(f"merged {len(runs)} runs into {store.run_id}", err=True)
    if unfinished:
        click.echo(f"not finished: {', '.join(unfinished)}. Resume: agentv resume {store.run_id}", err=True)
        return _EXIT_STOPPED
    return continue_run(Path(store.folder), output, "report", continue_options)


def _write_all_or_nothing(store: RunFolder, record: RunRecord, write_results: Callable[[], None], state: str) -> None:
    """Write a complete run that ends in `state`, or nothing.

    A resume of half a run would call and pay for the missing results again. A folder counts as a run once it has
    run.json, which is therefore written after the results.
    """
    try:
        write_results()
        store.begin(record)
        store.close(state)
    except BaseException:
        with suppress(StorageError):
            store.close("failed")
        with suppress(AgentvError):
            remove_segments(Path(store.folder))
        shutil.rmtree(store.folder, ignore_errors=True)
        raise


def _common_plan(runs: Sequence[StoredRun]) -> JsonObject:
    """Return the plan of the merged run. Raises ConfigError for runs that are not shards of one run."""
    first, *others = runs
    for other in others:
        for key in ("paths", "folder", "options", "targets"):
            if _without_shard_options(first.run.plan.get(key)) != _without_shard_options(other.run.plan.get(key)):
                raise ConfigError(
                    f"runs {first.run_id} and {other.run_id} were started with different {key}; only shards of one "
                    "run, made with --shard, can be merged"
                )
    options = _without_shard_options(first.run.plan.get("options"))
    if isinstance(options, dict) and isinstance(budget := options.get("budget_usd"), int | float):
        # Each shard had its own budget, unless a name made them share one.
        options["budget_usd"] = budget if options.get("budget_name") else budget * len(runs)
    counts = [run.run.plan.get("rows") for run in runs]
    known = [count for count in counts if isinstance(count, int)]
    return {**first.run.plan, "options": options, "rows": sum(known) if len(known) == len(counts) else None}


def _with_gates(plan: JsonObject, runs: Sequence[StoredRun], home: Path) -> JsonObject:
    """Return the plan, with the gates of its eval files if all runs are shards that were run with `--gate none`."""
    options = plan.get("options")
    if not isinstance(options, Mapping) or options.get("gates") != [] or not all(map(_is_shard, runs)):
        return plan
    plan_without_gates = {name: value for name, value in plan.items() if name != "gates"}
    plan_without_gates["options"] = {name: value for name, value in options.items() if name != "gates"}
    record = replace(runs[0].run, plan=plan_without_gates)
    plan_of_files = load_stored_plan(record, home, cwd=working_folder(record, home), env=os.environ)
    return {**plan_without_gates, **plan_of_files.gates_to_json()}


def _is_shard(run: StoredRun) -> bool:
    options = run.run.plan.get("options")
    return isinstance(options, Mapping) and options.get("shard") is not None


def _without_shard_options(value: JsonValue) -> JsonValue:
    """Return an entry of a plan: the options without those that may differ between shards, other entries unchanged."""
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if key not in _SHARD_OPTIONS}
    return value


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", metavar="NAME", help="Name of the merged run.")
@click.option("--segments", metavar="URL", help="Store the new run's results in this folder or object store.")
@click.option(
    "--store",
    metavar="URL",
    help="Team database to store the new run in (default: AGENTV_STORE, else .agentv.yaml); 'none': no database.",
)
@with_output_options()
def command(runs: tuple[str, ...], *, name: str | None, segments: str | None, **given: Any) -> int:
    """Merge the shards of a run (`agentv run --shard I/N`) into a new run.

    The shards are not changed, and each result records which shard it came from. If several shards have a result for
    the same case, target and trial, only that of the RUN named first is used. If the case, target or
    evaluators of such a duplicate were edited between the shards, the merge fails. Prints the verdict for all results.
    Exit codes are those of `agentv run`. If a shard is not finished, prints no verdict and exits with 2;
    `agentv resume` then finishes the new run.

    RUN is a run id or its prefix, a name, 'latest' or 'latest~1', or a path, such as that of a run folder copied from
    another machine.
    """
    return merge(runs, take_output_options(given), take_continue_options(given), name=name, segments=segments)
