"""Comparisons to be laid out."""

import random
from collections.abc import Iterable, Sequence

from tests.support.rows import make_row

from agentv.reports.compare.compared import ExplainedComparison
from agentv.reports.compare.document import comparison_document
from agentv.reports.document.blocks import Document
from agentv.reports.document.text import TextRenderer
from agentv.scoring.comparison.case_differences import CaseDifference
from agentv.scoring.comparison.compare import Comparison, compare_sides
from agentv.scoring.comparison.explanations import Explain, Explanation, SideAnswer
from agentv.scoring.comparison.sides import Side, scored_row
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult


def side_of(label: str, rows: Iterable[CaseResult], about: JsonObject | None = None) -> Side:
    side = Side(label, about)
    for row in rows:
        side.add(scored_row(row))
    return side


def compared(before: Iterable[CaseResult], after: Iterable[CaseResult], *, label: str = "after") -> Comparison:
    return compare_sides(side_of("before", before), side_of(label, after), rng=random.Random(0))


def moved(name: str = "case") -> Comparison:
    """Return a comparison in which one case regressed and another improved."""
    before = [make_row(f"{name}-1"), make_row(f"{name}-2", score=0.0)]
    after = [make_row(f"{name}-1", score=0.0), make_row(f"{name}-2")]
    return compared(before, after)


def telling(
    before: str | None = None, after: str | None = None, *, question: str = "", answer: str | None = None
) -> Explain:
    """Return a reader that gives every case the same texts: the reasons before and after, a question and an answer."""
    explanation = Explanation(question, SideAnswer(answer, before), SideAnswer(answer, after))

    def explain(cases: Sequence[CaseDifference]) -> list[Explanation]:
        return [explanation] * len(cases)

    return explain


NOTHING = telling()


def document_of(*comparisons: Comparison, explain: Explain = NOTHING, max_listed: int = 10) -> Document:
    return comparison_document(tuple(ExplainedComparison(each, explain) for each in comparisons), max_listed)


def text_of(comparison: Comparison, explain: Explain = NOTHING, *, width: int | None = 80) -> str:
    return TextRenderer(width).render([document_of(comparison, explain=explain)])
