"""`agentv runs`: list, tag, prune or delete stored runs."""

import sys
from typing import TYPE_CHECKING, Any

import click

from agentv.cli.options import SendingOptions, take_sending_options, with_sending_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agentv.storage.run.find import ListedRun
    from agentv.types.json_value import JsonObject


RUNS_SCHEMA = "agentv-runs-1"
_MAX_SUITES = 2
_MIN_SUITES_WIDTH = 16


@click.group("runs", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> int:
    """List, tag, export, prune or delete stored runs. Without a command, list them."""
    if context.invoked_subcommand is not None:
        return 0
    exit_code: int = context.invoke(list_command, as_json=False, verbose=False)
    return exit_code


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as one JSON object.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also warn if .agentv/index.db cannot be used (this command is slow without it).",
)
def list_command(*, as_json: bool, verbose: bool) -> int:
    """List the runs of this project, latest first: verdict, pass rate and eval files of each."""
    from pathlib import Path

    from agentv.cli.indexed import run_index
    from agentv.cli.screen import terminal_style
    from agentv.loading.files.places import find_home

    home = find_home(Path.cwd())
    with run_index(home, verbose=verbose) as index:
        runs = index.runs()[::-1]
    if as_json:
        _print_json({"runs": [_to_json(run) for run in runs]})
        return 0
    for line in listed_lines(runs, terminal_style().width):
        click.echo(line)
    if not runs:
        click.echo(f"no runs in {home}; start one with `agentv run`")
    return 0


def listed_lines(runs: "Sequence[ListedRun]", width: int | None) -> "Iterator[str]":
    """Yield a line for each run, with verdicts, rates and eval files in columns, and with its name and tags.

    If they do not fit into `width` cells, eval files are cut in their middle, and the name and tags are on a second
    line.
    """
    from agentv.reports.run.views import rate_text
    from agentv.reports.text.printable import one_line
    from agentv.reports.text.width import clip_middle, display_width, pad, wrap
    from agentv.storage.run.recorded_verdict import shown_state

    cells = [
        (
            run.run_id,
            shown_state(run),
            *((rate_text(run.counts), _suites_text(run)) if run.problem is None else ("", "")),
        )
        for run in runs
    ]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    room = None if width is None else width - sum(each + 2 for each in widths[:-1])
    for run, (*row, suites_cell) in zip(runs, cells, strict=True):
        suites = suites_cell if run.problem is None else one_line(run.problem)
        columns = "  ".join(pad(cell, size) for cell, size in zip(row, widths[:-1], strict=True) if size)
        if run.problem is not None:
            columns = f"{pad(run.run_id, widths[0])}  {pad(shown_state(run), widths[1])}"
        marks = "  ".join(_marks(run))
        last = suites if run.problem is not None else pad(suites, widths[-1])
        line = "  ".join(filter(None, (columns, last, marks))).rstrip()
        if width is None or room is None or display_width(line) <= width:
            yield line
        elif run.problem is not None:
            yield from wrap(line, width)
        else:
            yield f"{columns}  {clip_middle(suites, max(room, _MIN_SUITES_WIDTH))}".rstrip()
            yield from (f"  {each}" for each in wrap(marks, width - 2) if each)


def _suites_text(run: "ListedRun") -> str:
    """Return the eval files of a run, the first two by name."""
    from agentv.reports.text.printable import one_line

    suites = () if run.run is None else run.run.suites
    more = f" and {len(suites) - _MAX_SUITES:,} more" if len(suites) > _MAX_SUITES else ""
    return one_line(", ".join(suites[:_MAX_SUITES])) + more


def _marks(run: "ListedRun") -> "Iterator[str]":
    """Yield the name of a run, its tags, and why it is not compared with others unless it is named."""
    from agentv.reports.text.printable import one_line
    from agentv.storage.run.likeness import part_of

    if run.run is None:
        return
    if run.run.name:
        yield one_line(run.run.name)
    yield from (f"[{one_line(tag)}]" for tag in run.run.tags)
    part = part_of(run.run, "", results=sum(run.counts.values()))
    if part:
        yield f"({one_line(part)})"


@command.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation prompt, which is shown only on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the deleted runs as one JSON object.")
def rm_command(runs: tuple[str, ...], *, yes: bool, as_json: bool) -> int:
    """Delete runs with all their data.

    RUN is a run id or its prefix, a name, a path, 'latest' or 'latest~1'. A run that is in progress is not deleted, and
    one whose review is not finished only after confirmation or with --yes.
    """
    from pathlib import Path

    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import find_run
    from agentv.storage.run.housekeeping import unfinished_reviews
    from agentv.types.errors import ConfigError

    home = find_home(Path.cwd())
    folders = list(dict.fromkeys(find_run(home, run) for run in runs))
    reviewed = [f"{folder.name}: {'; '.join(missing)}" for folder in folders if (missing := unfinished_reviews(folder))]
    if reviewed and not yes and not sys.stdin.isatty():
        advice = "nothing was deleted; to delete runs whose review is not finished, add --yes"
        raise ConfigError("\n".join([*reviewed, advice]))
    for each in reviewed:
        click.echo(f"not finished: {each}", err=True)
    return _delete(folders, yes=yes, as_json=as_json)


