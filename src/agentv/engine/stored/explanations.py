"""The texts behind a comparison: read from stored runs or given results, and shown from Python."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from agentv.engine.stored.report_tools import CaseKey, case_key_of, texts_of
from agentv.reports.compare.changed_cases import answer_of_side
from agentv.reports.compare.compared import ExplainedComparison
from agentv.reports.compare.document import comparison_document
from agentv.reports.compare.frame import comparison_columns
from agentv.reports.document.html import HtmlRenderer
from agentv.reports.document.text import TextRenderer
from agentv.reports.run.data_frame import make_frame
from agentv.reports.text.markup import element
from agentv.scoring.comparison.case_differences import CaseDifference
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.explanations import Explanation, SideAnswer
from agentv.scoring.comparison.sides import RowPosition, Side
from agentv.storage.run.stored import StoredRun
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseName, CaseTexts


class TextSource(Protocol):
    """The results of one side, and the texts of its cases."""

    def results_at(self, places: Iterable[RowPosition]) -> Iterator[CaseResult]:
        """Yield the results at these places; nothing if they are gone."""

    def texts(self, names: Collection[CaseName]) -> Mapping[CaseKey, CaseTexts]:
        """Return the known texts of cases by suite, id and prompt."""


class StoredSource(Struct, frozen=True):
    """The texts of a stored run; none if its folder was deleted."""

    stored: StoredRun

    def results_at(self, places: Iterable[RowPosition]) -> Iterator[CaseResult]:
        """Yield the results at these places; nothing if the folder was deleted."""
        return self.stored.results_at(places) if self.stored.folder.is_dir() else iter(())

    def texts(self, names: Collection[CaseName]) -> Mapping[CaseKey, CaseTexts]:
        """Return the texts of planned cases by suite, id and prompt."""
        if not self.stored.folder.is_dir():
            return {}
        records = self.stored.cases_named({(name.suite, name.eval_id) for name in names})
        return {case_key_of(each): texts_of(each) for each in records}


class GivenSource(Struct, frozen=True):
    """The texts of results in memory; the line number of a position counts the results from 1."""

    results: Sequence[CaseResult]
    case_texts: Mapping[CaseKey, CaseTexts]

    def results_at(self, places: Iterable[RowPosition]) -> Iterator[CaseResult]:
        """Yield the results at these places."""
        return (self.results[place.line - 1] for place in places)

    def texts(self, _names: Collection[CaseName]) -> Mapping[CaseKey, CaseTexts]:
        """Return the texts of all cases by suite, id and prompt."""
        return self.case_texts


class ComparedSide(Struct, frozen=True):
    """One side of a comparison, and the source of its texts; None where only scores are stored."""

    side: Side
    source: TextSource | None = None


class Explainer(Struct, frozen=True):
    """Reads what is behind the scores of cases: their texts, and the results that differ most."""

    before: ComparedSide
    after: ComparedSide
    has_questions: bool = True
    """False for the groups of two runs: to read the planned cases once for each group would be slow."""

    def __call__(self, cases: Sequence[CaseDifference]) -> list[Explanation]:
        """Return what is behind the scores of cases, in their order."""
        explanations = []
        for case, texts in zip(cases, self._texts(cases), strict=True):
            old, new = case.pair.before, case.pair.after
            if case.difference < 0:
                rows = self.before.side.best_row(old), self.after.side.worst_row(new)
            else:
                rows = self.before.side.worst_row(old), self.after.side.best_row(new)
            answers = _answer_at(self.before.source, rows[0]), _answer_at(self.after.source, rows[1])
            explanations.append(Explanation(texts.question, *answers, texts.expected))
        return explanations

    def _texts(self, cases: Sequence[CaseDifference]) -> list[CaseTexts]:
        """Return the texts of cases as the later run has them, else as the earlier one has; empty if none is known."""
        names, source = [case.pair.after for case in cases], self.after.source
        if source is None:
            names, source = [case.pair.before for case in cases], self.before.source
        found = {} if source is None or not self.has_questions else source.texts(names)
        return [found.get((name.suite, name.eval_id, name.prompt), CaseTexts()) for name in names]


def _answer_at(source: TextSource | None, place: RowPosition | None) -> SideAnswer:
    result = None if source is None or place is None else next(iter(source.results_at([place])), None)
    return SideAnswer() if result is None else answer_of_side(result)


class ShownComparison(Struct, frozen=True):
    """Shows a comparison as `agentv compare` does (`str`, notebooks, Comparison.to_dataframe)."""

    explain: Explainer

    def text(self, comparison: Comparison) -> str:
        """Return what `agentv compare` prints at 80 columns."""
        document = comparison_document((ExplainedComparison(comparison, self.explain),))
        return TextRenderer().render([document]).rstrip("\n")

    def html(self, comparison: Comparison) -> str:
        """Return what `agentv compare` prints, as HTML for a notebook."""
        document = comparison_document((ExplainedComparison(comparison, self.explain),))
        return element("div", *HtmlRenderer().document(document)).markup

    def frame(self, comparison: Comparison) -> Any:
        """Return a data frame with one row for each case."""
        return make_frame(comparison_columns(comparison, self.explain))
