"""What is behind the scores of compared cases: their texts, and the protocols of what reads and shows them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from agentv.scoring.comparison.case_differences import CaseDifference

if TYPE_CHECKING:
    from agentv.scoring.comparison.compare import Comparison


class SideAnswer(NamedTuple):
    """One side's answer to a case, and the reason for its score; None where only scores are stored."""

    answer: str | None = None
    """Empty if the target gave no answer."""
    reason: str | None = None
    has_full_score: bool = False
    """True if the score is 1, which needs no reason."""


class Explanation(NamedTuple):
    """What is behind the scores of a case: its question, what was expected, and what each side answered to it."""

    question: str = ""
    before: SideAnswer = SideAnswer()
    after: SideAnswer = SideAnswer()
    expected: str = ""
    """The reference answer, else the expected outcome."""


Explain: TypeAlias = Callable[[Sequence[CaseDifference]], Sequence[Explanation]]
"""Reads the explanations of cases from the compared runs, in the given order."""


class ComparisonOutputs(Protocol):
    """A reader of texts and a writer of reports, for the methods of Comparison."""

    def explain(self, cases: Sequence[CaseDifference]) -> Sequence[Explanation]:
        """Return what is behind the scores of cases, in their order."""

    def text(self, comparison: "Comparison") -> str:
        """Return what `agentv compare` prints at 80 columns."""

    def html(self, comparison: "Comparison") -> str:
        """Return what `agentv compare` prints, as HTML for a notebook."""

    def frame(self, comparison: "Comparison") -> Any:
        """Return a data frame with one row for each case."""
