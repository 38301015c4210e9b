"""A stored run as text: its state, its counts and a line per result."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from agentv.reports.run.row_text import PLAIN_LABELS, RowLabels, row_reason, row_score
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, Paint, Signs, state_colour, without_colour
from agentv.reports.text.width import clip, pad
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord

_CASE_WIDTH = 24
_TARGET_WIDTH = 16
_STATES = ("pass", "borderline", "fail", "error", "skipped")


class RunView(Struct, frozen=True):
    """The layout of a run as text. `width` None: lines are not cut."""

    width: int | None = 80
    signs: Signs = UNICODE
    paint: Paint = without_colour

    def head(self, run: RunRecord, *, state: str, counts: Mapping[str, int]) -> str:
        """Return the lines above the results."""
        name = f"  {one_line(run.name)}" if run.name else ""
        return f"run {run.run_id}{name}  {state}  {run.created_at:%Y-%m-%d %H:%M} UTC\n{counts_text(counts)}\n"

    def rows(self, results: Iterable[CaseResult], labels: RowLabels = PLAIN_LABELS) -> Iterator[str]:
        """Yield one line per result, with the reason if it did not pass."""
        width = _CASE_WIDTH * 2 if labels.with_suite else _CASE_WIDTH
        for result in results:
            state = row_state(result)
            reason = "" if state == "pass" else row_reason(result)
            case = pad(clip(labels.label(result), width, mark=self.signs.ellipsis), width)
            target = pad(clip(one_line(result.slot.target), _TARGET_WIDTH, mark=self.signs.ellipsis), _TARGET_WIDTH)
            rest = f"{case} {target} {row_score(result):4}  {reason}".rstrip()
            shown = rest if self.width is None else clip(rest, self.width - 2, mark=self.signs.ellipsis)
            yield f"{self.paint(self.signs.marks[state], state_colour(state))} {shown}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return `12 results: 9 pass, 2 fail, 1 error`."""
    states = ", ".join(f"{counts[state]:,} {state}" for state in _STATES if counts.get(state))
    return f"{count_text(sum(counts.values()), 'result')}{f': {states}' if states else ''}"
