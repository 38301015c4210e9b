"""A stored run as text: a list of its cases, each with the prompts and targets that did not pass."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.reports.run.cell_labels import CellLabels
from agentv.reports.run.row_text import RowLabels, broken_names, row_reason, row_score
from agentv.reports.run.views import counts_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, Paint, Signs, state_colour, without_colour
from agentv.reports.text.width import clip, clip_middle, display_width, pad
from agentv.scoring.gates.failing_cases import shown_first
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import CaseOutcome, RowState

_STATE, _CASE, _PASSED, _SCORE = "state", "case", "passed", "score"
"""The names of the columns."""
_MAX_NAME_WIDTH = 32
"""Longer names are not cut, but the texts behind them are not aligned."""
_MIN_TEXT_WIDTH = 16
_MIN_REASON_WIDTH = 30
"""If less is left for a reason that is cut, the names of its evaluators are shown, if there are several."""
_TEXT_WIDTH = 24
"""The cells that names of targets and prompts leave for the reason."""
_MAX_QUESTION_WIDTH = 120
"""The cells of a question where lines are not cut."""


class ListedCase(Struct, frozen=True):
    """A case in a list, with its prompts and targets."""

    outcomes: tuple[CaseOutcome, ...]
    """Each prompt and target with the result that is shown of it."""
    passed: int
    results: int
    """The number of all results of the case, `passed` of which passed."""
    question: str = ""

    @property
    def worst(self) -> CaseOutcome:
        """The first of the outcomes with the worst state."""
        return min(self.outcomes, key=lambda each: shown_first(each.result)[0])


class RunView(Struct, frozen=True):
    """The layout of a run as text."""

    width: int | None = 80
    """None: lines are not cut."""
    signs: Signs = UNICODE
    paint: Paint = without_colour
    is_full: bool = False
    """True if prompts and targets that passed have a line, too."""

    def head(self, run: RunRecord, *, state: str, counts: Mapping[str, int], targets: Sequence[str]) -> str:
        """Return the lines above the cases. A target is named if the run has only one."""
        name = f"  {one_line(run.name)}" if run.name else ""
        of_target = f" of {one_line(targets[0])}" if len(targets) == 1 else ""
        total, colon, states = counts_text(counts).partition(":")
        head = f"run {run.run_id}{name}  {state}  {run.created_at:%Y-%m-%d %H:%M} UTC"
        return f"{head}\n{self._clean(f'{total}{of_target}{colon}{states}')}\n"

    def cases(self, cases: Sequence[ListedCase], labels: RowLabels, cells: CellLabels) -> Iterator[str]:
        """Yield a line for each case with its question, and below it one for each prompt and target that did not pass.

        The first line has the names of the columns. With one prompt and target, only the reason is below. Names are
        not cut where it would make two of them alike.
        """
        columns = _Columns.of(cases, labels, cells)
        yield self.paint(columns.heads(), "dim")
        for case in cases:
            yield self._case(case, columns)
            for each in case.outcomes:
                if row_state(each.result) != "pass" or (self.is_full and not cells.is_single):
                    yield self._reason_line(each) if cells.is_single else self._cell(each, columns)

    def _case(self, case: ListedCase, columns: "_Columns") -> str:
        row, state = case.worst.result, row_state(case.worst.result)
        texts = [pad(state, columns.state_width), pad(columns.labels.name(row), columns.name_width)]
        texts += [pad(_passed_text(case.passed, case.results), columns.passed_width)] if columns.passed_width else []
        head = self._clean("  ".join((*texts, f"{row_score(row):5}")))
        room = _MAX_QUESTION_WIDTH if self.width is None else self.width - 2 - display_width(head) - 2
        if not case.question or room < _MIN_TEXT_WIDTH:
            return f"{self._mark(state)} {head.rstrip()}"
        question = clip_middle(self._clean(one_line(case.question)), room, mark=self.signs.ellipsis)
        return f"{self._mark(state)} {head}  {self.paint(question, 'dim')}"

    def _reason_line(self, outcome: CaseOutcome) -> str:
        return f"    {self._reason(outcome.result, 4)}"

    def _cell(self, outcome: CaseOutcome, columns: "_Columns") -> str:
        row, state = outcome.result, row_state(outcome.result)
        texts = [
            pad(state, columns.state_width),
            pad(columns.cells.text(row.slot.target, row.prompt), columns.cells.width),
        ]
        if columns.trials_width:
            texts.append(pad(_passed_text(outcome.results - outcome.failed, outcome.results), columns.trials_width))
        head = self._clean("  ".join((*texts, f"{row_score(row):5}")))
        line = f"  {self._mark(state)} {head}"
        used = 4 + display_width(head) + 2
        if state == "pass":
            return line.rstrip()
        if self.width is not None and self.width - used < _MIN_TEXT_WIDTH:
            return f"{line.rstrip()}\n      {self._reason(row, 6)}"
        return f"{line}  {self._reason(row, used)}"

    def _reason(self, row: CaseResult, indent: int) -> str:
        """Return why a result did not pass, cut to the line; if little is left for it, the names of its evaluators."""
        reason = self._clean(row_reason(row).removeprefix("error "))
        if self.width is None or display_width(reason) <= self.width - indent:
            return reason
        names = broken_names(row)
        is_short = len(names) > 1 and self.width - indent < _MIN_REASON_WIDTH
        shown = self._clean(", ".join(names)) if is_short else reason
        return clip(shown, self.width - indent, mark=self.signs.ellipsis)

    def _mark(self, state: RowState) -> str:
        return self.paint(self.signs.marks[state], state_colour(state))

    def _clean(self, text: str) -> str:
        return self.signs.escape_unsupported(text)

    def cell_labels(self, targets: Sequence[str], prompts: Sequence[str], *, has_trials: bool) -> CellLabels:
        """Return the labels of targets and prompts, cut if a line would have no room for a reason."""
        if self.width is None:
            return CellLabels.of(targets, prompts, None)
        others = 4 + len(_STATE) + 2 + (len("0 of 3") + 2 if has_trials else 0) + len(_SCORE) + 2 + 2
        return CellLabels.of(targets, prompts, self.width - others - _TEXT_WIDTH, mark=self.signs.ellipsis)


def _passed_text(passed: int, results: int) -> str:
    return f"{passed:,} of {results:,}"


class _Columns(Struct, frozen=True):
    """The labels and the widths of the columns of a list."""

    labels: RowLabels
    cells: CellLabels
    state_width: int
    name_width: int
    passed_width: int
    """0 if no case has several results."""
    trials_width: int
    """0 if no prompt and target of a case has several results."""

    @classmethod
    def of(cls, cases: Sequence[ListedCase], labels: RowLabels, cells: CellLabels) -> "_Columns":
        outcomes = [each for case in cases for each in case.outcomes]
        names = (display_width(labels.name(case.worst.result)) for case in cases)
        passed = [_passed_text(case.passed, case.results) for case in cases if case.results > 1]
        trials = [_passed_text(each.results, each.results) for each in outcomes if each.results > 1]
        return cls(
            labels,
            cells,
            max([len(_STATE), *(len(row_state(each.result)) for each in outcomes)]),
            max([len(_CASE), *(width for width in names if width <= _MAX_NAME_WIDTH)]),
            max([len(_PASSED), *map(len, passed)]) if passed else 0,
            max(map(len, trials), default=0),
        )

    def heads(self) -> str:
        """Return the names of the columns."""
        names = [pad(_STATE, self.state_width), pad(_CASE, self.name_width)]
        names += [pad(_PASSED, self.passed_width)] if self.passed_width else []
        return f"  {'  '.join((*names, _SCORE))}"
