"""Notes below the table of a run: its baseline, and pass rates corrected for a judge's errors."""

from collections.abc import Sequence

from agentv.reports.compare.rows import difference_text
from agentv.reports.text.amounts import count_text, percent_interval_text, percent_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Signs
from agentv.reports.text.width import clip
from agentv.types.summaries import BaselineSummary, CorrectedRate


def baseline_lines(summary: BaselineSummary, width: int | None, signs: Signs) -> list[str]:
    """Return the difference of the mean scores, how many cases moved, and the finding."""
    head = f"baseline  {one_line(summary.baseline)}"
    head = head if width is None else clip(head, width, mark=signs.ellipsis)
    if summary.difference is None:
        return [head, "          no case was judged in both"]
    found = summary.interval
    bounds = "" if found is None else f" ({difference_text(found.low)} to {difference_text(found.high)})"
    return [
        head,
        f"          mean {difference_text(summary.difference)}{bounds} over {cases_text(summary)}",
        f"          {summary.regressed:,} regressed, {summary.improved:,} improved",
        f"          {summary.finding}",
    ]


def cases_text(summary: BaselineSummary) -> str:
    """Return `9 cases in both, 1 in the baseline alone`: what is gone may be what broke."""
    lost = f", {summary.lost:,} in the baseline alone" if summary.lost else ""
    return f"{count_text(summary.cases, 'case')} in both{lost}"


def evaluator_difference(summary: BaselineSummary, evaluator: str) -> str:
    """Return how far an evaluator's mean moved; `-` where the baseline does not have it."""
    moved = summary.evaluators.get(evaluator)
    return "-" if moved is None else difference_text(moved)


CORRECTED_HEADS = ("judge: target", "it passes", "95 %", "corrected", "95 %", "labels")


def corrected_rows(rates: Sequence[CorrectedRate]) -> list[list[str]]:
    """Return a table of the judges' own pass rates and of those without their mistakes; nothing without any."""
    return [[*CORRECTED_HEADS], *map(corrected_cells, rates)] if rates else []


def corrected_cells(rate: CorrectedRate) -> list[str]:
    """Return one line of it."""
    judge = rate.evaluator if rate.criterion == rate.evaluator else f"{rate.evaluator}, {rate.criterion}"
    return [
        one_line(f"{judge}: {rate.target}"),
        f"{percent_text(rate.raw)} of {rate.judged:,}",
        percent_interval_text(rate.raw_interval),
        percent_text(rate.rate),
        percent_interval_text(rate.interval),
        f"{rate.labels:,}",
    ]


def corrected_notes(rates: Sequence[CorrectedRate]) -> list[str]:
    """Return why rates are not corrected, a line each."""
    return [
        f"not corrected for the mistakes of {one_line(rate.evaluator)}, target {one_line(rate.target)}: {rate.reason}"
        for rate in rates
        if rate.reason is not None
    ]
