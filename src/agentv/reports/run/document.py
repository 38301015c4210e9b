"""A run as a document: the verdict, the cases that made a gate fail, then the numbers."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from agentv.reports.document.blocks import (
    Block,
    Cell,
    Details,
    Document,
    Facts,
    Histogram,
    Item,
    Items,
    Lines,
    Phrase,
    Quote,
    Section,
    Sentence,
    Table,
    Tone,
    Value,
    Verdict,
    joined,
    plain,
)
from agentv.reports.run.charts import run_charts
from agentv.reports.run.failed_cases import case_blocks, gate_outcomes
from agentv.reports.run.figures import (
    BASELINE_HEADS,
    CORRECTED_HEADS,
    Figure,
    baseline_cells,
    corrected_cells,
    corrected_notes,
    corrected_sentences,
    estimated_note,
    evaluator_figures,
    has_histogram,
    has_tables,
    shown_k,
    target_figures,
    target_lines,
)
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.groups import group_table_rows
from agentv.reports.run.matrix import best_text, grid_of, has_prompts, judged_text, mean_cell, rate_cell
from agentv.reports.run.row_text import RowLabels
from agentv.reports.run.views import counts_text
from agentv.reports.text.amounts import count_text, took_text
from agentv.types.events import RunEnded, RunEvent
from agentv.types.json_value import JsonObject
from agentv.types.records.run import RunRecord
from agentv.types.results import CaseOutcome, RowState, RunReport
from agentv.types.summaries import CellSummary, GroupSummary, MatrixSummary, TargetSummary

_TONES: Mapping[int, Tone] = {0: "good", 1: "bad"}
_MARKS: Mapping[int, RowState] = {0: "pass", 1: "fail"}
_MAX_TARGET_COLUMNS = 4
_MAX_ITEMS = 20
_MAX_TITLE_SUITES = 3
_MAX_EVALUATORS = 100
_MAX_GROUP_ROWS = 100
_MAX_UNFOLDED_EVALUATORS = 6


def run_document(report: RunReport, record: RunRecord | None, *, is_short: bool) -> Document:
    """Return the document.

    A short one fits a pull request comment and a screen: below the cases it has a line for each target and what the
    baseline says; all else is collapsed. It counts what its tables and lists leave out.
    """
    limits, facts = _Limits(is_short=is_short), Facts(tuple(_facts(report, record)))
    blocks = (
        *(() if is_short else (facts,)),
        *_cases(report, limits),
        *(_short_numbers(report, limits) if is_short else _numbers(report, limits)),
        *_remarks("flaky case", report.flaky, limits, _command(report)),
        *_remarks("note", report.notes, limits, _command(report)),
        *((Details(("run ", Quote(report.run_id)), (facts,), _command(report)),) if is_short else ()),
        *gate_outcomes(report),
        Verdict((Sentence(verdict_phrase(report), _TONES.get(report.exit_code, "unsure")),)),
    )
    return Document("" if record is None else _title(record), blocks, mark=_MARKS.get(report.exit_code, "error"))


def _command(report: RunReport) -> str:
    """Return the command that prints what is collapsed."""
    return f"agentv report {report.run_id}"


def _short_numbers(report: RunReport, limits: "_Limits") -> Iterator[Block]:
    """Yield a line for each target and the comparison with the baseline; the tables are collapsed."""
    lines = target_lines(report).lines
    yield Lines((*lines[limits.first(_MAX_ITEMS)], *limits.more(_MAX_ITEMS, (len(lines), "target"))))
    yield from _baseline(report)
    tables = (
        *(_tables(report, limits) if has_tables(report) else ()),
        *_corrected(report, limits),
        *_groups(report, limits),
    )
    if tables:
        titles = dict.fromkeys(plain(each.title).lower() for each in tables if isinstance(each, Section))
        yield Details(f"numbers: {', '.join(titles)}", tables, _command(report))


def _numbers(report: RunReport, limits: "_Limits") -> Iterator[Block]:
    yield from _tables(report, limits)
    yield from _corrected(report, limits)
    yield from _baseline(report)
    yield from _groups(report, limits)


def _title(record: RunRecord) -> Phrase:
    """Return the name of the run, if it has one, and its first suites."""
    left_out = len(record.suites) - _MAX_TITLE_SUITES
    suites = joined(tuple(map(Quote, record.suites[:_MAX_TITLE_SUITES])), ", ")
    more = (f" and {left_out:,} more",) if left_out > 0 else ()
    name = (Quote(record.name),) if record.name else ()
    return joined(tuple(filter(None, (name, (*suites, *more)))), " · ")


def _tables(report: RunReport, limits: "_Limits") -> Iterator[Block]:
    """Yield the tables of targets, the matrix, the histogram and the table of evaluators."""
    yield from _targets(report.targets, limits)
    yield from _matrix(report.matrix, limits)
    histogram = (Histogram(report.histogram),) if has_histogram(report) else ()
    if limits.is_short:
        yield from [Section("Scores", histogram)] if histogram else []
    elif charts := (*histogram, *run_charts(report)):
        yield Section("Scores, cost and latency", charts)
    yield from _evaluators(report, limits)


def document_format(render: Callable[[Sequence[Document]], str], tools: ReportTools) -> Format:
    """Return the format that writes the short document of a run at its end."""

    def text_of(event: RunEvent) -> str:
        if not isinstance(event, RunEnded):
            return ""
        return render([run_document(event.report, tools.record(event.report), is_short=True)])

    return Format(text_of, empty=None)


class _Limits:
    """How much of a long list is shown: all, or in a short document the first of its items."""

    def __init__(self, *, is_short: bool) -> None:
        self.is_short = is_short

    def first(self, limit: int) -> slice:
        """Return the shown part of a list."""
        return slice(limit if self.is_short else None)

    def more(self, limit: int, *totals: tuple[int, str]) -> tuple[str, ...]:
        """Return what is left out of lists, given as their lengths with their nouns, as no or one sentence."""
        left_out = [(total - limit, noun) for total, noun in totals if self.is_short and total > limit]
        texts = [count_text(count, f"more {noun}") for count, noun in left_out]
        return (f"and {', '.join(texts)}",) if texts else ()


def verdict_phrase(report: RunReport) -> Phrase:
    """Return the verdict with the exit code, which a run that is going on does not have yet."""
    code = "" if report.state == "running" else f" Exit code {report.exit_code}."
    return (Quote(report.verdict.sentence), code)


def _facts(report: RunReport, record: RunRecord | None) -> Iterator[tuple[str, Phrase]]:
    rows = sum(report.counts.values())
    planned = f" of {report.planned:,} planned" if report.planned is not None and report.planned != rows else ""
    states = counts_text(report.counts).partition(": ")[2]
    yield "run", Quote(report.run_id)
    yield "results", f"{rows:,}{planned}" + (f" ({states})" if states else "")
    if report.state != "running":  # its time is not recorded yet
        yield "took", took_text(report.duration_s)
    yield "state", report.state
    if record is None:
        return
    yield "started", f"{record.created_at:%Y-%m-%d %H:%M} UTC"
    if commit := _commit(record.git):
        yield "commit", Quote(commit)
    yield "agentv", record.agentv_version
    if tags := ", ".join(record.tags):
        yield "tags", Quote(tags)


def _commit(git: JsonObject | None) -> str:
    commit = str((git or {}).get("commit") or "")[:12]
    return f"{commit} with changes" if commit and (git or {}).get("dirty") else commit


def _cases(report: RunReport, limits: "_Limits") -> Iterator[Block]:
    """Yield the cases that did not pass."""
    suites = {case.result.slot.suite for case in _named_cases(report)}
    labels = RowLabels(with_suite=len(suites) > 1, with_target=len(report.targets) > 1, with_place=True)
    is_short = limits.is_short and report.exit_code == 0
    yield from case_blocks(report, labels, is_short=is_short, is_whole=not limits.is_short)


def _named_cases(report: RunReport) -> Iterator[CaseOutcome]:
    yield from report.cases
    for gate in report.verdict.gates_with_cases:
        yield from gate.cases


def _targets(targets: Sequence[TargetSummary], limits: _Limits) -> Iterator[Block]:
    """Yield the table of targets: a column for each of few targets, a row for each of many."""
    if not targets:
        return
    shown, k = targets[limits.first(_MAX_ITEMS)], shown_k(targets)
    figures = [list(target_figures(each, k)) for each in shown]
    names = dict.fromkeys(figure.name for each in figures for figure in each if figure.value != "-")
    values = [{figure.name: _value(figure) for figure in each} for each in figures]
    columns = [[each.get(name, "-") for name in names] for each in values]
    titles = [Quote(each.target) for each in shown]
    if len(targets) > _MAX_TARGET_COLUMNS:
        rows = tuple((title, *cells) for title, cells in zip(titles, columns, strict=True))
        table = Table(("target", *names), rows)
    else:
        table = Table(("metric", *titles), tuple(zip(names, *columns, strict=True)))
    notes = (*limits.more(_MAX_ITEMS, (len(targets), "target")), estimated_note(targets))
    yield Section("Targets", (table, Lines(tuple(filter(None, notes)))))


def _value(figure: Figure) -> Value:
    return Value(figure.value, figure.interval, share=figure.share)


def _matrix(matrix: MatrixSummary | None, limits: _Limits) -> Iterator[Block]:
    """Yield the matrix of prompts and targets with the best cell; without prompts only the best target."""
    if matrix is None:
        return
    best = Lines((Quote(best_text(matrix)),) if matrix.best is not None else ())
    if not has_prompts(matrix):
        if best.lines:
            yield Section("Best target", (best,))
        return
    grid, shown = grid_of(matrix), limits.first(_MAX_ITEMS)
    rows: list[tuple[Cell, ...]] = [
        (Quote(name), *(_cell(matrix, each) for each in cells[shown]))
        for name, cells in zip(grid.rows[shown], grid.cells[shown], strict=True)
    ]
    table = Table((grid.corner, *map(Quote, grid.columns[shown])), tuple(rows))
    more = limits.more(_MAX_ITEMS, (len(grid.rows), "prompt"), (len(grid.columns), "target"))
    yield Section("Prompts and targets", (table, Lines(more), best))


def _cell(matrix: MatrixSummary, cell: CellSummary | None) -> Cell:
    if cell is None:
        return "-"
    (rate, rate_bounds), (mean, mean_bounds) = rate_cell(cell), mean_cell(cell)
    details = (rate_bounds, f"mean {mean} ({mean_bounds})", judged_text(cell))
    return Value(rate, details=details, share=cell.pass_rate, is_best=matrix.is_best(cell))


def _corrected(report: RunReport, limits: _Limits) -> Iterator[Block]:
    """Yield the judges' pass rates, corrected for their measured errors."""
    if report.corrected:
        cells = map(corrected_cells, report.corrected[limits.first(_MAX_EVALUATORS)])
        rows: list[tuple[Cell, ...]] = [(Quote(judge), *others) for judge, *others in cells]
        sentences = map(Quote, corrected_sentences(report.corrected)[limits.first(_MAX_EVALUATORS)])
        notes = map(Quote, corrected_notes(report.corrected)[limits.first(_MAX_ITEMS)])
        more = limits.more(_MAX_EVALUATORS, (len(report.corrected), "rate"))
        blocks = (Lines(tuple(sentences)), Table(CORRECTED_HEADS, tuple(rows)), Lines((*more, *notes)))
        yield Section("Corrected for judge errors", blocks)


