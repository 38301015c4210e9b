"""The pass rates of calibrated judges, raw and corrected, as text: the same in every format."""

from collections.abc import Sequence

from agentv.reports.amounts import percent_interval_text, percent_text
from agentv.reports.printable import one_line
from agentv.types.calibrations import CorrectedRate

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
