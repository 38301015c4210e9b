"""List, rename and merge the failure categories of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.screen import TerminalStyle, terminal_style
from agentv.cli.terminal import user_name
from agentv.engine.labels.categories import load_category_rates, merge_categories, rename_category
from agentv.engine.running.clock import make_clock
from agentv.loading.files.places import find_home
from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.amounts import count_text, percent_interval_text, percent_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.reports.text.width import table, wrap_lines
from agentv.scoring.judges.categories import CategoryRate
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import open_run
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json

CATEGORIES_SCHEMA = "agentv-categories-1"
_HEADS = ("category", "answers", "share of all", "95 % CI")


class CategoryOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv label categories`."""

    rename: tuple[str, str] | None = None
    merge: tuple[str, ...] = ()
    into: str | None = None
    as_json: bool = False


def show_categories(reference: str, options: CategoryOptions) -> int:
    """Change the categories of a run as the options say, and print them; return the exit code."""
    if bool(options.merge) != (options.into is not None):
        raise ConfigError("--merge and --into belong together: --merge rude --merge curt --into tone")
    run = open_run(find_run(find_home(Path.cwd()), reference))
    by, now = user_name(), make_clock()()
    if options.rename is not None:
        rename_category(run, *options.rename, by=by, now=now)
    if options.into is not None:
        merge_categories(run, options.merge, options.into, by=by, now=now)
    rates = load_category_rates(run)
    if options.as_json:
        click.echo(printable_json(pretty_json({"schema": CATEGORIES_SCHEMA, "run_id": run.run_id, **_to_json(rates)})))
        return 0
    if not any(rates.values()):
        click.echo(f"no label of run {run.run_id} has a category")
        return 0
    style = terminal_style()
    for criterion, each in rates.items():
        for line in _lines(criterion, each, style):
            click.echo(line)
    return 0


def _lines(criterion: str, rates: Sequence[CategoryRate], style: TerminalStyle) -> list[str]:
    if not rates:
        return []
    head = f"criterion {one_line(criterion)}: {count_text(rates[0].labelled, 'labelled answer')}"
    rows = [
        [one_line(each.name), f"{each.answers:,}", percent_text(each.rate), percent_interval_text(each.interval)]
        for each in rates
    ]
    picked = "the labelled answers were picked, not drawn at random: the shares are those of the labelled answers"
    notes = wrap_lines(f"note: {picked}", style.width) if rates[0].is_picked else []
    return [head, *table([[*_HEADS], *rows], style.width, style.paint), *notes]


def _to_json(rates: Mapping[str, Sequence[CategoryRate]]) -> JsonObject:
    found: list[JsonValue] = [
        {
            "criterion": criterion,
            "category": each.name,
            "description": each.description,
            "answers": each.answers,
            "labelled": each.labelled,
            "rate": each.rate,
            "interval": interval_to_json(each.interval),
            "picked": each.is_picked,
        }
        for criterion, of_criterion in rates.items()
        for each in of_criterion
    ]
    return {"categories": found}