def _baseline(report: RunReport) -> Iterator[Block]:
    """Yield the comparison with the baseline: the finding, then the differences."""
    summary = report.baseline
    if summary is None:
        return
    cells = baseline_cells(summary)
    finding = ("compared with ", Quote(summary.baseline), ": ", Quote(summary.finding))
    numbers = Table(BASELINE_HEADS, (cells,)) if cells else Lines(("No case was scored in both.",))
    yield Section("Baseline", (Lines((finding,)), numbers))


def _evaluators(report: RunReport, limits: _Limits) -> Iterator[Block]:
    """Yield the table of evaluators, collapsed if it is long and the document is short."""
    if not report.evaluators:
        return
    shown = report.evaluators[limits.first(_MAX_EVALUATORS)]
    figures = [list(evaluator_figures(each, report.baseline)) for each in shown]
    rows: list[tuple[Cell, ...]] = [
        (Quote(each.name), Quote(each.type), *map(_value, numbers))
        for each, numbers in zip(shown, figures, strict=True)
    ]
    table = Table(("evaluator", "type", *(figure.name for figure in figures[0])), tuple(rows))
    more = Lines(limits.more(_MAX_EVALUATORS, (len(report.evaluators), "evaluator")))
    if limits.is_short and len(report.evaluators) > _MAX_UNFOLDED_EVALUATORS:
        noun = count_text(len(report.evaluators), "evaluator")
        yield Details(noun, (table, more), _command(report))
    else:
        yield Section("Evaluators", (table, more))


