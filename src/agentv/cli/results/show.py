"""`agentv show`: look into a stored run."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from agentv.cli.indexed import run_index
from agentv.cli.screen import terminal_style
from agentv.reports.run.end_table import group_tables
from agentv.scoring.counting.case_sums import case_of
from agentv.scoring.counting.groups import KINDS, Groups, kind_named
from agentv.scoring.counting.row_kinds import kind_of
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.row_query import PAGE_SIZE, RowPage, RowQuery
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult
from agentv.types.summaries import GroupSummary

if TYPE_CHECKING:
    from agentv.reports.run.case_view import CaseView
    from agentv.types.json_value import JsonValue


FAILED_STATES = ("fail", "borderline", "error")


class ShownRows(Struct, frozen=True):
    """The rows that are asked for; `page` says what they are a part of, None when they are all of the run's."""

    rows: Iterable[CaseResult]
    page: RowPage | None = None

    def counts(self, stored: StoredRun) -> Mapping[str, int]:
        """Return how many rows of the whole run are in each state."""
        return stored.counts() if self.page is None else self.page.counts


def make_query(case: str | None, *, failed: bool, sort: str, page: int | None, **filters: Any) -> RowQuery:
    """Return what the options ask for; without `--page` one page of all. Raises ConfigError when they contradict."""
    states, page_size, metadata = filters.pop("states"), filters.pop("page_size"), filters.pop("metadata")
    if failed and states:
        raise ConfigError("--failed and --state both choose by state; give one of them")
    if page is None and page_size is not None:
        page = 1
    return RowQuery(
        case=case,
        states=FAILED_STATES if failed else states,
        metadata=dict(map(_key_and_value, metadata)),
        sort=sort.removeprefix("-"),  # type: ignore[arg-type]  # click has refused what is no sort key
        is_descending=sort.startswith("-"),
        page=page or 1,
        page_size=None if page is None else page_size or PAGE_SIZE,
        **filters,
    )


def _key_and_value(asked: str) -> tuple[str, str | None]:
    key, equals, value = asked.partition("=")
    return key, value if equals else None


def find_rows(home: Path, stored: StoredRun, query: RowQuery, *, verbose: bool) -> ShownRows:
    """Return the rows that a query asks for: from the index, unless it asks for all of them as they stand."""
    if query == RowQuery(page_size=None):
        return ShownRows(stored.results())
    with run_index(home, verbose=verbose) as index:
        page = index.page(stored, query)
    if page.skipped:
        # Whoever reads a run is told of the line that cannot be read.
        deque(stored.results(), maxlen=0)
        click.echo(f"lines of run {stored.run_id} that are left out: {page.skipped:,}", err=True)
    return ShownRows(stored.results_at((row.line, row.offset, row.size) for row in page.rows), page)


def page_text(page: RowPage, query: RowQuery) -> str:
    """Return `rows 51 to 100 of 1,234; page 2 of 25`."""
    size = query.page_size or max(1, page.total)
    first = (query.page - 1) * size
    pages = max(1, -(-page.total // size))
    part = f"rows {first + 1:,} to {first + len(page.rows):,}" if page.rows else "no rows"
    return f"{part} of {page.total:,}; page {query.page:,} of {pages:,}"


def page_to_json(page: RowPage, query: RowQuery) -> JsonObject:
    """Return what `--json` says of a page: its place, and the counts to narrow it by."""
    return {
        "number": query.page,
        "size": query.page_size,
        "total": page.total,
        "skipped_lines": page.skipped,
        "facets": {
            "states": page.facets.states,
            "targets": page.facets.targets,
            "tags": page.facets.tags,
            "suites": page.facets.suites,
        },
    }


def count_groups(rows: Iterable[CaseResult], words: Sequence[str]) -> tuple[GroupSummary, ...]:
    """Return the groups of rows by each of the words. Raises ConfigError for a word by which there is no group."""
    kinds = tuple(dict.fromkeys(map(kind_named, words)))
    groups = Groups(kinds)
    for row in rows:
        groups.add(kind_of(row, row_state(row)), case=case_of(row.slot), metadata=row.metadata)
    found = groups.summaries()
    missing = [kind for kind in kinds if kind not in {group.by for group in found}]
    if missing:
        known = ", ".join(KINDS)
        raise ConfigError(
            f"no row has {missing[0]!r} to group by; name one of {known}, or a key of the cases' metadata"
        )
    return found


def group_text(groups: Sequence[GroupSummary]) -> str:
    """Return groups as tables in the style of this terminal."""
    style = terminal_style()
    return group_tables(groups, width=style.width, signs=style.signs, paint=style.paint)


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

    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import find_run
    from agentv.storage.run.stored import open_run
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
        from agentv.cli.screen import terminal_style

        style = terminal_style()
        views = _views(stored, shown, query)
        for number, view in enumerate(views):
            click.echo(("\n" if number else "") + style.of_case(view).render(), nl=False)
    return 0


def _print_groups(stored: "StoredRun", shown: "ShownRows", by: Sequence[str], *, as_json: bool) -> None:
    from agentv.reports.run.report_json import group_to_json
    from agentv.reports.text.printable import printable_json
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
    from agentv.cli.screen import terminal_style
    from agentv.reports.run.row_text import RowLabels

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
    from agentv.cli.screen import terminal_style
    from agentv.engine.stored.corrected_rates import corrected_or_note
    from agentv.reports.run.notes import corrected_notes, corrected_rows
    from agentv.reports.text.printable import one_line
    from agentv.reports.text.table import table

    style, (rates, notes) = terminal_style(), corrected_or_note(stored)
    told = [f"note: {one_line(note)}" for note in notes]
    lines = [*table(corrected_rows(rates), style.width, style.paint), *corrected_notes(rates), *told]
    if lines:
        click.echo(style.signs.within("\n".join(["", *lines])))


def _views(stored: "StoredRun", shown: "ShownRows", query: "RowQuery") -> "list[CaseView]":
    from agentv.cli.results.report_tools import read_details
    from agentv.reports.run.case_view import CaseView

    rows = list(shown.rows)
    if not rows:
        _refuse_unknown(stored, query)
    return [CaseView(each.result, each.case, each.answer, each.labels) for each in read_details(stored, rows)]


def _refuse_unknown(stored: "StoredRun", query: "RowQuery") -> None:
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
    from agentv.engine.stored.corrected_rates import corrected_or_note
    from agentv.reports.run.report_json import corrected_to_json
    from agentv.reports.text.printable import one_line, printable_json
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
