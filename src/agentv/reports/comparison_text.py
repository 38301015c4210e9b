"""Two runs side by side, as text: means, tests, the cases that changed, and last what it amounts to."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentv.reports.amounts import count_text, score_text
from agentv.reports.paint import Paint, without_colour
from agentv.reports.printable import one_line
from agentv.reports.signs import UNICODE, Signs
from agentv.reports.table import table
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.measured import MeasureDifference
from agentv.scoring.comparison.rows import evaluator_of

_LEAST_P = 0.0001


def difference_text(difference: float) -> str:
    """Return `+0.12`, `-0.03`; `0.00` for none at all, and never for a small one."""
    if not difference:
        return "0.00"
    return f"{difference:+.2f}" if abs(difference) >= 0.005 else f"{difference:+.1g}"  # noqa: PLR2004 - what rounds to 0.00


def chance_text(p: float | None) -> str:
    """Return a p value: `0.023`, `<0.0001`; `-` for None."""
    if p is None:
        return "-"
    return f"<{_LEAST_P}" if p < _LEAST_P else f"{p:.2g}"


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """How a comparison is laid out. `width` None means that nothing is wrapped or cut."""

    width: int | None = 80
    signs: Signs = UNICODE
    paint: Paint = without_colour

    def render(self, comparison: Comparison) -> str:
        """Return the whole text; its last line is the finding."""
        blocks = [
            self._head(comparison),
            table(_rows(comparison), self.width, self.paint),
            [finding_text(comparison)],
        ]
        return self.signs.within("\n\n".join("\n".join(block) for block in blocks if block) + "\n")

    def _head(self, comparison: Comparison) -> list[str]:
        return [
            f"before  {one_line(comparison.before.label)}",
            f"after   {one_line(comparison.after.label)}",
            f"paired  {count_text(len(comparison.cases), 'case')}",
        ]


def _rows(comparison: Comparison) -> Sequence[Sequence[str]]:
    head = ["", "before", "after", "difference", "p", "cases"]
    measured = [
        (name, each)
        for name, each in (("mean score", comparison.score), ("pass rate", comparison.passed))
        if each is not None
    ]
    measured += [(one_line(evaluator_of(each.measure) or ""), each) for each in comparison.evaluators]
    return [head, *(_row(name, each) for name, each in measured)]


def _row(name: str, measured: MeasureDifference) -> list[str]:
    return [
        name,
        score_text(measured.before),
        score_text(measured.after),
        difference_text(measured.difference),
        chance_text(measured.p),
        f"{measured.cases:,}",
    ]


def finding_text(comparison: Comparison) -> str:
    """Return the last line: better, worse, or no evidence of a difference."""
    return comparison.finding if comparison.finding != "no evidence" else "no evidence of a difference"
