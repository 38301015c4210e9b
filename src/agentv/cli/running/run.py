"""`agentv run`: run eval files against targets and give a verdict."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from agentv.cli.screen_options import screen_options, take_screen
from agentv.cli.spans import Span

if TYPE_CHECKING:
    from agentv.engine.planning.options import RunOptions


def _several(name: str, *names: str, help: str, metavar: str = "TEXT") -> Callable[..., Any]:  # noqa: A002 - click's word
    return click.option(name, *names, multiple=True, metavar=metavar, help=help)


@click.command("run")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@_several("--target", "targets", help="Target to run against, by name; repeat it to compare several.", metavar="NAME")
@click.option("--targets", "targets_file", metavar="FILE", help="Targets file or folder, instead of the nearest one.")
@_several("--case", "--eval-id", "case_globs", help="Only cases whose id matches.", metavar="GLOB")
@_several("--tag", "tags", help="Only cases with this tag.", metavar="TAG")
@click.option("-k", "expression", metavar="EXPR", help="Only cases that fit, as in 'refund and not slow'.")
@click.option("--sample", type=click.IntRange(min=1), help="Only N cases, drawn with --seed.", metavar="N")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for sampling and retry pauses.")
@click.option("--shard", metavar="I/N", help="Only part I of N, for as many machines; `agentv merge` joins them.")
@click.option("--trials", type=click.IntRange(min=1), help="Repeat every case N times.", metavar="N")
@click.option("--workers", type=click.IntRange(min=1), help="Rows at once, per target.", metavar="N")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds for one call of a target, its retries included.",
)
@click.option("--max-retries", type=click.IntRange(min=0), metavar="N", help="Retries instead of the targets' own.")
@click.option(
    "--max-errors",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Rows without a result that a complete run may have.",
)
@click.option(
    "--fail-fast",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=1,
    metavar="[N]",
    help="StopSignal after N rows that did not pass (1 without a number).",
)
@click.option(
    "--cache",
    type=click.Choice(["off", "read", "on"]),
    default="off",
    show_default=True,
    help="Take answers of earlier runs from the cache (read), and keep new ones there too (on).",
)
@click.option("--cache-max-age", "cache_max_age_s", type=Span(), metavar="SPAN", help="No older ones: 12h, 7d.")
@click.option(
    "--budget-usd",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="StopSignal before a call that could bring the cost above X dollars.",
)
@click.option("--only", type=click.Choice(["free"]), help="Leave out evaluators that cost money.")
@_several("--gate", "gates", help="What must be reached, as in 'pass_rate >= 90%'; 'none' for no gate.", metavar="EXPR")
@click.option(
    "--baseline",
    metavar="RUN",
    help="Hold the run against an earlier one (id, name, tag, latest) or a file of `agentv baseline save`.",
)
@click.option("--name", metavar="NAME", help="A name for this run.")
@click.option(
    "--store", metavar="URL", help="Also keep the run in the team's database (postgresql://…); 'none' for no store."
)
@screen_options(json_help="The same as --display json; with --dry-run the plan as JSON.")
@click.option("--dry-run", is_flag=True, help="Print the plan and stop before the first call.")
@click.option(
    "--pilot",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --dry-run: run N cases all the same, and draw from them what the whole will cost.",
)
@click.option(
    "--dump-prompts", metavar="FOLDER", help="Write every rendered prompt there and stop before the first call."
)
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Run eval files (or folders of them; without any, `evals/`) against targets and give a verdict.

    Exit code: 0 passed, 1 a gate failed, 2 stopped early, 3 incomplete, 4 wrong usage or files, 5 nothing selected.
    """
    from agentv.cli.running.planning import run_paths

    screen = take_screen(given)
    prompts_folder = given.pop("dump_prompts")
    store, pilot = given.pop("store"), given.pop("pilot")
    is_dry = given.pop("dry_run") or prompts_folder
    if pilot is not None and not is_dry:
        raise click.UsageError("--pilot goes with --dry-run; `--sample N` runs N cases and no more")
    if is_dry:
        from agentv.cli.running.dry_run import DryRun

        dry_run = DryRun(prompts_folder, as_json=screen.display == "json", pilot=pilot)
    else:
        dry_run = None
    return run_paths(paths, _make_run_options(given), screen, dry_run, store=store)


def _make_run_options(given: dict[str, Any]) -> "RunOptions":
    """Return the options of the run; `--gate none` turns the gate off."""
    from agentv.engine.planning.options import make_options
    from agentv.types.errors import ConfigError

    gates = given.pop("gates")
    if "none" in gates and len(gates) > 1:
        raise ConfigError("--gate none turns the gate off and cannot stand beside another --gate")
    chosen = () if gates == ("none",) else gates or None
    return make_options({**given, "gates": chosen})
