"""How a run stands to its baseline, in the lines of its report."""

from agentv.reports.amounts import count_text
from agentv.reports.comparison_rows import difference_text
from agentv.reports.printable import one_line
from agentv.reports.signs import Signs
from agentv.reports.text_width import clip
from agentv.types.baselines import BaselineSummary


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
