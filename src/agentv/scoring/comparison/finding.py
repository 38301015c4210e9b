"""The finding of a comparison, in one line."""

from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.rows import evaluator_of
from agentv.types.summaries import BaselineSummary


def finding_text(comparison: Comparison) -> str:
    """Return better, worse, or "no evidence of a difference" with the number of cases that would be needed.

    The finding of independent samples ends with "unpaired".
    """
    unpaired = "" if comparison.is_paired else ", unpaired"
    if comparison.finding != "no evidence":
        return f"{comparison.finding}{unpaired}"
    return f"no evidence of a difference (n needed: {_needed(comparison)}){unpaired}"


def _needed(comparison: Comparison) -> str:
    if comparison.score is None:
        return "not known, no case can be compared"
    if not comparison.is_paired and comparison.detectable is None:
        return "not known, too few cases"
    if not comparison.score.difference:
        return "not known, the means are equal"
    if comparison.needed is None:
        return "more than 10,000,000"
    # Several runs need a larger difference than the single one this number is for.
    is_there = comparison.needed <= comparison.score.cases
    return f"more than {comparison.score.cases:,}" if is_there else f"{comparison.needed:,}"


def summarize_baseline(comparison: Comparison) -> BaselineSummary:
    """Return the comparison with the baseline, the earlier side, as a run's report shows it."""
    score, alignment = comparison.score, comparison.alignment
    paired = {pair.before[:2] for pair in alignment.pairs}
    return BaselineSummary(
        baseline=comparison.before.label,
        cases=0 if score is None else score.cases,
        finding=finding_text(comparison),
        difference=None if score is None else score.difference,
        interval=None if score is None else score.interval,
        improved=len(comparison.changed("improved")),
        regressed=len(comparison.changed("regressed")),
        evaluators={evaluator_of(each.measure) or "": each.difference for each in comparison.evaluators},
        lost=len({name[:2] for name in alignment.only_before} - paired),
    )
