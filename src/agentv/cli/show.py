"""`agentv show`: look into a stored run."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentv.reports import CaseView
    from agentv.storage import StoredRun
    from agentv.types.json_value import JsonObject, JsonValue
    from agentv.types.results import CaseResult

SHOW_SCHEMA = "agentv-show-1"


@click.command("show")
@click.argument("run", default="latest", metavar="[RUN]")
@click.argument("case", required=False, metavar="[CASE]")
@click.option("--failed", is_flag=True, help="Only rows that did not pass.")
@click.option("--json", "as_json", is_flag=True, help="Print what is stored, as one JSON object.")
def command(run: str, case: str | None, *, failed: bool, as_json: bool) -> int:
    """Look into a stored run: its rows, or everything about one CASE (an id, or a pattern like 'refund-*').

    RUN is an id or the start of one, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from pathlib import Path

    from agentv.loading import find_home
    from agentv.storage import find_run, open_run

    stored = open_run(find_run(find_home(Path.cwd()), run))
    if as_json:
        _print_json(stored, case, failed=failed)
    elif case is None:
        _print_rows(stored, failed=failed)
    else:
        from agentv.cli.terminal import terminal_style

        style = terminal_style()
        views = _views(stored, case, failed=failed)
        for number, view in enumerate(views):
            click.echo(("\n" if number else "") + style.of_case(view).render(), nl=False)
    return 0


def _print_rows(stored: "StoredRun", *, failed: bool) -> None:
    from agentv.cli.terminal import terminal_style
    from agentv.reports.row_text import RowLabels

    view = terminal_style().of_run()
    click.echo(view.head(stored.run, state=stored.state(), counts=stored.counts()))
    suites = stored.run.plan.get("suites")
    labels = RowLabels(with_suite=isinstance(suites, Sequence) and len(suites) > 1)
    for line in view.rows(_rows(stored, None, failed=failed), labels):
        click.echo(line)
    click.echo(f"\nlook closer: agentv show {stored.run_id} CASE")


def _rows(stored: "StoredRun", case: str | None, *, failed: bool) -> "Iterator[CaseResult]":
    """Yield the rows that are asked for; a case is meant by its id, else by a pattern."""
    from fnmatch import fnmatchcase

    from agentv.scoring.summary import row_state

    for row in stored.results():
        if case is not None and row.eval_id != case and not fnmatchcase(row.eval_id, case):
            continue
        if not failed or row_state(row) not in ("pass", "skipped"):
            yield row


def _views(stored: "StoredRun", case: str, *, failed: bool) -> "list[CaseView]":
    from agentv.reports import CaseView

    rows = list(_rows(stored, case, failed=failed))
    if not rows:
        _refuse_unknown(stored, case, failed=failed)
    answers = stored.answers_at({row.answer_seq for row in rows if row.answer_seq is not None})
    wanted = {(row.slot.suite, row.eval_id) for row in rows}
    cases = {key: each for each in stored.cases() if (key := (each.suite, each.eval_id)) in wanted}
    labels = [label for label in stored.labels() if (label.slot.suite, label.slot.eval_id) in wanted]
    return [
        CaseView(
            row,
            cases.get((row.slot.suite, row.eval_id)),
            answers.get(-1 if row.answer_seq is None else row.answer_seq),
            [label for label in labels if (label.slot, label.answer_seq) == (row.slot, row.answer_seq)],
        )
        for row in rows
    ]


def _refuse_unknown(stored: "StoredRun", case: str, *, failed: bool) -> None:
    from agentv.types.errors import ConfigError, nearest

    known = {row.eval_id for row in stored.results()}
    if case in known and failed:
        raise ConfigError(f"case {case!r} of run {stored.run_id} did not fail; leave out --failed to see it")
    near = nearest(case, known)
    hint = f" Did you mean {near!r}?" if near else f" `agentv show {stored.run_id}` lists its cases."
    raise ConfigError(f"run {stored.run_id} has no row of a case {case!r}.{hint}")


def _print_json(stored: "StoredRun", case: str | None, *, failed: bool) -> None:
    from agentv.reports import printable_json
    from agentv.storage import export_record
    from agentv.storage.records import run_to_record
    from agentv.types.messages_json import pretty_json

    shown: dict[str, JsonValue] = {"schema": SHOW_SCHEMA, "run": run_to_record(stored.run), "state": stored.state()}
    if case is None:
        shown["counts"] = stored.counts()
        shown["rows"] = [export_record(row) for row in _rows(stored, None, failed=failed)]
    else:
        shown["cases"] = [_case_json(stored, view) for view in _views(stored, case, failed=failed)]
    click.echo(printable_json(pretty_json(shown)))


def _case_json(stored: "StoredRun", view: "CaseView") -> "JsonObject":
    from agentv.storage import export_record
    from agentv.storage.labels import label_to_record
    from agentv.storage.records import answer_to_record, case_to_record

    return {
        "case": None if view.case is None else case_to_record(view.case),
        "row": export_record(view.result),
        "answer": None if view.answer is None else answer_to_record(view.answer, run_id=stored.run_id),
        "labels": [label_to_record(label, run_id=stored.run_id) for label in view.labels],
    }