@command.command("prune", short_help="Delete old runs; keep the newest N and tagged runs.")
@click.option("--keep", type=click.IntRange(min=0), required=True, metavar="N", help="Number of newest runs to keep.")
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation prompt, which is shown only on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the deleted runs as one JSON object.")
def prune_command(keep: int, *, yes: bool, as_json: bool) -> int:
    """Delete old runs.

    The newest N runs, tagged runs, runs in progress and runs whose review is not finished are not deleted.
    """
    from pathlib import Path

    from agentv.loading.files.places import find_home
    from agentv.storage.run.housekeeping import prunable_runs, unfinished_reviews

    folders = list(prunable_runs(find_home(Path.cwd()), keep=keep))
    kept = {folder: missing for folder in folders if (missing := unfinished_reviews(folder))}
    for folder, missing in kept.items():
        click.echo(
            f"kept {folder.name}: {'; '.join(missing)}; to delete it: agentv runs rm {folder.name} --yes", err=True
        )
    return _delete([folder for folder in folders if folder not in kept], yes=yes, as_json=as_json)


@command.command("tag")
@click.argument("run", metavar="RUN")
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@click.option("--remove", is_flag=True, help="Remove the tags instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the run's tags as one JSON object.")
def tag_command(run: str, tags: tuple[str, ...], *, remove: bool, as_json: bool) -> int:
    """Add tags to a run.

    Commands that compare runs accept a tag instead of a run: it stands for the newest run with this tag. Tagged runs
    are not pruned.

    RUN is a run id or its prefix, a name, a path, 'latest' or 'latest~1'.
    """
    from pathlib import Path

    from agentv.loading.files.places import find_home
    from agentv.reports.text.printable import one_line
    from agentv.storage.run.find import find_run
    from agentv.storage.run.housekeeping import tag_run

    folder = find_run(find_home(Path.cwd()), run)
    tags_now = tag_run(folder, remove=tags) if remove else tag_run(folder, add=tags)
    if as_json:
        _print_json({"run_id": folder.name, "tags": list(tags_now)})
        return 0
    click.echo(f"{folder.name}: {one_line(', '.join(tags_now)) or 'no tags'}")
    return 0


