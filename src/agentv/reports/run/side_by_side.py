"""The answers to one case next to each other, by prompt and target: each with its score and the reason for it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct

from agentv.reports.run.row_text import PLAIN_LABELS, row_reason, row_score
from agentv.reports.run.views import RowDetail
from agentv.reports.text.printable import one_line, printable
from agentv.reports.text.signs import UNICODE, Paint, Signs, state_colour, without_colour
from agentv.reports.text.width import clip, display_width, pad, wrap_lines
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult

_MIN_COLUMN_WIDTH = 30
_COLUMN_GAP = 2
_MAX_ANSWER_LINES = 40
_MAX_TEXT_LINES = 12


class CaseAnswers(Struct, frozen=True):
    """The results of one case."""

    suite: str
    eval_id: str
    prompts: tuple[str | None, ...]
    targets: tuple[str, ...]
    cells: dict[tuple[str | None, str], tuple[RowDetail, ...]]
    """The results of each prompt and target, one for each trial."""

    @classmethod
    def of(cls, details: Sequence[RowDetail], order: PlanOrder) -> "CaseAnswers":
        """Return the results of one case in the order of the plan; `details` has at least one result."""
        details = sorted(details, key=lambda each: order.cell_index((each.result.prompt, each.result.slot.target)))
        cells: dict[tuple[str | None, str], tuple[RowDetail, ...]] = {}
        for each in sorted(details, key=lambda detail: detail.result.slot.trial):
            place = (each.result.prompt, each.result.slot.target)
            cells[place] = (*cells.get(place, ()), each)
        slots = [each.result.slot for each in details]
        return cls(
            suite=slots[0].suite,
            eval_id=slots[0].eval_id,
            prompts=tuple(dict.fromkeys(slot.prompt for slot in slots)),
            targets=tuple(dict.fromkeys(slot.target for slot in slots)),
            cells=cells,
        )

    @property
    def first(self) -> RowDetail:
        """The first result, for the data that all results of the case share."""
        return next(iter(self.cells.values()))[0]

    def rows(self) -> Iterator[tuple[str | None, Sequence[RowDetail]]]:
        """Yield each prompt with its results of all targets, which are shown side by side.

        If there is only one target, yield None with the results of all prompts.
        """
        if len(self.targets) == 1:
            yield None, [each for results in self.cells.values() for each in results]
            return
        for prompt in self.prompts:
            yield prompt, [each for target in self.targets for each in self.cells.get((prompt, target), ())]


def cases_of(rows: Iterable[CaseResult]) -> dict[tuple[str, str], list[CaseResult]]:
    """Return the results by suite and case, in the order of their first results."""
    results: dict[tuple[str, str], list[CaseResult]] = {}
    for row in rows:
        results.setdefault((row.slot.suite, row.slot.eval_id), []).append(row)
    return results


def reason_of(result: CaseResult) -> str:
    """Return why a result has its score: what was missed, or for a pass what its evaluators say."""
    if row_state(result) != "pass":
        return row_reason(result)
    return result.reasoning or "; ".join(result.hits)


class SideBySide(Struct, frozen=True):
    """The layout of the answers to one case as text, in `width` cells."""

    width: int = 80
    signs: Signs = UNICODE
    paint: Paint = without_colour

    def render(self, answers: CaseAnswers) -> str:
        """Return the text, ending with a newline. Every line of untrusted text is behind a gutter."""
        first = answers.first
        place = f"  ({one_line(first.result.file)}:{first.result.line})" if first.result.file else ""
        lines = [self.paint(self._clipped(f"case {one_line(answers.eval_id)}{place}"), "bold")]
        if first.case is not None:
            lines += self._section("expected outcome", first.case.expected_outcome, self.width, _MAX_TEXT_LINES)
            lines += self._section("reference answer", first.case.reference_answer or "", self.width, _MAX_TEXT_LINES)
        has_one_target = len(answers.targets) == 1
        for prompt, details in answers.rows():
            if not has_one_target and details:
                title = "question" if prompt is None else f"prompt {one_line(prompt)}"
                lines += ["", *self._section(title, _question(details[0]), self.width, _MAX_TEXT_LINES)]
            lines += ["", *self._columns(details, with_question=has_one_target)]
        return self.signs.escape_unsupported("\n".join(lines) + "\n")

    def _columns(self, details: Sequence[RowDetail], *, with_question: bool) -> Iterator[str]:
        """Yield results next to each other, as many as fit; the others follow below."""
        fitting = max(1, (self.width + _COLUMN_GAP) // (_MIN_COLUMN_WIDTH + _COLUMN_GAP))
        # Bands of equal length look better: four results where three fit become two bands of two.
        bands = math.ceil(len(details) / fitting)
        per_band = max(1, math.ceil(len(details) / max(1, bands)))
        width = (self.width + _COLUMN_GAP) // per_band - _COLUMN_GAP
        for start in range(0, len(details), per_band):
            cells = [self._cell(each, width, with_question=with_question) for each in details[start : start + per_band]]
            if start:
                yield ""
            for parts in zip_longest(*cells, fillvalue=("", "")):
                # Escape sequences of colours have no width, so texts are padded first.
                padded = [(pad(text, width), colour) for text, colour in parts]
                columns = (self.paint(text, colour) if colour else text for text, colour in padded)
                yield (" " * _COLUMN_GAP).join(columns).rstrip()

    def _cell(self, detail: RowDetail, width: int, *, with_question: bool) -> list[tuple[str, str]]:
        """Return the lines of one result, each with its colour, "" for none."""
        result = detail.result
        state = row_state(result)
        name = one_line(result.slot.target)
        if with_question:
            name = one_line(result.slot.target if result.prompt is None else result.prompt)
        score = row_score(result) or state
        head = f"{name}{PLAIN_LABELS.trial(result)}"
        shown = clip(head, max(width - display_width(score) - 4, 1), mark=self.signs.ellipsis)
        lines = [f"{self.signs.marks[state]} {shown}  {score}"]
        if with_question:
            lines += self._section("question", _question(detail), width, _MAX_TEXT_LINES)
        answer = result.candidate_answer or ("(empty)" if result.empty_answer else "")
        lines += self._section("answer", answer, width, _MAX_ANSWER_LINES)
        lines += self._section("reason", reason_of(result), width, _MAX_TEXT_LINES)
        return [(lines[0], state_colour(state)), *((line, "") for line in lines[1:])]

    def _section(self, title: str, text: str, width: int, max_lines: int) -> list[str]:
        """Return a title and a text behind a gutter, cut to `max_lines` lines."""
        if not text:
            return []
        lines = wrap_lines(self.signs.escape_unsupported(printable(text)).strip("\n"), width - 2)
        left_out = len(lines) - max_lines
        shown = lines[:max_lines] if left_out > 0 else lines
        more = [f"({left_out:,} more lines)"] if left_out > 0 else []
        return [clip(title, width, mark=self.signs.ellipsis), *(f"{self.signs.gutter} {line}" for line in shown), *more]

    def _clipped(self, text: str) -> str:
        return clip(text, self.width, mark=self.signs.ellipsis)


def _question(detail: RowDetail) -> str:
    return "" if detail.case is None else detail.case.last_question
