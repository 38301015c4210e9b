"""`agentv show`: show the results of a run."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.indexed import run_index
from agentv.cli.run_sources import READ_STORE_OPTION, ProjectRuns, StoreRuns, open_runs
from agentv.cli.screen import terminal_style, warn_of_edits
from agentv.reports.run.groups import group_tables
from agentv.scoring.counting.groups import count_groups
from agentv.storage.index.row_query import PAGE_SIZE, RowPage, RowQuery
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult
from agentv.types.summaries import GroupSummary

if TYPE_CHECKING:
    from agentv.reports.run.views import CaseView
    from agentv.types.json_value import JsonValue


FAILED_STATES = ("fail", "borderline", "error")


class ShownRows(Struct, frozen=True):
    """The selected results."""

    rows: Iterable[CaseResult]
    page: RowPage | None = None
    """Describes the page that the results are on; None if they are all results of the run."""

    def counts(self, stored: StoredRun) -> Mapping[str, int]:
        """Return the number of results in each state, over the whole run."""
        return stored.counts() if self.page is None else self.page.counts


def make_query(case: str | None, *, failed: bool, sort: str | None, page: int | None, **filters: Any) -> RowQuery:
    """Return the query for the options; without `--page` and `--page-size`, one page has all results.

    Raises ConfigError if `--failed` and `--state` are combined, if a metadata key gets two values, or if `--trial` is
    given without a case.
    """
    sort = sort or "written"
    trial = filters.pop("trial")
    if case is None and trial is not None:
        raise ConfigError("--trial selects one trial of a case; name the CASE")
    states, page_size, metadata = filters.pop("states"), filters.pop("page_size"), filters.pop("metadata")
    if failed and states:
        raise ConfigError("--failed and --state cannot be combined; omit one of them")
    is_paged = page is not None or page_size is not None
    return RowQuery(
        case=case,
        trial=None if trial is None else trial - 1,
        states=FAILED_STATES if failed else states,
        metadata=_wanted_metadata(metadata),
        sort=sort.removeprefix("-"),  # type: ignore[arg-type]  # click has validated the sort key
        is_descending=sort.startswith("-"),
        page=page or 1,
        page_size=(page_size or PAGE_SIZE) if is_paged else None,
        **filters,
    )


def _wanted_metadata(given: Sequence[str]) -> dict[str, str | None]:
    """Return the values of `KEY=VALUE` by key; the value of `KEY` alone is None, which matches any."""
    wanted: dict[str, str | None] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if equals and wanted.get(key, value) not in (None, value):
            raise ConfigError(f"--metadata {key} is given with two values, but a case has only one; omit one of them")
        wanted[key] = value if equals else wanted.get(key)
    return wanted


def find_rows(home: Path, stored: StoredRun, query: RowQuery, *, verbose: bool) -> ShownRows:
    """Return the results that a query selects: from the index, unless it selects all of them in stored order."""
    if query == RowQuery(page_size=None):
        return ShownRows(stored.results())
    page = _find_page(home, stored, query, verbose=verbose)
    return ShownRows(stored.results_at((row.line, row.offset, row.size) for row in page.rows), page)


def _find_page(home: Path, stored: StoredRun, query: RowQuery, *, verbose: bool) -> RowPage:
    with run_index(home, verbose=verbose) as index:
        page = index.page(stored, query)
    if page.skipped:
        # Reading all results prints the place of each line that cannot be read.
        deque(stored.results(), maxlen=0)
        click.echo(f"skipped {page.skipped:,} unreadable lines of run {stored.run_id}", err=True)
    return page


def page_to_json(page: RowPage, query: RowQuery) -> JsonObject:
    """Return a page for `--json`: its position, the unreadable lines, and the facets."""
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
            "prompts": page.facets.prompts,
        },
    }


def group_text(groups: Sequence[GroupSummary]) -> str:
    """Return groups as tables in the style of the terminal."""
    style = terminal_style()
    return group_tables(groups, width=style.width, signs=style.signs, paint=style.paint)


SHOW_SCHEMA = "agentv-show-1"

_MAX_SIDE_BY_SIDE = 20
"""The maximum number of cases that --side-by-side shows."""
_WIDTH_WITHOUT_TERMINAL = 80
"""The characters per line of --side-by-side if standard output is not a terminal."""

_STATES = ("pass", "borderline", "fail", "error", "skipped")
_SORTS = ("written", "id", "state", "score", "cost", "duration")


@click.command("show")
@click.argument("run", default="latest", metavar="[RUN]")
@click.argument("case", required=False, metavar="[CASE]")
@click.option("--failed", is_flag=True, help="Show only failed, borderline and errored results.")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Show only results in this state.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Show only results of this target.")
@click.option("--prompt", "prompts", multiple=True, metavar="ID", help="Show only results with this prompt.")
@click.option(
    "--suite", "suites", multiple=True, metavar="PATH", help="Show only results of this eval file (path or name)."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Show only results of cases with this tag.")
@click.option("--text", default="", metavar="TEXT", help="Show only results of cases whose id contains TEXT.")
@click.option("--metadata", multiple=True, metavar="KEY[=VALUE]", help="Show only results of cases with this metadata.")
@click.option(
    "--sort",
    type=click.Choice([f"{sign}{key}" for key in _SORTS for sign in ("", "-")]),
    metavar="KEY",
    help=f"Sort by KEY: {', '.join(_SORTS)} (order of completion). -KEY reverses. Default: failed cases first.",
)
@click.option("--trial", type=click.IntRange(min=1), metavar="N", help="Show only trial N of CASE.")
@click.option("--page", type=click.IntRange(min=1), metavar="N", help="Show only page N of the list.")
@click.option(
    "--page-size", type=click.IntRange(min=1), metavar="N", help="Show a page of N cases (default with --page: 50)."
)
@click.option(
    "--by",
    multiple=True,
    metavar="KEY",
    help="Instead of single results, show pass rates and means for each value of KEY.",
)
@READ_STORE_OPTION
@click.option("--side-by-side", is_flag=True, help="Put the answers of a case next to each other.")
@click.option("--json", "as_json", is_flag=True, help="Print the stored data as one JSON object.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also list what passed; show long diffs and outputs in full; warn if .agentv/index.db cannot be used.",
)
def command(
    run: str,
    case: str | None,
    *,
    by: tuple[str, ...],
    store: str | None,
    side_by_side: bool,
    as_json: bool,
    verbose: bool,
    **given: Any,
) -> int:
    """Show the cases of a run, or all details of those named by CASE (an id, or a pattern such as 'refund-*').

    Each case of the list has its question, and below it a line for each prompt and target that did not pass: how many
    trials passed, the worst score, and why. --json has one row for each result, and pages of results, in the order of
    completion.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.

    Repeat --state, --target, --prompt, --suite or --tag to select results that match any of the values.

    --by accepts tag, dataset, criterion, evaluator, target, prompt, suite (the eval file), week, or a metadata key of
    the cases. With several targets or prompts, each group is a table with one line per target and prompt.

    With --side-by-side, filters such as --failed or --tag select cases, and all answers to these cases are shown.
    Only --target and --prompt also limit which of the answers are shown.
    """
    query = make_query(case, **given)
    if by and query.page_size is not None:
        raise ConfigError("--by counts all selected results and cannot be combined with --page or --page-size")
    if side_by_side and (by or as_json or query.page_size is not None or query.trial is not None):
        raise ConfigError("--side-by-side cannot be combined with --by, --json, --trial, --page or --page-size")
    with open_runs(store) as runs:
        options = ShowOptions(
            case,
            query,
            by,
            is_sorted=given["sort"] is not None,
            is_side_by_side=side_by_side,
            as_json=as_json,
            verbose=verbose,
        )
        _show(runs, run, options)
    return 0


class ShowOptions(Struct, frozen=True):
    """What `agentv show` shows of a run, and how."""

    case: str | None
    query: RowQuery
    by: tuple[str, ...]
    is_sorted: bool
    """True if the order of the results is given."""
    is_side_by_side: bool
    as_json: bool
    verbose: bool


def _show(runs: ProjectRuns | StoreRuns, reference: str, options: ShowOptions) -> None:
    from agentv.reports.run.views import fold_trials
    from agentv.storage.run.find import find_suites
    from agentv.storage.run.stored import open_run
    from agentv.storage.run.stored_check import RESULTS_ONLY, check_stored_run

    stored, query = open_run(runs.find(reference)), options.query
    if query.suites and stored.suites:
        query = replace(query, suites=find_suites(query.suites, stored.suites))
    _refuse_unknown_names(stored, query, partial(_find_page, runs.home, stored, verbose=options.verbose))
    is_list = options.case is None and not options.is_side_by_side
    edits = check_stored_run(stored, RESULTS_ONLY if is_list else None).edits
    warn_of_edits(stored.run_id, edits)
    if is_list and not options.as_json and not options.by:
        _print_list(stored, replace(options, query=query), runs)
        return
    shown = find_rows(runs.home, stored, query, verbose=options.verbose)
    if options.by:
        _print_groups(stored, shown, options.by, edits=edits, as_json=options.as_json)
    elif options.is_side_by_side:
        _print_side_by_side(stored, shown, query)
    elif options.as_json:
        _print_json(stored, shown, query, edits)
    else:
        style = terminal_style()
        for number, view in enumerate(fold_trials(_views(stored, shown, query))):
            click.echo(("\n" if number else "") + style.case_view(view, is_full=options.verbose).render(), nl=False)


def _refuse_unknown_names(stored: StoredRun, query: RowQuery, find_page: Callable[[RowQuery], RowPage]) -> None:
    """Raise UnknownNameError for a target, prompt or tag that the run does not have, beside others that it has."""
    from agentv.engine.stored.report import plan_order
    from agentv.types.errors import UnknownNameError

    if max(map(len, (query.targets, query.prompts, query.tags))) < 2:  # noqa: PLR2004 - one name selects or does not
        return
    facets, order = find_page(RowQuery(page_size=1)).facets, plan_order(stored)
    for what, names, known in (
        ("target", query.targets, {*facets.targets, *order.targets}),
        ("prompt", query.prompts, {*facets.prompts, *order.prompts}),
        ("tag", query.tags, set(facets.tags)),
    ):
        unknown = [name for name in names if name not in known]
        if unknown and known.intersection(names):
            raise UnknownNameError(what, unknown[0], known=known)


def _print_groups(
    stored: StoredRun, shown: ShownRows, by: Sequence[str], *, edits: Sequence[str], as_json: bool
) -> None:
    from agentv.reports.run.report_json import group_to_json
    from agentv.reports.text.printable import printable_json
    from agentv.types.messages_json import pretty_json

    groups = count_groups(shown.rows, by)
    if not as_json:
        click.echo(group_text(groups), nl=False)
        return
    output: dict[str, JsonValue] = {
        "schema": SHOW_SCHEMA,
        "run_id": stored.run_id,
        "edits": list(edits),
        "groups": [group_to_json(group) for group in groups],
    }
    click.echo(printable_json(pretty_json(output)))


def _print_side_by_side(stored: StoredRun, shown: ShownRows, query: RowQuery) -> None:
    """Print up to 20 selected cases, each with its results of the selected prompts and targets."""
    from agentv.engine.stored.report import plan_order
    from agentv.engine.stored.report_tools import read_details
    from agentv.reports.run.side_by_side import CaseAnswers, SideBySide, cases_of
    from agentv.reports.text.amounts import count_text

    selected = dict.fromkeys((row.slot.suite, row.eval_id) for row in shown.rows)
    if not selected and query.case is not None:
        _refuse_case(stored, query)
    if not selected:
        raise ConfigError(f"run {stored.run_id} has no result that matches these options")
    shown_cases = set(list(selected)[:_MAX_SIDE_BY_SIDE])

    def is_shown(row: CaseResult) -> bool:
        has_target = not query.targets or row.slot.target in query.targets
        has_prompt = not query.prompts or row.prompt in query.prompts
        return (row.slot.suite, row.eval_id) in shown_cases and has_target and has_prompt

    rows_by_case = cases_of(filter(is_shown, stored.results()))
    style = terminal_style()
    view = SideBySide(style.width or _WIDTH_WITHOUT_TERMINAL, style.signs, style.paint)
    order = plan_order(stored)
    for number, case in enumerate(case for case in selected if case in rows_by_case):
        answers = CaseAnswers.of(read_details(stored, rows_by_case[case]), order)
        click.echo(("\n" if number else "") + view.render(answers), nl=False)
    left_out = len(selected) - len(shown_cases)
    if left_out:
        click.echo(f"\nand {count_text(left_out, 'more case')}; name a CASE, or select with --failed or --tag")


def _print_list(stored: StoredRun, options: ShowOptions, runs: ProjectRuns | StoreRuns) -> None:
    """Print the selected cases."""
    from agentv.cli.results.show_cases import find_cases, page_text, print_cases
    from agentv.engine.stored.report import plan_order
    from agentv.reports.text.amounts import count_text

    query, find_page = options.query, partial(_find_page, runs.home, stored, verbose=options.verbose)
    page = find_cases(query, find_page, plan_order(stored), is_sorted=options.is_sorted)
    view = terminal_style().run_view()
    click.echo(view.head(stored.run, state=stored.state(), counts=page.counts, targets=page.targets))
    if not page.total and page.counts:
        click.echo("No result matches these options.")
        return
    suites = stored.run.plan.get("suites")
    with_suite = isinstance(suites, Sequence) and len(suites) > 1
    print_cases(stored, page, with_suite=with_suite, is_full=options.verbose)
    _print_corrected_rates(stored)
    reruns = len({row.slot for row in stored.reruns()})
    if reruns:
        click.echo(f"\nre-run: {count_text(reruns, 'result')}; first answers count, and each case shows its re-runs")
    if query.page_size is not None:
        click.echo(f"\n{page_text(page, query)}")
    trial = " [--trial N]" if page.has_trials else ""
    click.echo(f"\nDetails of a case: agentv show {stored.run_id} CASE{trial}{runs.option}")


def _print_corrected_rates(stored: StoredRun) -> None:
    from agentv.engine.labels.corrected_rates import corrected_or_note
    from agentv.reports.run.figures import corrected_lines
    from agentv.reports.text.printable import one_line

    style, (rates, notes) = terminal_style(), corrected_or_note(stored)
    note_lines = [f"note: {one_line(note)}" for note in notes]
    lines = [*corrected_lines(rates, style.width, style.paint, style.signs), *note_lines]
    if lines:
        click.echo(style.signs.escape_unsupported("\n".join(["", *lines])))


def _views(stored: StoredRun, shown: ShownRows, query: RowQuery) -> "list[CaseView]":
    """Return the selected results with their details by case, prompt, target and trial, each with its re-runs."""
    from agentv.engine.stored.report import plan_order
    from agentv.engine.stored.report_tools import read_details
    from agentv.reports.run.views import CaseView, views_in_order

    rows = list(shown.rows)
    if not rows:
        _refuse_case(stored, query)
    slots = {row.slot for row in rows}
    rows += [row for row in stored.reruns() if row.slot in slots]
    views = [CaseView(each.result, each.case, each.answer, each.labels) for each in read_details(stored, rows)]
    return list(views_in_order(views, plan_order(stored))) if query.sort == "written" else views


def _refuse_case(stored: StoredRun, query: RowQuery) -> NoReturn:
    """Raise ConfigError that says why a query that names a case selects no result."""
    from agentv.types.errors import nearest
    from agentv.types.records.answer import source_of

    case = query.case or ""
    known, case_at_place, trials, cases_of_trace = set[str](), None, set[int](), dict[str, None]()
    for row in stored.results():
        known.add(row.eval_id)
        if row.eval_id == case:
            trials.add(row.slot.trial)
        if source_of(row.file, row.line, row.part) == case:
            case_at_place = row.eval_id
        if row.origin is not None and case and case in (row.origin.trace_id, row.origin.span_id):
            cases_of_trace[row.eval_id] = None
    if case in known and query.states == FAILED_STATES:
        raise ConfigError(
            f"no selected result of case {case!r} of run {stored.run_id} failed; omit --failed to show the others"
        )
    if query.trial is not None and trials and query.trial not in trials:
        wanted, last = query.trial + 1, max(trials) + 1
        raise ConfigError(f"case {case!r} of run {stored.run_id} has no trial {wanted}; its last is {last}")
    if case in known:
        raise ConfigError(f"case {case!r} of run {stored.run_id} has no result that matches the other options")
    near = nearest(case, known)
    hint = f" Did you mean {near!r}?" if near else f" `agentv show {stored.run_id}` lists its cases."
    if case_at_place is not None:
        hint = f" That line is the case {case_at_place!r}."
    if cases_of_trace:
        hint = f" From that trace or span: {', '.join(map(repr, cases_of_trace))}."
    raise ConfigError(f"run {stored.run_id} has no case {case!r}.{hint}")


def _print_json(stored: StoredRun, shown: ShownRows, query: RowQuery, edits: Sequence[str]) -> None:
    from agentv.engine.labels.corrected_rates import corrected_or_note
    from agentv.reports.run.report_json import corrected_to_json
    from agentv.reports.text.printable import one_line, printable_json
    from agentv.storage.records.encode import export_record, to_record
    from agentv.types.messages_json import pretty_json

    output: dict[str, JsonValue] = {"schema": SHOW_SCHEMA, "run": to_record(stored.run), "state": stored.state()}
    output["edits"] = list(edits)
    if query.case is None:
        output["counts"] = shown.counts(stored)
        rates, notes = corrected_or_note(stored)
        output["corrected"] = [corrected_to_json(rate) for rate in rates]
        for note in notes:
            click.echo(f"note: {one_line(note)}", err=True)
        output["rows"] = [export_record(row) for row in shown.rows]
    else:
        output["cases"] = [_case_json(stored, view) for view in _views(stored, shown, query)]
    if shown.page is not None:
        output["page"] = page_to_json(shown.page, query)
    click.echo(printable_json(pretty_json(output)))


def _case_json(stored: StoredRun, view: "CaseView") -> JsonObject:
    from agentv.storage.records.encode import export_record, to_record

    return {
        "case": None if view.case is None else to_record(view.case),
        "row": export_record(view.result),
        "answer": None if view.answer is None else to_record(replace(view.answer, run_id=stored.run_id)),
        "labels": [to_record(replace(label, run_id=stored.run_id)) for label in view.labels],
    }
