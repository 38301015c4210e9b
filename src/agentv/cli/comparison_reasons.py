"""Why cases of a comparison got their scores: from the rows of its runs."""

from agentv.reports.comparison_words import FindReasons, Reasons, reason_of
from agentv.scoring.comparison.compare import CaseDifference
from agentv.scoring.comparison.sides import CaseName
from agentv.storage.find_scores import FoundScores


def reasons_of(before: FoundScores, after: FoundScores) -> FindReasons:
    """Return what tells the reasons for a case's scores on both sides: those of its lowest-scored row."""

    def find(case: CaseDifference) -> Reasons:
        return Reasons(_reason(before, case.pair.before), _reason(after, case.pair.after))

    return find


def _reason(found: FoundScores, name: CaseName) -> str | None:
    place = found.side.worst_row(name)
    if found.stored is None or place is None:
        return None
    return reason_of(next(found.stored.results_at([place])))
