"""`agentv trend`: show how scores change from run to run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.run_sources import READ_STORE_OPTION, ProjectRuns, StoreRuns, open_runs
from agentv.cli.screen import print_documents, refuse_unknown_suffixes, warn_of_edits, write_documents
from agentv.engine.running.clock import make_clock
from agentv.engine.stored.trend_runs import WantedPlaces, left_out_parts, load_trend_runs, refuse_unknown
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.reports.trend import TrendWords, trend_document, trend_to_json
from agentv.scoring.comparison.trend import TrendRun, find_series, parse_metric
from agentv.scoring.counting.run_sums import MetricKey
from agentv.storage.run.stored import StoredRun
from agentv.storage.run.stored_check import RESULTS_ONLY, StoredCheck, check_stored_run
from agentv.types.messages_json import pretty_json


class TrendOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv trend`."""

    last: int
    metric: str
    suites: tuple[str, ...]
    targets: tuple[str, ...]
    by_commit: bool
    with_parts: bool
    with_runs: bool
    outputs: tuple[str, ...]
    store: str | None
    as_json: bool
    verbose: bool


def trend(options: TrendOptions) -> int:
    """Print the trends and write them to the outputs; return the exit code."""
    metric = parse_metric(options.metric)
    refuse_unknown_suffixes(options.outputs)
    with open_runs(options.store) as source:
        return _trend(source, options, metric)


def _trend(source: ProjectRuns | StoreRuns, options: TrendOptions, metric: MetricKey) -> int:
    wanted = WantedPlaces(options.suites, options.targets)
    with source.trend(verbose=options.verbose) as (listed, load_sums):
        last = None if options.by_commit else options.last
        runs = load_trend_runs(listed, load_sums, wanted=wanted, last=last, with_parts=options.with_parts)
    if not options.with_parts:
        _note_left_out(left_out_parts(listed, wanted))
    refuse_unknown(wanted, metric, listed, runs)
    for unread in (run for run in listed if run.run is None):
        click.echo(f"skipped: {one_line(unread.problem or unread.run_id)}", err=True)
    runs = _checked_for_edits(runs, {each.run_id: each.folder for each in listed if each.run is not None})
    series = find_series(runs, metric, last=options.last, by_commit=options.by_commit)
    has_commits = any(point.run.commit for each in series for point in each.points)
    point_noun = "commit" if options.by_commit and has_commits else "run"
    words = TrendWords(options.metric, metric, make_clock()(), point_noun)
    write_documents(options.outputs, [trend_document(each, words, with_runs=True) for each in series])
    if options.as_json:
        click.echo(printable_json(pretty_json(trend_to_json(series, options.metric))))
    elif series:
        print_documents([trend_document(each, words, with_runs=options.with_runs) for each in series])
    else:
        click.echo(f"no matching run with results in {source.name}")
    for output in options.outputs:
        click.echo(f"Wrote {one_line(output)}", err=options.as_json)
    return 0


def _note_left_out(parts: Counter[str]) -> None:
    """Report which runs are left out because they are partial."""
    if parts:
        kinds = "; ".join(
            f"{one_line(part)} ({count})" if count > 1 else one_line(part) for part, count in parts.items()
        )
        click.echo(f"left out: {count_text(parts.total(), 'partial run')} ({kinds}); --all shows them", err=True)


def _checked_for_edits(runs: Sequence[TrendRun], folders: Mapping[str, Path]) -> list[TrendRun]:
    """Return the runs, marked and with a warning if they were edited; count the runs without checksums."""
    checks: dict[str, StoredCheck] = {}
    for run in runs:
        if run.run_id in folders and (run.sums or run.problem):
            checks[run.run_id] = check_stored_run(StoredRun(folders[run.run_id]), RESULTS_ONLY)
            warn_of_edits(run.run_id, checks[run.run_id].edits)
    unrecorded = sum(not each.has_checksums for each in checks.values())
    if unrecorded:
        of_all = f"{unrecorded:,} of {count_text(len(checks), 'run')}"
        click.echo(f"note: no checksums are recorded for {of_all}; changed results cannot be detected there", err=True)
    return [replace(run, edits=checks[run.run_id].edits) if run.run_id in checks else run for run in runs]


@click.command("trend")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Number of runs (or commits) per eval file and target.",
)
@click.option(
    "--suite", "suites", multiple=True, metavar="PATH", help="Show only this eval file (path or name); repeatable."
)
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Show only this target; repeatable.")
@click.option(
    "--metric",
    default="mean",
    show_default=True,
    metavar="METRIC",
    help="Metric to show, e.g. pass_rate, cost_usd, p95(duration_s) or evaluator(NAME).mean.",
)
@click.option(
    "--by", type=click.Choice(["run", "commit"]), default="run", show_default=True, help="One point per run or commit."
)
@READ_STORE_OPTION
@click.option("--all", "with_parts", is_flag=True, help="Include partial, sharded, stopped and pytest runs.")
@click.option("--runs", "with_runs", is_flag=True, help="Also list the runs of each trend.")
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write FILE (.html or .md); repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print every point as one JSON object.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also warn if .agentv/index.db cannot be used (this command is slow without it).",
)
def command(*, by: str, **given: Any) -> int:
    """Show how the scores of each eval file and target change from run to run, oldest first.

    Significant changes are marked. A run without results is shown as a gap, not as zero. Runs of some of the cases
    (--tag, --case, -k, --limit, --sample, --only), shards, stopped runs and those of pytest are left out without --all.
    """
    return trend(TrendOptions(by_commit=by == "commit", **given))
