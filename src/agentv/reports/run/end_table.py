"""The report at the end of a run as text: the cases that did not pass, tables, files, and the verdict."""

import shlex
from collections.abc import Collection, Iterator, Sequence

from agentv.reports.document.blocks import Facts, Histogram
from agentv.reports.document.text import TextRenderer
from agentv.reports.run.failed_cases import case_blocks, gate_outcomes
from agentv.reports.run.figures import (
    baseline_lines,
    corrected_lines,
    cost_text,
    estimated_note,
    evaluator_difference,
    has_histogram,
    has_tables,
    rate_text,
    shown_k,
    target_lines,
    usage_text,
)
from agentv.reports.run.row_text import PLAIN_LABELS, RowLabels
from agentv.reports.text.amounts import (
    money_text,
    percent_interval_text,
    percent_text,
    score_interval_text,
    score_text,
    seconds_text,
    took_text,
)
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import ASCII, UNICODE, Paint, Signs, without_colour
from agentv.reports.text.width import display_width, side_by_side, table, wrap
from agentv.types.results import RunReport
from agentv.types.summaries import MatrixSummary, TargetSummary, TrialSummary
from agentv.types.usage import Usage

_MAX_FLAKY = 10


def end_report(
    report: RunReport,
    *,
    width: int | None = 80,
    unicode: bool = True,
    paint: Paint = without_colour,
    files: Sequence[str] = (),
    labels: RowLabels = PLAIN_LABELS,
    is_full: bool = False,
    shown_notes: Collection[str] = (),
) -> str:
    """Return the report at the end of a run; the last line is the verdict with the exit code.

    `width` None: nothing is wrapped or cut. `files` are the written exports. Cases that did not pass have one line each
    if the gates allow them, unless `is_full`. Notes that were printed during the run, `shown_notes`, are left out.
    """
    signs = UNICODE if unicode else ASCII
    text = TextRenderer(width, signs, paint)
    is_short = report.exit_code == 0 and not is_full
    blocks = [
        *(list(text.block(each)) for each in case_blocks(report, labels, is_short=is_short)),
        *(_tables(report, text) if has_tables(report) else [list(text.block(target_lines(report)))]),
        corrected_lines(report.corrected, width, paint, signs),
        [] if report.baseline is None else baseline_lines(report.baseline, width, signs),
        list(text.block(_flaky(report.flaky))),
        list(text.block(Facts(tuple(("note", note) for note in report.notes if note not in shown_notes)))),
        _footer(report, files),
        *(list(text.block(each)) for each in gate_outcomes(report)),
        _verdict(report, width, signs, paint),
    ]
    return signs.escape_unsupported("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def _aligned(rows: Sequence[Sequence[str]], text: TextRenderer) -> list[str]:
    return table(rows, text.width, text.paint, mark=text.signs.ellipsis)


def _tables(report: RunReport, text: TextRenderer) -> Iterator[list[str]]:
    """Yield the tables of targets, the matrix, the histogram and the table of evaluators."""
    targets = report.targets
    tables = [_quality_rows(targets), _count_rows(targets), _spending_rows(targets)]
    yield from (_aligned(rows, text) for rows in side_by_side(tables, text.width))
    yield [estimated_note(targets)] if estimated_note(targets) else []
    yield _aligned(_trial_rows(targets), text)
    yield _matrix_lines(report.matrix, text)
    if has_histogram(report):
        yield list(text.block(Histogram(report.histogram)))
    yield _aligned(_evaluator_rows(report), text)


def _quality_rows(targets: Sequence[TargetSummary]) -> list[list[str]]:
    if not targets:
        return []
    return [["target", "pass rate", "95 % CI", "mean", "95 % CI"], *map(_quality_cells, targets)]


def _quality_cells(target: TargetSummary) -> list[str]:
    return [
        _name(target),
        rate_text(target),
        percent_interval_text(target.pass_rate_interval),
        score_text(target.mean_score),
        score_interval_text(target.mean_interval),
    ]


def _count_rows(targets: Sequence[TargetSummary]) -> list[list[str]]:
    if not targets:
        return []
    states = {"pass": "pass", "borderline": "borderline", "fail": "fail", "error": "errors"}
    if any(target.counts.get("skipped") for target in targets):
        states["skipped"] = "skipped"
    rows = [["target", *states.values()], *([_name(each), *_count_cells(each, states)] for each in targets)]
    for name in ("unverified", "clamped"):
        counts = [getattr(target, name) for target in targets]
        if any(counts):
            column = [name, *(f"{count:,}" for count in counts)]
            rows = [[*row, each] for row, each in zip(rows, column, strict=True)]
    return rows


def _trial_rows(targets: Sequence[TargetSummary]) -> list[list[str]]:
    """Return the table of pass@k and pass^k for the k of `shown_k`."""
    k = shown_k(targets)
    if not k:
        return []
    pairs = [(each, trial) for each in targets for trial in each.trials if trial.k == k]
    return [
        ["target", f"pass@{k}", "95 % CI", f"pass^{k}", "95 % CI", "cases"],
        *([_name(target), *_trial_cells(trial)] for target, trial in pairs),
    ]


def _trial_cells(trial: TrialSummary) -> list[str]:
    return [
        percent_text(trial.pass_at),
        percent_interval_text(trial.pass_at_interval),
        percent_text(trial.pass_hat),
        percent_interval_text(trial.pass_hat_interval),
        f"{trial.cases:,}",
    ]


def _name(target: TargetSummary) -> str:
    return one_line(target.target)


def _count_cells(target: TargetSummary, states: dict[str, str]) -> list[str]:
    return [f"{target.counts.get(state, 0):,}" for state in states]


def _spending_rows(targets: Sequence[TargetSummary]) -> list[list[str]]:
    if not targets:
        return []
    head = ["target", "cost", "judges' cost", "median", "p95", "tokens", "judges' tokens"]
    rows = [head, *(_spending_cells(target) for target in targets)]
    if all(target.judge_usage == Usage() and not target.judge_cost_usd for target in targets):
        rows = [[*row[:2], *row[3:6]] for row in rows]  # without the judges' columns, as no model judge was used
    if any(target.saved_usd for target in targets):
        saved = ["not billed", *(money_text(target.saved_usd) for target in targets)]
        column = rows[0].index("median")
        rows = [[*row[:column], each, *row[column:]] for row, each in zip(rows, saved, strict=True)]
    return rows


def _spending_cells(target: TargetSummary) -> list[str]:
    return [
        _name(target),
        cost_text(target.target_cost_usd, target.target_usage, is_estimated=target.is_target_estimated),
        cost_text(target.judge_cost_usd, target.judge_usage, is_estimated=target.is_judge_estimated),
        seconds_text(target.latency_median_s),
        seconds_text(target.latency_p95_s),
        usage_text(target.target_usage, is_estimated=target.is_target_estimated),
        usage_text(target.judge_usage, is_estimated=target.is_judge_estimated),
    ]


def _evaluator_rows(report: RunReport) -> list[list[str]]:
    if not report.evaluators:
        return []
    head = ["evaluator", "mean", "95 % CI", "results", "errors", "type"]
    rows = [
        head,
        *(
            [
                one_line(each.name),
                score_text(each.mean_score),
                score_interval_text(each.mean_interval),
                f"{each.judged:,}",
                f"{each.errors:,}",
                each.type,
            ]
            for each in report.evaluators
        ),
    ]
    if report.baseline is None:
        return rows
    differences = ["difference", *(evaluator_difference(report.baseline, each.name) for each in report.evaluators)]
    return [[*row[:3], each, *row[3:]] for row, each in zip(rows, differences, strict=True)]


def _matrix_lines(matrix: MatrixSummary | None, text: TextRenderer) -> list[str]:
    if matrix is None:
        return []
    from agentv.reports.run.matrix import matrix_lines  # noqa: PLC0415 - most runs have one prompt and one target

    return matrix_lines(matrix, text.width, text.paint, mark=text.signs.ellipsis)


def _flaky(cases: Sequence[str]) -> Facts:
    rest = len(cases) - _MAX_FLAKY
    more = [f"and {rest:,} more: see -o report.json"] if rest > 0 else []
    return Facts(tuple(("flaky", case) for case in (*cases[:_MAX_FLAKY], *more)))


def _footer(report: RunReport, files: Sequence[str]) -> list[str]:
    lines = [f"Took {took_text(report.duration_s)}", *(f"Wrote {one_line(file)}" for file in files)]
    if report.folder is not None:
        lines += [
            f"Saved to {one_line(report.folder)}",
            f"Details: agentv show {report.run_id} (in the browser: agentv view)",
        ]
        if report.baseline is not None and report.baseline.regressed + report.baseline.improved:
            earlier = shlex.quote(one_line(report.baseline.baseline))
            lines.append(f"Changes: agentv compare {earlier} {report.run_id}")
        if report.is_imported:
            return lines
        if report.state != "finished":
            lines.append(f"Resume: agentv resume {report.run_id} {report.needs}".rstrip())
        elif report.counts.get("error"):
            lines.append(f"Retry errors: agentv retry {report.run_id}")
    return lines


def _verdict(report: RunReport, width: int | None, signs: Signs, paint: Paint) -> list[str]:
    sentence, code = signs.escape_unsupported(one_line(report.verdict.sentence)), f"Exit code {report.exit_code}."
    lines = [sentence] if width is None else wrap(sentence, width)
    last = f"{lines[-1]} {code}"
    lines[-1:] = [last] if width is None or display_width(last) <= width else [lines[-1], code]
    return [paint(line, "green" if report.exit_code == 0 else "red") for line in lines]
