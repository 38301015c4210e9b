"""A case that did not pass as a line of the progress of a run."""

from collections.abc import Sequence

from agentv.reports.document.blocks import plain
from agentv.reports.progress.finished_cases import FinishedCase
from agentv.reports.run.cell_labels import CellLabels
from agentv.reports.run.failed_cases import variants
from agentv.reports.run.row_text import RowLabels, row_reason, row_score
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, Signs
from agentv.reports.text.width import clip, display_width, pad, wrap
from agentv.scoring.counting.matrix import PlanOrder
from agentv.types.events import RunStarted
from agentv.types.results import CaseName

_CASE_WIDTH = 10
_INDENT = 2
_MIN_REASON_WIDTH = 30
_MAX_PROMPTS = 4
_LEAST_REASON_WIDTH = 10
"""Less of a reason says nothing."""


class CaseLines:
    """Makes the lines of a run's cases. Names are not cut where it would make two of them alike."""

    def __init__(self, started: RunStarted, signs: Signs = UNICODE) -> None:
        self.labels = RowLabels.of_run(started)
        self.signs = signs
        self._order = PlanOrder(started.targets, started.prompts)

    def lines(self, mark: str, case: FinishedCase, width: int) -> Sequence[str]:
        """Return a case with how many of its results passed, the score of a single one, and the first reason.

        The prompts and targets that did not pass are named where there is room. The reason is cut to the line, and left
        out if nothing of it would be left; more than one line has only a case whose name is as long as that.
        """
        reason = self.signs.escape_unsupported(row_reason(case.result))
        heads = [self.signs.escape_unsupported(head).rstrip() for head in self._heads(mark, case, width)]
        for least in (_MIN_REASON_WIDTH, _LEAST_REASON_WIDTH):
            for head in heads:
                room = width - display_width(head) - 2
                if room >= min(least, display_width(reason)):
                    return [f"{head}  {clip(reason, room, mark=self.signs.ellipsis)}"]
        shortest = min(heads, key=display_width)
        first, *others = [shortest] if display_width(shortest) <= width else wrap(shortest, width - _INDENT)
        return [first, *(f"{' ' * _INDENT}{line}" for line in others)]

    def _heads(self, mark: str, case: FinishedCase, width: int) -> list[str]:
        """Return what stands before the reason, the form with most words first."""
        passed = "" if case.results == 1 else f"{case.passed:,} of {case.results:,}"
        name = self.labels.name(case.result)
        if case.failed:
            failed = sorted(case.failed, key=lambda each: self._order.cell_index((each.prompt, each.target)))
            head = f"{mark} {name}  {passed}"
            return [f"{head} passed ({self._variants(failed)})", f"{head} passed", head]
        names = [self._cell_name(case, None), self._cell_name(case, width * 3 // 7)]
        trial = self.labels.trial(case.result) if case.results == 1 else ""
        padding = 2 * _CASE_WIDTH + 1 if self.labels.with_target else _CASE_WIDTH
        texts = [pad(f"{each}{trial}", padding) for each in names]
        if case.results == 1:
            return [f"{mark} {text} {row_score(case.result)}" for text in texts]
        return [f"{mark} {text} {passed} passed" for text in texts] + [f"{mark} {texts[-1].rstrip()}  {passed}"]

    def _variants(self, failed: Sequence[CaseName]) -> str:
        """Return prompts with their targets; without the target if the run has only one."""
        prompts = [each.prompt for each in failed if each.prompt is not None]
        if self.labels.with_target or len(prompts) > _MAX_PROMPTS:
            return one_line(plain(variants(failed)))
        return one_line(", ".join(prompts))

    def _cell_name(self, case: FinishedCase, width: int | None) -> str:
        """Return the case with its target and prompt."""
        if width is None:
            return self.labels.case(case.result)
        row = case.result
        cells = CellLabels.of(self._order.targets, self._order.prompts, width, mark=self.signs.ellipsis)
        return " · ".join(filter(None, (self.labels.name(row), cells.text(row.slot.target, row.prompt))))
