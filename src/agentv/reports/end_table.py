"""What a run came to, as text: tables, histogram, evaluators, failing cases, files, and last the verdict."""

from collections.abc import Sequence

from agentv.reports.amounts import money_text, percent_text, score_text, seconds_text, tokens_text
from agentv.reports.paint import Paint, state_colour, without_colour
from agentv.reports.printable import one_line, printable
from agentv.reports.row_text import row_label, row_reason, row_score
from agentv.reports.signs import ASCII, UNICODE, Signs
from agentv.reports.text_width import clip, display_width, pad, wrap
from agentv.scoring.summary import row_state
from agentv.types.results import CaseResult, RunReport, TargetSummary
from agentv.types.usage import Usage

_NAME_WIDTH = 24
_REASON_LINES = 3


def end_report(
    report: RunReport,
    *,
    width: int | None = 80,
    unicode: bool = True,
    paint: Paint = without_colour,
    files: Sequence[str] = (),
) -> str:
    """Return the report that stands at the end of a run; the last line is the verdict with the exit code.

    `width` None means that nothing is wrapped or cut. `files` are exports that were written.
    """
    signs = UNICODE if unicode else ASCII
    blocks = [
        _table(_quality_rows(report.targets), paint),
        _table(_spending_rows(report.targets), paint),
        _histogram(report, signs),
        _table(_evaluator_rows(report), paint),
        _failing(report, width, signs, paint),
        [f"flaky  {one_line(case)}" for case in report.flaky],
        [f"note: {one_line(note)}" for note in report.notes],
        _files(report, files),
        [paint(_verdict(report), "green" if report.exit_code == 0 else "red")],
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
    return text if unicode else text.encode("ascii", "backslashreplace").decode()


def _quality_rows(targets: Sequence[TargetSummary]) -> list[list[str]]:
    if not targets:
        return []
    head = ["target", "pass rate", "mean", "pass", "borderline", "fail", "errors", "skipped"]
    return [head, *([_name(each.target), _rate(each), score_text(each.mean_score), *_states(each)] for each in targets)]


def _rate(target: TargetSummary) -> str:
    return f"{percent_text(target.pass_rate)} of {target.judged:,}" if target.judged else "none judged"


def _states(target: TargetSummary) -> list[str]:
    return [f"{target.counts.get(state, 0):,}" for state in ("pass", "borderline", "fail", "error", "skipped")]


def _spending_rows(targets: Sequence[TargetSummary]) -> list[list[str]]:
    if not targets:
        return []
    head = ["target", "cost", "judges' cost", "median", "p95", "tokens", "judges' tokens"]
    return [head, *(_spending(target) for target in targets)]


def _spending(target: TargetSummary) -> list[str]:
    return [
        _name(target.target),
        _cost(target.target_cost_usd, target.target_usage),
        _cost(target.judge_cost_usd, target.judge_usage),
        seconds_text(target.latency_median_s),
        seconds_text(target.latency_p95_s),
        _tokens(target.target_usage),
        _tokens(target.judge_usage),
    ]


def _cost(dollars: float | None, usage: Usage) -> str:
    """Return a cost; one that reports neither tokens nor a price has not cost nothing: it said nothing."""
    return "-" if dollars == 0 and usage == Usage() else money_text(dollars)


def _tokens(usage: Usage) -> str:
    return tokens_text(usage.total or usage.input + usage.output) if usage != Usage() else "-"


def _evaluator_rows(report: RunReport) -> list[list[str]]:
    if not report.evaluators:
        return []
    head = ["evaluator", "mean", "rows", "errors", "type"]
    return [
        head,
        *(
            [_name(e.name), score_text(e.mean_score), f"{e.judged:,}", f"{e.errors:,}", one_line(e.type)]
            for e in report.evaluators
        ),
    ]


def _name(text: str) -> str:
    return clip(one_line(text), _NAME_WIDTH, mark="..")


def _table(rows: Sequence[Sequence[str]], paint: Paint) -> list[str]:
    """Align columns: the first to the left, the others to the right; the head is dim."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            pad(cell, width, right=index > 0) for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [paint(lines[0], "dim"), *lines[1:]] if lines else []


def _histogram(report: RunReport, signs: Signs) -> list[str]:
    highest = max(report.histogram, default=0)
    if not highest:
        return []
    top = len(signs.bars) - 1
    bars = "".join(signs.bars[-(-count * top // highest)] * 3 if count else "   " for count in report.histogram)
    return [
        f"scores  0 {signs.gutter}{bars}{signs.gutter} 1   highest bar {highest:,} of {sum(report.histogram):,} rows"
    ]


def _failing(report: RunReport, width: int | None, signs: Signs, paint: Paint) -> list[str]:
    if not report.failing:
        return []
    lines = [paint(f"did not pass: {report.failing_total:,}", "bold")]
    for result in report.failing:
        lines.extend(_failing_case(result, width, signs, paint))
    rest = report.failing_total - len(report.failing)
    if rest > 0:
        lines.append(f"and {rest:,} more: agentv show {report.run_id} --failed")
    return lines


def _failing_case(result: CaseResult, width: int | None, signs: Signs, paint: Paint) -> list[str]:
    state = row_state(result)
    head = "  ".join(part for part in (row_label(result), one_line(result.slot.target), row_score(result)) if part)
    mark = paint(signs.marks[state], state_colour(state))
    reason = row_reason(result)
    if width is None:
        return [f"{mark} {head}  {reason}"]
    lines = wrap(reason, width - 4)
    kept = lines[:_REASON_LINES]
    if len(lines) > len(kept):
        kept[-1] = clip(f"{kept[-1]} {lines[_REASON_LINES]}", width - 4, mark=signs.ellipsis)
    return [f"{mark} {clip(head, width - 2, mark=signs.ellipsis)}", *(f"    {line}" for line in kept)]


def _files(report: RunReport, files: Sequence[str]) -> list[str]:
    written = ([f"run     {printable(report.folder)}"] if report.folder else []) + [
        f"wrote   {one_line(f)}" for f in files
    ]
    look = f"look    agentv show {report.run_id}" if report.folder else None
    return [*written, look] if look else written


def _verdict(report: RunReport) -> str:
    return f"{one_line(report.verdict.sentence)} Exit code {report.exit_code}."
