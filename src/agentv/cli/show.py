"""`agentv show`: look into a stored run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agentv.cli.show_rows import ShownRows
    from agentv.reports.case_view import CaseView
    from agentv.storage.row_query import RowQuery
    from agentv.storage.stored_run import StoredRun
    from agentv.types.json_value import JsonObject, JsonValue

SHOW_SCHEMA = "agentv-show-1"

_STATES = ("pass", "borderline", "fail", "error", "skipped")
_SORTS = ("written", "id", "state", "score", "cost", "duration")


@click.command("show")
@click.argument("run", default="latest", metavar="[RUN]")
@click.argument("case", required=False, metavar="[CASE]")
@click.option("--failed", is_flag=True, help="Only rows that did not pass.")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only rows of this state.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only rows of this target.")
@click.option("--suite", "suites", multiple=True, metavar="PATH", help="Only rows of this suite.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only rows with this tag.")
@click.option("--text", default="", metavar="TEXT", help="Only rows with TEXT in their id.")
@click.option("--metadata", multiple=True, metavar="KEY[=VALUE]", help="Only rows with this in their metadata.")
@click.option(
    "--sort",
    type=click.Choice([f"{sign}{key}" for key in _SORTS for sign in ("", "-")]),
    default="written",
    metavar="KEY",
    help=f"Order of rows: {', '.join(_SORTS)}; -KEY is the other way round.",
)
@click.option("--page", type=click.IntRange(min=1), metavar="N", help="Only page N of the rows.")
@click.option("--page-size", type=click.IntRange(min=1), metavar="N", help="Rows on a page (50).")
@click.option(
    "--by", multiple=True, metavar="KEY", help="Rates and means by tag, dataset, …, or a key of the metadata."
)
@click.option("--json", "as_json", is_flag=True, help="Print what is stored, as one JSON object.")
@click.option("-v", "--verbose", is_flag=True, help="Say when the index cannot be used and the folders are read.")
def command(run: str, case: str | None, *, by: tuple[str, ...], as_json: bool, verbose: bool, **asked: Any) -> int:
    """Look into a stored run: its rows, or everything about one CASE (an id, or a pattern like 'refund-*').

    RUN is an id or the start of one, a name, a path, 'latest' (the default) or 'latest~1'. Options that choose rows
    may be repeated: rows that have one of the values are shown. With --by KEY (tag, dataset, criterion, evaluator,
    target, suite, or a key of the cases' metadata) they are counted by it.
    """
    from pathlib import Path

    from agentv.cli.show_rows import find_rows, make_query
    from agentv.loading.places import find_home
    from agentv.storage.find_run import find_run
    from agentv.storage.stored_run import open_run
    from agentv.types.errors import ConfigError

    home = find_home(Path.cwd())
    query = make_query(case, **asked)
    if by and query.page_size is not None:
        raise ConfigError("--by counts all rows that are chosen; leave out --page and --page-size")
    stored = open_run(find_run(home, run))
    shown = find_rows(home, stored, query, verbose=verbose)
    if by:
        _print_groups(stored, shown, by, as_json=as_json)
    elif as_json:
        _print_json(stored, shown, query)
    elif case is None:
        _print_rows(stored, shown, query)
    else:
        from agentv.cli.terminal import terminal_style

        style = terminal_style()
        views = _views(stored, shown, query)
        for number, view in enumerate(views):
            click.echo(("\n" if number else "") + style.of_case(view).render(), nl=False)
    return 0


def _print_groups(stored: "StoredRun", shown: "ShownRows", by: Sequence[str], *, as_json: bool) -> None:
    from agentv.cli.show_groups import count_groups, group_text
    from agentv.reports.printable import printable_json
    from agentv.reports.report_json import group_to_json
    from agentv.types.messages_json import pretty_json

    groups = count_groups(shown.rows, by)
    if not as_json:
        click.echo(group_text(groups), nl=False)
        return
    told: dict[str, JsonValue] = {
        "schema": SHOW_SCHEMA,
        "run_id": stored.run_id,
        "groups": [group_to_json(group) for group in groups],
    }
    click.echo(printable_json(pretty_json(told)))


def _print_rows(stored: "StoredRun", shown: "ShownRows", query: "RowQuery") -> None:
    from agentv.cli.show_rows import page_text
    from agentv.cli.terminal import terminal_style
    from agentv.reports.row_text import RowLabels

    view = terminal_style().of_run()
    click.echo(view.head(stored.run, state=stored.state(), counts=shown.counts(stored)))
    suites = stored.run.plan.get("suites")
    labels = RowLabels(with_suite=isinstance(suites, Sequence) and len(suites) > 1)
    for line in view.rows(shown.rows, labels):
        click.echo(line)
    _print_corrected(stored)
    if shown.page is not None and query.page_size is not None:
        click.echo(f"\n{page_text(shown.page, query)}")
    click.echo(f"\nlook closer: agentv show {stored.run_id} CASE")


def _print_corrected(stored: "StoredRun") -> None:
    from agentv.cli.terminal import terminal_style
    from agentv.pipeline.corrected_rates import corrected_or_note
    from agentv.reports.corrected_text import corrected_notes, corrected_rows
    from agentv.reports.printable import one_line
    from agentv.reports.table import table

    style, (rates, notes) = terminal_style(), corrected_or_note(stored)
    told = [f"note: {one_line(note)}" for note in notes]
    lines = [*table(corrected_rows(rates), style.width, style.paint), *corrected_notes(rates), *told]
    if lines:
        click.echo(style.signs.within("\n".join(["", *lines])))


def _views(stored: "StoredRun", shown: "ShownRows", query: "RowQuery") -> "list[CaseView]":
    from agentv.cli.row_details import read_details
    from agentv.reports.case_view import CaseView

    rows = list(shown.rows)
    if not rows:
        _refuse_unknown(stored, query)
    return [CaseView(each.result, each.case, each.answer, each.labels) for each in read_details(stored, rows)]


def _refuse_unknown(stored: "StoredRun", query: "RowQuery") -> None:
    from agentv.cli.show_rows import FAILED_STATES
    from agentv.types.errors import ConfigError, nearest

    case = query.case or ""
    known = {row.eval_id for row in stored.results()}
    if case in known and query.states == FAILED_STATES:
        raise ConfigError(f"case {case!r} of run {stored.run_id} did not fail; leave out --failed to see it")
    if case in known:
        raise ConfigError(f"case {case!r} of run {stored.run_id} has no row that the other options ask for")
    near = nearest(case, known)
    hint = f" Did you mean {near!r}?" if near else f" `agentv show {stored.run_id}` lists its cases."
    raise ConfigError(f"run {stored.run_id} has no row of a case {case!r}.{hint}")


def _print_json(stored: "StoredRun", shown: "ShownRows", query: "RowQuery") -> None:
    from agentv.cli.show_rows import page_to_json
    from agentv.pipeline.corrected_rates import corrected_or_note
    from agentv.reports.printable import one_line, printable_json
    from agentv.reports.report_json import corrected_to_json
    from agentv.storage.records.encode import to_record
    from agentv.storage.records.export import export_record
    from agentv.types.messages_json import pretty_json

    told: dict[str, JsonValue] = {"schema": SHOW_SCHEMA, "run": to_record(stored.run), "state": stored.state()}
    if query.case is None:
        told["counts"] = shown.counts(stored)
        rates, notes = corrected_or_note(stored)
        told["corrected"] = [corrected_to_json(rate) for rate in rates]
        for note in notes:
            click.echo(f"note: {one_line(note)}", err=True)
        told["rows"] = [export_record(row) for row in shown.rows]
    else:
        told["cases"] = [_case_json(stored, view) for view in _views(stored, shown, query)]
    if shown.page is not None:
        told["page"] = page_to_json(shown.page, query)
    click.echo(printable_json(pretty_json(told)))


def _case_json(stored: "StoredRun", view: "CaseView") -> "JsonObject":
    from msgspec.structs import replace

    from agentv.storage.records.encode import to_record
    from agentv.storage.records.export import export_record

    return {
        "case": None if view.case is None else to_record(view.case),
        "row": export_record(view.result),
        "answer": None if view.answer is None else to_record(replace(view.answer, run_id=stored.run_id)),
        "labels": [to_record(replace(label, run_id=stored.run_id)) for label in view.labels],
    }