@command.command("export", short_help="Write an eval file with some cases, or send results elsewhere.")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--failed", is_flag=True, help="Export cases that did not pass, including errors (default).")
@click.option("--errors", is_flag=True, help="Export cases that ended with an error.")
@click.option(
    "--case",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Export cases whose id matches; repeatable. Cannot be combined with --errors, --failed or --category.",
)
@click.option("--category", metavar="NAME", help="Export cases in this failure category, which becomes a tag.")
@click.option("-o", "--output", metavar="FILE", help="Eval file to write (.yaml, .yml or .jsonl).")
@with_sending_options
@click.option("--resend", is_flag=True, help="With --otel or --export: also send what has been sent before.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written or sent as one JSON object.")
def export_command(
    run: str,
    *,
    failed: bool,
    errors: bool,
    globs: tuple[str, ...],
    category: str | None,
    output: str | None,
    resend: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Write an eval file with some cases of a run, to work on them or to keep them as a regression test.

    With --otel or --export, send the results that were not sent yet, and write no file. The exit code is 3 if any
    result was not sent or was dropped, and 5 if no result has a trace.

    The cases and their evaluators are written as they were in the run, even if the eval file has changed since. Each
    case names its run, suite and id under `metadata.origin`. An existing file is never overwritten.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from pathlib import Path

    from agentv.cli.evals.convert import check_format, check_new, paths_to_write, write_records
    from agentv.engine.stored.exported_cases import exported_suite
    from agentv.engine.stored.resume import why_unmatched
    from agentv.importers.conversion import Records
    from agentv.loading.files.places import find_home
    from agentv.reports.text.amounts import count_text
    from agentv.reports.text.printable import one_line
    from agentv.storage.run.find import find_run
    from agentv.storage.run.stored import open_run
    from agentv.types.errors import ConfigError, NothingFoundError

    selects = errors + failed + bool(globs) + (category is not None)
    options = take_sending_options(given)
    if options.given:
        if len(options.given) > 1:
            raise ConfigError("--otel and --export exclude each other here; run the command once for each")
        if selects or output is not None:
            raise ConfigError(
                f"{options.given[0]} sends all results of a run; omit -o and the options that select cases"
            )
        return _send(run, options, resends=resend, as_json=as_json)
    if resend:
        raise click.UsageError("--resend requires --otel or --export")
    if output is None:
        raise click.UsageError(
            "name the eval file to write with -o FILE, a collector with --otel[=URL], or a service with --export"
        )
    if selects > 1:
        raise ConfigError("--errors, --failed, --case and --category exclude each other; give one of them")
    path = Path(output)
    check_format(path)
    stored = open_run(find_run(find_home(Path.cwd()), run))
    only = "cases" if globs else "errors" if errors else "failed"
    suite = exported_suite(stored, only, globs, folder=path.parent, category=category)
    if not suite.cases:
        raise NothingFoundError(f"run {stored.run_id} has no case that these options select; nothing was written")
    unmatched = why_unmatched(stored, globs)
    if unmatched is not None:
        raise NothingFoundError(f"{unmatched}; nothing was written")
    records = Records("eval", iter(suite.cases), suite.other_keys)
    written = paths_to_write(records, path)
    check_new(written)
    count = write_records(records, written)
    if as_json:
        _print_json({"run_id": stored.run_id, "written": [str(each) for each in written], "cases": count})
        return 0
    for each in written:
        cases = f": {count_text(count, 'case')}" if each == path else ""
        click.echo(f"Wrote {each}{cases}")
    suites = ", ".join(map(one_line, suite.suites))
    click.echo(f"note: options of {suites} (target, workspace, trials, time limits, gates) are not copied;")
    click.echo(f"      relative paths in evaluators are now relative to {path.parent}")
    click.echo(f"Run them: agentv run {path}")
    return 0


def _send(run: str, options: SendingOptions, *, resends: bool, as_json: bool) -> int:
    """Send the results of a run; return the exit code."""
    from contextlib import closing
    from pathlib import Path

    from agentv.cli.main import EXIT_INCOMPLETE, EXIT_NOTHING
    from agentv.cli.running.sending import destinations, export_text
    from agentv.engine.stored.sending import Exporter, export_run
    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import find_run

    (destination,) = destinations(options)
    exporter = Exporter(find_run(find_home(Path.cwd()), run), destination, resends=resends)
    with closing(exporter):
        report = export_run(exporter)
    if as_json:
        _print_json(
            {
                "run_id": report.run_id,
                "destination": report.destination.name,
                "collector": report.destination.shown,
                "sent": report.sent,
                "unsent": report.unsent,
                "omitted": dict(report.omitted),
                "dropped": report.dropped,
                "reason": report.reason,
            }
        )
    else:
        click.echo(export_text(report))
    if report.unsent or report.dropped:
        return EXIT_INCOMPLETE
    return EXIT_NOTHING if report.omitted and not report.sent else 0


def _delete(folders: "list[Path]", *, yes: bool, as_json: bool) -> int:
    """Delete runs, on a terminal after confirmation; return the exit code."""
    from agentv.reports.text.amounts import count_text
    from agentv.storage.run.housekeeping import remove_run

    for folder in folders:
        click.echo(folder.name, err=as_json)
    runs_text = count_text(len(folders), "run")
    if folders and not yes and sys.stdin.isatty():
        click.confirm(f"delete {runs_text} with all data?", abort=True, err=True)
    for folder in folders:
        remove_run(folder)
    if as_json:
        _print_json({"deleted": [folder.name for folder in folders]})
    else:
        click.echo(f"deleted {runs_text}")
    return 0


def _print_json(fields: "JsonObject") -> None:
    from agentv.reports.text.printable import printable_json
    from agentv.types.messages_json import pretty_json

    click.echo(printable_json(pretty_json({"schema": RUNS_SCHEMA, **fields})))


def _to_json(run: "ListedRun") -> "JsonObject":
    from agentv.storage.run.likeness import part_of
    from agentv.storage.run.recorded_verdict import recorded_verdict

    fields: JsonObject = {
        "run_id": run.run_id,
        "name": None if run.run is None else run.run.name,
        "tags": [] if run.run is None else list(run.run.tags),
        "created_at": None if run.run is None else run.run.created_at.isoformat(),
        "state": run.state,
        "verdict": recorded_verdict(run.folder, run.counts),
        "part": None if run.run is None else part_of(run.run, run.state, results=sum(run.counts.values())) or None,
        "suites": [] if run.run is None else list(run.run.suites),
        "counts": run.counts,
        "folder": str(run.folder),
    }
    return fields if run.problem is None else {**fields, "problem": run.problem}
