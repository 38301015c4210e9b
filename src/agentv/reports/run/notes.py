"""The baseline of a run, and pass rates corrected for judge errors, as text."""

from collections.abc import Sequence

from agentv.reports.compare.rows import difference_text
from agentv.reports.text.amounts import count_text, percent_interval_text, percent_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Signs
from agentv.reports.text.width import clip
from agentv.types.summaries import BaselineSummary, CorrectedRate


def baseline_lines(summary: BaselineSummary, width: int | None, signs: Signs) -> list[str]:
    """Return the difference of the mean scores, the numbers of changed cases, and the finding."""
    head = f"baseline  {one_line(summary.baseline)}"
    head = head if width is None else clip(head, width, mark=signs.ellipsis)
    if summary.difference is None:
        return [head, "          no case was scored in both"]
    found = summary.interval
    bounds = "" if found is None else f" ({difference_text(found.low)} to {difference_text(found.high)})"
    return [
        head,
        f"          mean {difference_text(summary.difference)}{bounds} over {cases_text(summary)}",
        f"          {summary.regressed:,} regressed, {summary.improved:,} improved",
        f"          {summary.finding}",
    ]


def cases_text(summary: BaselineSummary) -> str:
    """Return `9 cases in both, 1 only in the baseline`; a missing case may hide a regression."""
    lost = f", {summary.lost:,} only in the baseline" if summary.lost else ""
    return f"{count_text(summary.cases, 'case')} in both{lost}"


def evaluator_difference(summary: BaselineSummary, evaluator: str) -> str:
    """Return the change of an evaluator's mean; `-` if the baseline does not have it."""
    moved = summary.evaluators.get(evaluator)
    return "-" if moved is None else difference_text(moved)


CORRECTED_HEADS = ("judge: target", "pass rate", "95 % CI", "corrected", "95 % CI", "labels")


def corrected_rows(rates: Sequence[CorrectedRate]) -> list[list[str]]:
    """Return a table of the judges' pass rates, raw and corrected; empty without any."""
    return [[*CORRECTED_HEADS], *map(corrected_cells, rates)] if rates else []


def corrected_cells(rate: CorrectedRate) -> list[str]:
    """Return a row of the table, in the order of `CORRECTED_HEADS`."""
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
    """Return why rates are not corrected, one line each."""
    return [
        f"not corrected for errors of judge {one_line(rate.evaluator)}, target {one_line(rate.target)}: {rate.reason}"
        for rate in rates
        if rate.reason is not None
    ]