def _groups(report: RunReport, limits: _Limits) -> Iterator[Block]:
    """Yield the tables of groups, each group with all its targets and prompts."""
    groups: dict[tuple[str, str], list[GroupSummary]] = {}
    for group in report.shown_groups:
        groups.setdefault((group.by, group.name), []).append(group)
    rows_so_far = accumulate(map(len, groups.values()))
    shown = [
        members
        for members, rows in zip(groups.values(), rows_so_far, strict=True)
        if rows <= _MAX_GROUP_ROWS or not limits.is_short
    ]
    tables = group_table_rows([each for members in shown for each in members])
    blocks: list[Block] = [Table(_named(head), tuple(map(_named, rows))) for head, *rows in tables]
    if left_out := len(groups) - len(shown):
        kinds = dict.fromkeys(kind for kind, _ in list(groups)[len(shown) :])
        command = " ".join(("agentv show", report.run_id, *(f"--by {shlex.quote(kind)}" for kind in kinds)))
        blocks.append(Lines(((f"and {count_text(left_out, 'more group')}: ", Quote(command)),)))
    if blocks:
        yield Section("Groups", tuple(blocks))


def _named(cells: Sequence[str]) -> tuple[Cell, ...]:
    return (Quote(cells[0]), *cells[1:])


def _remarks(noun: str, texts: Sequence[str], limits: _Limits, command: str) -> Iterator[Block]:
    """Yield a list of texts under its title; in a short document collapsed."""
    if not texts:
        return
    shown = texts[limits.first(_MAX_ITEMS)]
    rest = len(texts) - len(shown)
    items = Items(tuple(Item(Quote(text)) for text in shown), f"and {rest:,} more" if rest else "")
    if limits.is_short:
        yield Details(count_text(len(texts), noun), (items,), command)
    else:
        yield Section(f"{noun.capitalize()}s", (items,))
